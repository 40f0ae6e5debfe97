import { createPrivateKey, X509Certificate } from "node:crypto";
import { type Check, error, note, ok, warning } from "../../identity/diagnosis.ts";
import { checkStart, reasonOf } from "../federated/diagnosis.ts";
import type { ProviderContext } from "../federated/provider.ts";
import { SamlProvider } from "./provider.ts";
import type { SamlSettings } from "./settings.ts";

const DAY = 86_400_000;

/** Checks the settings of a provider by reading its metadata and opening the URL at which a sign-in begins. */
export async function diagnose(settings: SamlSettings, context: ProviderContext): Promise<readonly Check[]> {
  const provider = new SamlProvider(settings, context);
  const now = context.clock();
  const checks: Check[] = settings.keys.flatMap(({ privateKey, certificate }, i) => {
    const own = new X509Certificate(certificate);
    const belongs = own.checkPrivateKey(createPrivateKey(privateKey));
    const pair = belongs ? [] : [error(`keys[${i}]: the certificate is not that of the private key`)];
    return [...pair, ...checkEnd(`the certificate of keys[${i}]`, own, now)];
  });
  try {
    const { entityId, certificates, logoutUrl, wantsSignedRequests } = await provider.metadata();
    checks.push(ok(`the metadata are those of ${entityId}`));
    if (settings.issuer === null && "url" in settings.metadata) {
      checks.push(note(`set issuer to ${entityId}: then the provider cannot use the entity id of another one`));
    }
    for (const pem of certificates) {
      checks.push(...checkEnd("a certificate of the provider", new X509Certificate(pem), now));
    }
    if (settings.keys.length === 0) {
      const text = "keys is empty: requests are not signed, and assertions cannot be encrypted";
      checks.push(wantsSignedRequests ? error(`${text}. The provider requires signed requests`) : note(text));
    }
    if (logoutUrl === null) {
      checks.push(
        note("the provider has no logout URL with the Redirect binding: sign-out ends only the session here"),
      );
    }
  } catch (cause) {
    return [...checks, error(reasonOf(cause))];
  }
  return [...checks, await checkStart(provider, context)];
}

function checkEnd(what: string, { validTo }: X509Certificate, now: number): Check[] {
  const days = Math.floor((Date.parse(validTo) - now) / DAY);
  if (days > 30) return [];
  return [warning(days < 0 ? `${what} expired on ${validTo}` : `${what} expires in ${days} days: add the next one`)];
}
