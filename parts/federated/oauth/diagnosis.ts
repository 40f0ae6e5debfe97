import { type Check, checkKeys, error, note, ok, warning } from "../../../identity/diagnosis.ts";
import { checkStart, reasonOf } from "../diagnosis.ts";
import { type ProviderContext, urlOf } from "../provider.ts";
import { OAuth2Provider } from "./oauth2.ts";
import { discoverOidc, OidcProvider } from "./oidc.ts";
import type { OAuth2Settings, OidcSettings } from "./settings.ts";

export async function diagnoseOidc(settings: OidcSettings, context: ProviderContext): Promise<readonly Check[]> {
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

export const diagnoseOAuth2 = async (settings: OAuth2Settings, context: ProviderContext): Promise<readonly Check[]> => [
  await checkClient(settings, settings.tokenUrl, settings.clientAuthentication === "basic", context),
  await checkStart(new OAuth2Provider(settings, context), context),
];

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
