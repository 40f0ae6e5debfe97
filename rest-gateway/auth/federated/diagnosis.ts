import { randomBytes } from "node:crypto";
import type { OAuth2Settings, OidcSettings, ProviderSettings } from "../../../config/providers.ts";
import type { TrustedIssuer } from "../../../config/trusted-issuers.ts";
import type { Outbound } from "../../../identity/outbound.ts";
import { discover, readPublicKeys } from "../../../identity/remote-keys.ts";
import { isSignInFailure } from "./failure.ts";
import { Flows } from "./flow.ts";
import { OAuth2Provider } from "./oauth2.ts";
import { discoverOidc, OidcProvider } from "./oidc.ts";
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
  /** Besides OpenID Connect and OAuth 2.0. */
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
  switch (settings.kind) {
    case "oidc":
      return diagnoseOidc(settings as OidcSettings, context);
    case "oauth2":
      return diagnoseOAuth2(settings as OAuth2Settings, context);
    default:
      return protocolOf(settings, protocols).diagnose(settings, context);
  }
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

async function diagnoseOidc(settings: OidcSettings, context: ProviderContext): Promise<readonly Check[]> {
  let metadata: Readonly<Record<string, unknown>>;
  try {
    metadata = await discoverOidc(settings, context);
  } catch (cause) {
    return [error(`${reasonOf(cause)}. The issuer must be exactly as the provider spells it`)];
  }
  const supports = (field: string, value: string) => {
    const values = metadata[field];
    return !Array.isArray(values) || values.includes(value);
  };
  const checks: Check[] = [
    ok("the metadata name this issuer"),
    await checkKeys(String(metadata.jwks_uri), context.outbound),
  ];
  if (!supports("response_types_supported", "code")) checks.push(error("the provider does not support the code flow"));
  if (!supports("code_challenge_methods_supported", "S256")) {
    checks.push(warning("the provider does not list PKCE with S256: it may reject the code challenge"));
  }
  const unknown = settings.scopes.filter((scope) => !supports("scopes_supported", scope));
  if (unknown.length > 0) checks.push(warning(`the provider does not list the scopes ${unknown.join(", ")}`));
  if (metadata.end_session_endpoint === undefined) {
    checks.push(note("the provider has no end-session endpoint: sign-out ends only the session here"));
  }
  const isBasic = settings.clientAuthentication
    ? settings.clientAuthentication === "basic"
    : !supports("token_endpoint_auth_methods_supported", "client_secret_post");
  checks.push(await checkClient(settings, String(metadata.token_endpoint), isBasic, context));
  checks.push(await checkStart(new OidcProvider(settings, context), context));
  return checks;
}

const diagnoseOAuth2 = async (settings: OAuth2Settings, context: ProviderContext): Promise<readonly Check[]> => [
  await checkClient(settings, settings.tokenUrl, settings.clientAuthentication === "basic", context),
  await checkStart(new OAuth2Provider(settings, context), context),
];

async function checkKeys(url: string, outbound: Outbound): Promise<Check> {
  try {
    const count = readPublicKeys(await outbound.json(url)).length;
    return ok(`the key set has ${count} key${count === 1 ? "" : "s"} that can verify tokens`);
  } catch (cause) {
    return error(`the keys cannot be read: ${reasonOf(cause)}`);
  }
}

/**
 * Checks clientId and clientSecret by exchanging an invalid code: if they are right, the provider rejects the code, otherwise the
 * client. Source: RFC 6749, 5.2.
 */
async function checkClient(
  settings: OidcSettings | OAuth2Settings,
  tokenUrl: string,
  isBasic: boolean,
  context: ProviderContext,
): Promise<Check> {
  const { clientId, clientSecret } = settings;
  const form = new URLSearchParams({
    grant_type: "authorization_code",
    code: "a-code-that-does-not-exist",
    code_verifier: "a-verifier-that-does-not-belong-to-any-code",
    redirect_uri: urlOf(context, settings, "callback"),
    ...(!isBasic && { client_id: clientId, ...(clientSecret !== null && { client_secret: clientSecret }) }),
  });
  const headers = {
    accept: "application/json",
    "content-type": "application/x-www-form-urlencoded",
    ...(isBasic && {
      authorization: `Basic ${btoa([clientId, clientSecret ?? ""].map(encodeURIComponent).join(":"))}`,
    }),
  };
  try {
    const response = await context.outbound.fetch(tokenUrl, { method: "POST", headers, body: form });
    const { error: code } = ((await response.json().catch(() => ({}))) ?? {}) as { readonly error?: unknown };
    if (code === "invalid_grant") return ok("the provider accepts clientId and clientSecret");
    if (code === "invalid_client" || code === "unauthorized_client" || response.status === 401) {
      const sent = isBasic ? "basic" : "post";
      return error(`the provider rejects clientId or clientSecret, sent with clientAuthentication ${sent}`);
    }
    return note(`the client cannot be checked: the token endpoint returned status ${response.status} for a wrong code`);
  } catch (cause) {
    return error(`the token endpoint does not respond: ${reasonOf(cause)}`);
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
  const redirect = ["redirect URI", url("callback")] as const;
  switch (settings.kind) {
    case "oidc":
      return { protocol: "OpenID Connect", registration: [redirect, ["post-logout redirect URI", url("logout")]] };
    case "oauth2":
      return { protocol: "OAuth 2.0", registration: [redirect] };
    default: {
      const protocol = protocolOf(settings, protocols);
      return { protocol: protocol.title, registration: protocol.registration(settings, url) };
    }
  }
}

/** The reason for operators; clients get less. */
export const reasonOf = (cause: unknown) => (isSignInFailure(cause) ? cause.more.detail! : (cause as Error).message);
