import type { Protocol } from "../protocol.ts";
import { OAUTH2_ENTRIES, type OAuth2Settings, OIDC_ENTRIES, type OidcSettings } from "./settings.ts";

const OIDC: Protocol = {
  ...OIDC_ENTRIES,
  title: "OpenID Connect",
  create: async (settings: OidcSettings, context) => new (await import("./oidc.ts")).OidcProvider(settings, context),
  registration: (_, url) => [
    ["redirect URI", url("callback")],
    ["post-logout redirect URI", url("logout")],
  ],
  diagnose: async (settings: OidcSettings, context) => (await import("./diagnosis.ts")).diagnoseOidc(settings, context),
};

const OAUTH2: Protocol = {
  ...OAUTH2_ENTRIES,
  title: "OAuth 2.0",
  create: async (settings: OAuth2Settings, context) =>
    new (await import("./oauth2.ts")).OAuth2Provider(settings, context),
  registration: (_, url) => [["redirect URI", url("callback")]],
  diagnose: async (settings: OAuth2Settings, context) =>
    (await import("./diagnosis.ts")).diagnoseOAuth2(settings, context),
};

export const PROTOCOLS: readonly Protocol[] = [OIDC, OAUTH2];
