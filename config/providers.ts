import { z } from "zod";
import type { ClaimPath } from "./claim-path.ts";
import { ConfigError } from "./config-error.ts";
import { describeIssue, isLoopbackUrl, jsonFile } from "./json-file.ts";
import { entryType, type Sources } from "./provider-entry.ts";
import { parseValue } from "./setting-types.ts";

/** Settings common to all identity providers. */
type CommonSettings = {
  /** Its name in URLs: `/auth/oidc/acme`. */
  readonly name: string;
  /** Its display name. */
  readonly title: string;
  /** Whether a sign-in with an identity that has no account creates one. */
  readonly signUp: boolean;
  /** The paths of each value in the data that the provider sends. The first path that has a value is used. */
  readonly claims: { readonly [Name in "subject" | "name" | "email"]: readonly ClaimPath[] };
  /** Claims that must have one of these values: `[{ claim: ["hd"], values: ["acme.example"] }]`. */
  readonly require: readonly { readonly claim: ClaimPath; readonly values: readonly unknown[] }[];
};

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

export type OidcSettings = CommonSettings & OAuthClient & { readonly kind: "oidc"; readonly issuer: string };

export type OAuth2Settings = CommonSettings &
  OAuthClient & {
    readonly kind: "oauth2";
    /** The issuer of its identities; the tokenUrl if it is not set. */
    readonly issuer: string;
    readonly authorizationUrl: string;
    readonly tokenUrl: string;
    readonly userinfoUrl: string;
  };

/** A key pair of this service, in PEM format. */
export type KeyPair = { readonly privateKey: string; readonly certificate: string };

export type SamlSettings = CommonSettings & {
  readonly kind: "saml";
  /** The metadata of the provider: its URL, or the XML. */
  readonly metadata: { readonly url: string } | { readonly xml: string };
  /** The entity id that the metadata must have. Null: the one in the first metadata that are read; it must not change later. */
  readonly issuer: string | null;
  /** The entity id of this service at the provider; null for the URL of the service's own metadata. */
  readonly entityId: string | null;
  /** The first signs requests; all decrypt assertions. Empty: requests are not signed. */
  readonly keys: readonly KeyPair[];
  /** The format of the subject that is requested; null to leave it to the provider. */
  readonly nameIdFormat: string | null;
  /** The domains of the e-mails of its users, in lower case: an application finds the provider by them. */
  readonly domains: readonly string[];
};

export type ProviderSettings = OidcSettings | OAuth2Settings | SamlSettings;

/** Reads the settings of identity providers: those of the file AUTH_PROVIDERS, and those of the table. */
export class ProviderReader {
  readonly #path: string;
  readonly #environment: Sources["environment"];
  readonly #allowsLoopback: boolean;

  /** `path` is "" without a file. */
  constructor(path: string, environment: Sources["environment"], allowsLoopback: boolean) {
    this.#path = path;
    this.#environment = environment;
    this.#allowsLoopback = allowsLoopback;
  }

  /** Reads the file again each time. Throws ConfigError. */
  readFile(): readonly ProviderSettings[] {
    if (this.#path === "") return [];
    const entries = z
      .array(entryType({ environment: this.#environment, isTable: false }), { error: "must be a list of providers" })
      .refine(hasUniqueNames, { error: "names a provider twice" })
      .refine(hasUniqueDomains, { error: "has a domain twice" });
    const providers = parseValue("AUTH_PROVIDERS", jsonFile(entries), this.#path);
    for (const provider of providers) this.#refuseLoopback(provider);
    return providers;
  }

  /** Reads a row of the table `auth_private.providers`. Throws ConfigError. */
  readRow(name: string, definition: Readonly<Record<string, unknown>>): ProviderSettings {
    const type = entryType({ environment: this.#environment, isTable: true });
    const { data, error } = type.safeParse({ ...definition, name });
    if (error) throw new ConfigError(`the provider ${name} of the table: ${describeIssue(error.issues[0]!)}`);
    this.#refuseLoopback(data);
    return data;
  }

  #refuseLoopback(provider: ProviderSettings): void {
    if (this.#allowsLoopback || !urlsOf(provider).some(isLoopbackUrl)) return;
    throw new ConfigError(
      `the provider ${provider.name} is on a loopback address, which requires AUTH_PROVIDERS_LOOPBACK=on`,
    );
  }
}

const hasUniqueNames = (providers: readonly ProviderSettings[]) =>
  new Set(providers.map(({ name }) => name)).size === providers.length;

function hasUniqueDomains(providers: readonly ProviderSettings[]): boolean {
  const domains = providers.flatMap((provider) => (provider.kind === "saml" ? provider.domains : []));
  return new Set(domains).size === domains.length;
}

function urlsOf(provider: ProviderSettings): readonly string[] {
  switch (provider.kind) {
    case "oidc":
      return [provider.issuer];
    case "oauth2":
      return [provider.authorizationUrl, provider.tokenUrl, provider.userinfoUrl];
    case "saml":
      return "url" in provider.metadata ? [provider.metadata.url] : [];
  }
}
