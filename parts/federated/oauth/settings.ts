import { z } from "zod";
import { remoteUrl, requiredText } from "../../../config/json-file.ts";
import type { ProviderKind, ProviderSettings, Sources } from "../../../config/provider-entry.ts";
import { roleClaim } from "../../../config/setting-types.ts";
import { commonFields, named, providerUrl, secret } from "../entry.ts";

type OAuthClient = {
  readonly clientId: string;
  /** Null for a public client. */
  readonly clientSecret: string | null;
  /** How the secret is sent; null for what the provider prefers. */
  readonly clientAuthentication: "post" | "basic" | null;
  readonly scopes: readonly string[];
  /** Further parameters of the authorization request. */
  readonly parameters: Readonly<Record<string, string>>;
};

export type OidcSettings = ProviderSettings & OAuthClient & { readonly kind: "oidc"; readonly issuer: string };

export type OAuth2Settings = ProviderSettings &
  OAuthClient & {
    readonly kind: "oauth2";
    /** The issuer of its identities; the tokenUrl if it is not set. */
    readonly issuer: string;
    readonly authorizationUrl: string;
    readonly tokenUrl: string;
    readonly userinfoUrl: string;
  };

/** Where providers usually send the profile. */
const OIDC_CLAIMS = { subject: ["sub"], name: ["name", "preferred_username"], email: ["email"] };
const OAUTH2_CLAIMS = { subject: ["sub", "id"], name: ["name", "login", "username"], email: ["email"] };

/** Where a claim is: `$.profile.nick` */
const claimPath = requiredText.pipe(roleClaim);

const oidcType = (sources: Sources) =>
  z
    .strictObject({
      kind: z.literal("oidc"),
      ...commonFields(claimPath, OIDC_CLAIMS),
      ...clientFields(sources, ["openid", "profile", "email"]),
      issuer: providerUrl(sources),
    })
    .transform((entry): OidcSettings => ({ ...named(entry), scopes: [...new Set(["openid", ...entry.scopes])] }));

const oauth2Type = (sources: Sources) =>
  z
    .strictObject({
      kind: z.literal("oauth2"),
      ...commonFields(claimPath, OAUTH2_CLAIMS),
      ...clientFields(sources, []),
      authorizationUrl: providerUrl(sources),
      tokenUrl: providerUrl(sources),
      userinfoUrl: providerUrl(sources),
      issuer: remoteUrl.optional(),
    })
    .transform((entry): OAuth2Settings => ({ ...named(entry), issuer: entry.issuer ?? entry.tokenUrl }));

/** Parameters of an authorization request that the service sets itself. */
const OWN_PARAMETERS = new Set([
  ...["client_id", "redirect_uri", "response_type", "response_mode", "scope", "state", "nonce"],
  ...["code_challenge", "code_challenge_method", "request", "request_uri"],
]);

const clientFields = (sources: Sources, scopes: string[]) => ({
  clientId: requiredText,
  clientSecret: secret(sources).nullable().default(null),
  clientAuthentication: z.enum(["post", "basic"], { error: "must be post or basic" }).nullable().default(null),
  scopes: z.array(requiredText, { error: "must be a list of scopes" }).default(scopes),
  parameters: z
    .record(z.string(), z.string({ error: "must be a string" }), { error: "must be an object" })
    .refine((parameters) => !Object.keys(parameters).some((name) => OWN_PARAMETERS.has(name)), {
      error: `must not contain ${[...OWN_PARAMETERS].join(", ")}`,
    })
    .default({}),
});

/** How entries of the kind `oidc` are read. */
export const OIDC_ENTRIES: ProviderKind = { kind: "oidc", entry: oidcType };

/** The same of the kind `oauth2`. */
export const OAUTH2_ENTRIES: ProviderKind = { kind: "oauth2", entry: oauth2Type };
