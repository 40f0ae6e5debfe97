import * as oauth from "openid-client";
import type { OAuth2Settings, OidcSettings } from "../../../config/providers.ts";
import { OutboundError } from "../../../identity/outbound.ts";
import { SignInFailure } from "./failure.ts";
import type { Flow } from "./flow.ts";
import { type ProviderContext, urlOf } from "./provider.ts";

type ClientSettings = OidcSettings | OAuth2Settings;

/** The parameters of an authorization request with PKCE. */
export async function authorizationParameters(
  context: ProviderContext,
  settings: ClientSettings,
  { state, nonce, codeVerifier }: Flow,
): Promise<URLSearchParams> {
  return new URLSearchParams({
    ...settings.parameters,
    response_type: "code",
    redirect_uri: urlOf(context, settings, "callback"),
    ...(settings.scopes.length > 0 && { scope: settings.scopes.join(" ") }),
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: "S256",
    ...(settings.kind === "oidc" && { nonce }),
  });
}

/** How the client authenticates at the token endpoint. `methods` are those that the provider supports. */
export function clientAuthentication(
  { clientSecret, clientAuthentication: chosen }: ClientSettings,
  methods?: unknown,
): oauth.ClientAuth {
  if (clientSecret === null) return oauth.None();
  const prefersBasic = Array.isArray(methods) && !methods.includes("client_secret_post");
  const isBasic = chosen === null ? prefersBasic : chosen === "basic";
  return isBasic ? oauth.ClientSecretBasic(clientSecret) : oauth.ClientSecretPost(clientSecret);
}

/** Sets what every request to a provider needs. */
export function prepare(configuration: oauth.Configuration, { outbound }: ProviderContext, isInsecure: boolean): void {
  configuration[oauth.customFetch] = outbound.fetch;
  // Outbound allows http on loopback addresses only, and only in tests.
  if (isInsecure) oauth.allowInsecureRequests(configuration);
}

/** Rebuilds the URL of the callback: the Host of the request is not trusted. */
export function callbackUrl(context: ProviderContext, settings: ClientSettings, response: URLSearchParams): URL {
  const url = new URL(urlOf(context, settings, "callback"));
  url.search = response.toString();
  return url;
}

/** OAuth error codes that are the decision of the user or of the provider about the user. Source: RFC 6749, OpenID Connect. */
const REFUSALS = new Set(["access_denied", "login_required", "consent_required", "interaction_required"]);

/** The result of a request to a provider. Rejects with SignInFailure. */
export async function orFailure<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw failureOf(error);
  }
}

/** Turns an error of the library into a SignInFailure. Nothing that the provider has sent is repeated, save its error code. */
function failureOf(error: unknown): SignInFailure {
  if (error instanceof SignInFailure) return error;
  if (error instanceof OutboundError) return new SignInFailure("unavailable", error.message, { cause: error });
  if (error instanceof oauth.AuthorizationResponseError) {
    const reason = REFUSALS.has(error.error) ? "cancelled" : "unavailable";
    return new SignInFailure(reason, `the provider returned the error ${wordOf(error.error)}`);
  }
  if (error instanceof oauth.ResponseBodyError) {
    return new SignInFailure("not verified", `the provider returned the error ${wordOf(error.error)}`);
  }
  const cause = (error as { cause?: unknown }).cause;
  if (cause instanceof OutboundError) return new SignInFailure("unavailable", cause.message, { cause });
  return new SignInFailure("not verified", (error as Error).message);
}

const wordOf = (code: string) => (/^[\w.-]{1,50}$/.test(code) ? code : "of an unknown form");
