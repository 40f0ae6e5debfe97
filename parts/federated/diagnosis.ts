import { randomBytes } from "node:crypto";
import { type Check, error, ok } from "../../identity/diagnosis.ts";
import type { DiagnoseProvider } from "../../rest-gateway/auth/federated.ts";
import { isSignInFailure } from "./failure.ts";
import { Flows } from "./flow.ts";
import { protocolsIn } from "./protocol.ts";
import { type Provider, type ProviderContext, urlOf } from "./provider.ts";

/**
 * Checks the settings of a provider by asking the provider: its metadata and keys, whether it knows the client, and whether it
 * accepts the request with which a sign-in begins. It signs no user in.
 */
export const diagnoseProvider: DiagnoseProvider = async (settings, { providerKinds, baseUrl, outbound, now }) => {
  const context: ProviderContext = { baseUrl, outbound, clock: () => now, log: { error: () => {} } };
  const protocol = protocolsIn(providerKinds).find(({ kind }) => kind === settings.kind)!;
  return {
    protocol: protocol.title,
    registration: protocol.registration(settings, (end) => urlOf({ baseUrl }, settings, end)),
    checks: await protocol.diagnose(settings, context),
  };
};

/** Opens the URL at which a sign-in begins, as a browser does. */
export async function checkStart(provider: Provider, { outbound, baseUrl }: ProviderContext): Promise<Check> {
  try {
    const url = await provider.begin(new Flows(randomBytes(32).toString("hex")).create());
    const response = await outbound.fetch(url, { headers: { accept: "text/html" } });
    const location = response.headers.get("location") ?? "";
    const [, code] = location.startsWith(baseUrl) ? (/[?&]error=(\w{1,50})/.exec(location) ?? []) : [];
    if (code === undefined && response.status < 400) return ok("the provider accepts the sign-in request");
    const reason = code === undefined ? `status ${response.status}` : `the error ${code}`;
    return error(
      `the provider rejects the sign-in request with ${reason}: compare the URLs above with those registered there`,
    );
  } catch (cause) {
    return error(`a sign-in cannot begin: ${reasonOf(cause)}`);
  }
}

/** The reason for operators; clients get less. */
export const reasonOf = (cause: unknown) => (isSignInFailure(cause) ? cause.more.detail! : (cause as Error).message);
