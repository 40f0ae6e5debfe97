import { randomBytes } from "node:crypto";
import type { ProviderSettings } from "../../../config/providers.ts";
import type { TrustedIssuer } from "../../../config/trusted-issuers.ts";
import type { Outbound } from "../../../identity/outbound.ts";
import { discover, readPublicKeys } from "../../../identity/remote-keys.ts";
import { isSignInFailure } from "./failure.ts";
import { Flows } from "./flow.ts";
import type { Protocol, Registration } from "./protocol.ts";
import { type Provider, type ProviderContext, urlOf } from "./provider.ts";

/** What a check of a provider's settings has found, and what to do about it. */
export type Check = { readonly level: "ok" | "note" | "warning" | "error"; readonly text: string };

export const ok = (text: string): Check => ({ level: "ok", text });
export const note = (text: string): Check => ({ level: "note", text });
export const warning = (text: string): Check => ({ level: "warning", text });
export const error = (text: string): Check => ({ level: "error", text });

export type DiagnosisOptions = {
  /** The public URL of the service. */
  readonly baseUrl: string;
  readonly outbound: Outbound;
  readonly protocols: readonly Protocol[];
  /** Milliseconds since 1970. */
  readonly now: number;
};

/**
 * Checks the settings of a provider by asking the provider: its metadata and keys, whether it knows the client, and whether it
 * accepts the request with which a sign-in begins. It signs no user in.
 */
export async function diagnose(settings: ProviderSettings, options: DiagnosisOptions): Promise<readonly Check[]> {
  const { baseUrl, outbound, protocols, now } = options;
  const [once, log] = [{ keep: async () => true }, { error: () => {} }];
  const context: ProviderContext = { baseUrl, outbound, clock: () => now, once, log };
  return protocolOf(settings, protocols).diagnose(settings, context);
}

const protocolOf = (settings: ProviderSettings, protocols: readonly Protocol[]) =>
  protocols.find(({ kind }) => kind === settings.kind)!;

/** Checks an issuer of JWT_ISSUERS by reading its keys. */
export async function diagnoseIssuer(
  { issuer, jwksUrl }: TrustedIssuer,
  outbound: Outbound,
): Promise<readonly Check[]> {
  try {
    return [await checkKeys(jwksUrl ?? String((await discover(issuer, outbound)).jwks_uri), outbound)];
  } catch (cause) {
    return [error(`${reasonOf(cause)}. The issuer must be exactly as its tokens spell it; or set jwksUrl`)];
  }
}

export async function checkKeys(url: string, outbound: Outbound): Promise<Check> {
  try {
    const count = readPublicKeys(await outbound.json(url)).length;
    return ok(`the key set has ${count} key${count === 1 ? "" : "s"} that can verify tokens`);
  } catch (cause) {
    return error(`the keys cannot be read: ${reasonOf(cause)}`);
  }
}

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

/** The name of the protocol, and what must be registered at the provider. */
export function describeProvider(
  settings: ProviderSettings,
  { baseUrl, protocols }: Pick<DiagnosisOptions, "baseUrl" | "protocols">,
): { readonly protocol: string; readonly registration: Registration } {
  const url = (end: string) => urlOf({ baseUrl }, settings, end);
  const protocol = protocolOf(settings, protocols);
  return { protocol: protocol.title, registration: protocol.registration(settings, url) };
}

/** The reason for operators; clients get less. */
export const reasonOf = (cause: unknown) => (isSignInFailure(cause) ? cause.more.detail! : (cause as Error).message);
