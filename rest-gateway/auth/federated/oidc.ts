import * as oauth from "openid-client";
import { claimAt } from "../../../config/claim-path.ts";
import { isLoopbackUrl } from "../../../config/json-file.ts";
import type { OidcSettings } from "../../../config/providers.ts";
import { SignInFailure } from "./failure.ts";
import type { Flow } from "./flow.ts";
import { authorizationParameters, callbackUrl, clientAuthentication, orFailure, prepare } from "./oauth-client.ts";
import { type ConfirmedIdentity, identityOf, textAt } from "./profile.ts";
import { type Provider, type ProviderContext, urlOf } from "./provider.ts";

/** Milliseconds after which the metadata of a provider are read again. */
const MAX_AGE = 3_600_000;

type Discovered = { readonly configuration: oauth.Configuration; readonly at: number };

/**
 * A provider of OpenID Connect: authorization code flow with PKCE, state and nonce. openid-client checks `state`, `iss`,
 * audience, times and nonce; it verifies the signature only with `enableNonRepudiationChecks`. It reads the keys again for
 * an unknown key id, at most once a minute, and after five minutes.
 */
export class OidcProvider implements Provider {
  readonly settings: OidcSettings;
  readonly sameSite = "Lax";
  readonly #context: ProviderContext;
  #discovered: Discovered | null = null;
  #discovering: Promise<Discovered> | null = null;

  constructor(settings: OidcSettings, context: ProviderContext) {
    this.settings = settings;
    this.#context = context;
  }

  async issuer(): Promise<string> {
    return this.settings.issuer;
  }

  begin(flow: Flow): Promise<string> {
    return orFailure(async () => {
      const parameters = await authorizationParameters(this.#context, this.settings, flow);
      return oauth.buildAuthorizationUrl(await this.#configuration(), parameters).href;
    });
  }

  finish(response: URLSearchParams, { state, nonce, codeVerifier }: Flow): Promise<ConfirmedIdentity> {
    return orFailure(async () => {
      const configuration = await this.#configuration();
      const url = callbackUrl(this.#context, this.settings, response);
      const tokens = await oauth.authorizationCodeGrant(configuration, url, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: codeVerifier,
        idTokenExpected: true,
      });
      const claims = tokens.claims()!;
      requireParty(claims, this.settings);
      const values = await this.#completed(configuration, claims, tokens.access_token);
      const signIn = tokens.id_token ?? null;
      return identityOf(this.settings, this.settings.issuer, { subject: claims.sub, values, signIn });
    });
  }

  logout(idToken: string | null, { state }: Flow): Promise<string | null> {
    return orFailure(async () => {
      const configuration = await this.#configuration();
      if (configuration.serverMetadata().end_session_endpoint === undefined) return null;
      return oauth.buildEndSessionUrl(configuration, {
        post_logout_redirect_uri: urlOf(this.#context, this.settings, "logout"),
        state,
        ...(idToken !== null && { id_token_hint: idToken }),
      }).href;
    });
  }

  /** The response has no contents. */
  async finishLogout(): Promise<void> {}

  /** Many providers send only the subject in the ID token; the rest is at the userinfo endpoint, for the same subject. */
  async #completed(configuration: oauth.Configuration, claims: oauth.IDToken, accessToken: string): Promise<object> {
    const { claims: paths, require } = this.settings;
    const hasProfile = textAt(claims, paths.name) !== null && textAt(claims, paths.email) !== null;
    const isComplete = hasProfile && require.every(({ claim }) => claimAt(claims, claim) !== undefined);
    if (isComplete || configuration.serverMetadata().userinfo_endpoint === undefined) return claims;
    return { ...(await oauth.fetchUserInfo(configuration, accessToken, claims.sub)), ...claims };
  }

  /** The metadata of the provider. If they cannot be read again, the previous ones stay. */
  async #configuration(): Promise<oauth.Configuration> {
    const known = this.#discovered;
    if (known !== null && this.#context.clock() - known.at < MAX_AGE) return known.configuration;
    this.#discovering ??= this.#discover().finally(() => {
      this.#discovering = null;
    });
    this.#discovered = await this.#discovering.catch((error) => {
      if (known === null) throw new SignInFailure("unavailable", (error as Error).message, { cause: error });
      return known;
    });
    return this.#discovered.configuration;
  }

  async #discover(): Promise<Discovered> {
    const { configuration } = await discoverOidc(this.settings, this.#context);
    return { configuration, at: this.#context.clock() };
  }
}

/** The library does not check the authorized party. Source: OpenID Connect Core 1.0, 3.1.3.7. */
function requireParty({ azp }: oauth.IDToken, { clientId }: OidcSettings): void {
  if (azp === undefined || azp === clientId) return;
  throw new SignInFailure("not verified", "the ID token is for another party");
}

/** Reads the metadata of a provider. Rejects with an error for operators. Source: OpenID Connect Discovery 1.0. */
export async function discoverOidc(settings: OidcSettings, context: ProviderContext) {
  const { issuer, clientId } = settings;
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const metadata = (await context.outbound.json(url)) as oauth.ServerMetadata & Record<string, unknown>;
  // Exactly, because ID tokens are compared with it. For "any tenant", some providers send a placeholder.
  if (metadata.issuer !== issuer) {
    throw new Error(`${url} names the issuer ${JSON.stringify(metadata.issuer)}, which is not ${issuer}`);
  }
  for (const endpoint of ["authorization_endpoint", "token_endpoint", "jwks_uri"] as const) {
    if (typeof metadata[endpoint] !== "string") throw new Error(`${url} has no ${endpoint}`);
  }
  const authentication = clientAuthentication(settings, metadata.token_endpoint_auth_methods_supported);
  const configuration = new oauth.Configuration(metadata, clientId, undefined, authentication);
  prepare(configuration, context, isLoopbackUrl(issuer));
  oauth.enableNonRepudiationChecks(configuration);
  return { configuration, metadata };
}
