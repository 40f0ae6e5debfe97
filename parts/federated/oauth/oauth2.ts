import * as oauth from "openid-client";
import { isLoopbackUrl } from "../../../config/json-file.ts";
import { OutboundError } from "../../../identity/outbound.ts";
import type { Problem } from "../../../problems/problem.ts";
import { isSignInFailure, signInFailure } from "../failure.ts";
import type { Flow } from "../flow.ts";
import { type ConfirmedIdentity, identityOf, type Provider, type ProviderContext, urlOf } from "../provider.ts";
import type { OAuth2Settings, OidcSettings } from "./settings.ts";

/**
 * A provider of OAuth 2.0 without ID tokens: the code is exchanged for an access token, with which the service reads the
 * profile of the user.
 */
export class OAuth2Provider implements Provider {
  readonly settings: OAuth2Settings;
  readonly sameSite = "Lax";
  readonly #context: ProviderContext;
  readonly #configuration: oauth.Configuration;

  constructor(settings: OAuth2Settings, context: ProviderContext) {
    this.settings = settings;
    this.#context = context;
    const { issuer, authorizationUrl, tokenUrl, clientId } = settings;
    const metadata = { issuer, authorization_endpoint: authorizationUrl, token_endpoint: tokenUrl };
    this.#configuration = new oauth.Configuration(metadata, clientId, undefined, clientAuthentication(settings));
    prepare(this.#configuration, context, isLoopbackUrl(tokenUrl));
  }

  async issuer(): Promise<string> {
    return this.settings.issuer;
  }

  begin(flow: Flow): Promise<string> {
    return orFailure(async () => {
      const parameters = await authorizationParameters(this.#context, this.settings, flow);
      return oauth.buildAuthorizationUrl(this.#configuration, parameters).href;
    });
  }

  finish(response: URLSearchParams, { state, codeVerifier }: Flow): Promise<ConfirmedIdentity> {
    return orFailure(async () => {
      const url = callbackUrl(this.#context, this.settings, response);
      // Without an issuer in the settings there is nothing to compare it with.
      if (this.settings.issuer === this.settings.tokenUrl) url.searchParams.delete("iss");
      const checks = { expectedState: state, pkceCodeVerifier: codeVerifier };
      const { access_token } = await oauth.authorizationCodeGrant(this.#configuration, url, checks);
      const values = await this.#profile(access_token);
      return identityOf(this.settings, this.settings.issuer, { subject: null, values, signIn: null });
    });
  }

  async #profile(accessToken: string): Promise<unknown> {
    const url = new URL(this.settings.userinfoUrl);
    const headers = new Headers({ accept: "application/json" });
    const response = await oauth.fetchProtectedResource(
      this.#configuration,
      accessToken,
      url,
      "GET",
      undefined,
      headers,
    );
    if (response.status !== 200) {
      throw signInFailure("unavailable", `${url.origin} returned status ${response.status} for the profile`);
    }
    // The error of the parser quotes the text.
    return response.json().catch(() => {
      throw signInFailure("unavailable", `${url.origin} returned a profile that is not JSON`);
    });
  }
}

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

/** The result of a request to a provider. Rejects with Problem. */
export async function orFailure<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw failureOf(error);
  }
}

/** Turns an error of the library into a Problem. Of what the provider has sent, only the error code is repeated. */
function failureOf(error: unknown): Problem {
  if (isSignInFailure(error)) return error;
  if (error instanceof OutboundError) return signInFailure("unavailable", error.message, error);
  if (error instanceof oauth.AuthorizationResponseError) {
    const reason = REFUSALS.has(error.error) ? "cancelled" : "unavailable";
    return signInFailure(reason, `the provider returned the error ${wordOf(error.error)}`);
  }
  if (error instanceof oauth.ResponseBodyError) {
    return signInFailure("not verified", `the provider returned the error ${wordOf(error.error)}`);
  }
  const cause = (error as { cause?: unknown }).cause;
  if (cause instanceof OutboundError) return signInFailure("unavailable", cause.message, cause);
  return signInFailure("not verified", (error as Error).message);
}

const wordOf = (code: string) => (/^[\w.-]{1,50}$/.test(code) ? code : "of an unknown form");
