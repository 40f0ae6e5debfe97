import * as oauth from "openid-client";
import { claimAt } from "../../../config/claim-path.ts";
import { isLoopbackUrl } from "../../../config/json-file.ts";
import { OutboundError } from "../../../identity/outbound.ts";
import { discover, KEYS_MAX_AGE } from "../../../identity/remote-keys.ts";
import { RemoteValue } from "../../../identity/remote-value.ts";
import type { SentIdToken } from "../../../rest-gateway/auth/federated.ts";
import { signInFailure } from "../failure.ts";
import type { Flow } from "../flow.ts";
import { type ConfirmedIdentity, identityOf, type Provider, type ProviderContext, textAt, urlOf } from "../provider.ts";
import { requireIdToken, signedClaims } from "./id-token.ts";
import { authorizationParameters, callbackUrl, clientAuthentication, orFailure, prepare } from "./oauth2.ts";
import type { OidcSettings } from "./settings.ts";

/** Milliseconds after which the metadata of a provider are read again. */
const MAX_AGE = 3_600_000;

type Metadata = oauth.ServerMetadata & { readonly jwks_uri: string };
type Discovered = { readonly metadata: Metadata; readonly keys: RemoteValue<oauth.JWKS> };

/**
 * A provider of OpenID Connect: authorization code flow with PKCE, state and nonce. openid-client checks `state`, `iss`,
 * audience, times and nonce; it verifies the signature only with `enableNonRepudiationChecks`.
 */
export class OidcProvider implements Provider {
  readonly settings: OidcSettings;
  readonly sameSite = "Lax";
  readonly #context: ProviderContext;
  readonly #discovered: RemoteValue<Discovered>;

  constructor(settings: OidcSettings, context: ProviderContext) {
    this.settings = settings;
    this.#context = context;
    const { clock, log } = context;
    const onError = (err: unknown) =>
      log.error({ provider: settings.name, err }, "the metadata of an identity provider cannot be read");
    const read = (previous: Discovered | null) => this.#discover(previous);
    this.#discovered = new RemoteValue({ read, maxAge: MAX_AGE, clock, onError });
  }

  async issuer(): Promise<string> {
    return this.settings.issuer;
  }

  begin(flow: Flow): Promise<string> {
    return orFailure(async () => {
      const parameters = await authorizationParameters(this.#context, this.settings, flow);
      const { metadata } = await this.#discovered.current();
      return oauth.buildAuthorizationUrl(configure(this.settings, this.#context, metadata), parameters).href;
    });
  }

  finish(response: URLSearchParams, { state, nonce, codeVerifier }: Flow): Promise<ConfirmedIdentity> {
    return orFailure(async () => {
      const { metadata, keys } = await this.#discovered.current();
      const configuration = configure(this.settings, this.#context, metadata);
      await useKeys(configuration, keys, metadata.jwks_uri);
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

  /** The identity in an ID token that a client has received from the provider itself. */
  finishIdToken(sent: SentIdToken): Promise<ConfirmedIdentity> {
    return orFailure(async () => {
      const { metadata, keys } = await this.#discovered.current();
      const claims = signedClaims(sent, await keys.current()) ?? signedClaims(sent, await keys.newer());
      requireIdToken(claims, sent, this.settings);
      const configuration = configure(this.settings, this.#context, metadata);
      const { idToken: signIn, accessToken } = sent;
      const completed = accessToken === null ? claims : this.#completed(configuration, claims, accessToken);
      return identityOf(this.settings, this.settings.issuer, { subject: claims.sub, values: await completed, signIn });
    });
  }

  logout(idToken: string | null, { state }: Flow): Promise<string | null> {
    return orFailure(async () => {
      const { metadata } = await this.#discovered.current();
      if (metadata.end_session_endpoint === undefined) return null;
      return oauth.buildEndSessionUrl(configure(this.settings, this.#context, metadata), {
        post_logout_redirect_uri: urlOf(this.#context, this.settings, "logout"),
        state,
        ...(idToken !== null && { id_token_hint: idToken }),
      }).href;
    });
  }

  /** Many providers send only the subject in the ID token; the rest is at the userinfo endpoint, for the same subject. */
  async #completed(
    configuration: oauth.Configuration,
    claims: Pick<oauth.IDToken, "sub">,
    accessToken: string,
  ): Promise<object> {
    const { claims: paths, require } = this.settings;
    const hasProfile = textAt(claims, paths.name) !== null && textAt(claims, paths.email) !== null;
    const isComplete = hasProfile && require.every(({ claim }) => claimAt(claims, claim) !== undefined);
    if (isComplete || configuration.serverMetadata().userinfo_endpoint === undefined) return claims;
    return { ...(await oauth.fetchUserInfo(configuration, accessToken, claims.sub)), ...claims };
  }

  async #discover(previous: Discovered | null): Promise<Discovered> {
    const metadata = await discoverOidc(this.settings, this.#context);
    const hasSameKeys = previous?.metadata.jwks_uri === metadata.jwks_uri;
    return { metadata, keys: hasSameKeys ? previous!.keys : this.#keysAt(metadata.jwks_uri) };
  }

  #keysAt(jwksUrl: string): RemoteValue<oauth.JWKS> {
    const { outbound, clock, log } = this.#context;
    const { name: provider } = this.settings;
    const onError = (err: unknown) => log.error({ provider, err }, "the keys of an identity provider cannot be read");
    const read = async () => {
      const { keys } = await outbound.json(jwksUrl);
      if (!Array.isArray(keys)) throw new OutboundError(`${jwksUrl} has no keys`);
      return { keys };
    };
    return new RemoteValue({ read, maxAge: KEYS_MAX_AGE, clock, onError });
  }
}

/** The age, in seconds, at which openid-client requests the keys again if it has no key for a token. */
const KEY_AGE = 60;

/**
 * Gives openid-client the keys for one sign-in, marked as old: then it requests newer keys if it needs another key, even right after
 * the provider has changed its key. That request is answered from `keys`, which limits the requests to the provider.
 */
async function useKeys(
  configuration: oauth.Configuration,
  keys: RemoteValue<oauth.JWKS>,
  jwksUrl: string,
): Promise<void> {
  const uat = Math.floor(Date.now() / 1000) - KEY_AGE;
  oauth.setJwksCache(configuration, { jwks: await keys.current(), uat });
  const send = configuration[oauth.customFetch]!;
  const { href } = new URL(jwksUrl);
  configuration[oauth.customFetch] = async (url, options) =>
    url === href ? Response.json(await keys.newer()) : send(url, options);
}

/** The library does not check the authorized party. Source: OpenID Connect Core 1.0, 3.1.3.7. */
function requireParty({ azp }: oauth.IDToken, { clientId }: OidcSettings): void {
  if (azp === undefined || azp === clientId) return;
  throw signInFailure("not verified", "the ID token is for another party");
}

/** Reads the metadata of a provider. Rejects with OutboundError. */
export async function discoverOidc({ issuer }: OidcSettings, { outbound }: ProviderContext): Promise<Metadata> {
  const metadata = await discover(issuer, outbound);
  for (const endpoint of ["authorization_endpoint", "token_endpoint"]) {
    if (typeof metadata[endpoint] !== "string")
      throw new OutboundError(`the metadata of ${issuer} have no ${endpoint}`);
  }
  return metadata as Metadata;
}

function configure(settings: OidcSettings, context: ProviderContext, metadata: Metadata): oauth.Configuration {
  const authentication = clientAuthentication(settings, metadata.token_endpoint_auth_methods_supported);
  const configuration = new oauth.Configuration(metadata, settings.clientId, undefined, authentication);
  prepare(configuration, context, isLoopbackUrl(settings.issuer));
  oauth.enableNonRepudiationChecks(configuration);
  return configuration;
}
