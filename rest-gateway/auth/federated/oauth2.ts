import * as oauth from "openid-client";
import { isLoopbackUrl } from "../../../config/json-file.ts";
import type { OAuth2Settings } from "../../../config/providers.ts";
import { SignInFailure } from "./failure.ts";
import type { Flow } from "./flow.ts";
import { authorizationParameters, callbackUrl, clientAuthentication, orFailure, prepare } from "./oauth-client.ts";
import { type ConfirmedIdentity, identityOf } from "./profile.ts";
import type { Provider, ProviderContext } from "./provider.ts";

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

  async logout(): Promise<null> {
    return null;
  }

  async finishLogout(): Promise<void> {}

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
      throw new SignInFailure("unavailable", `${url.origin} returned status ${response.status} for the profile`);
    }
    // The error of the parser quotes the text.
    return response.json().catch(() => {
      throw new SignInFailure("unavailable", `${url.origin} returned a profile that is not JSON`);
    });
  }
}
