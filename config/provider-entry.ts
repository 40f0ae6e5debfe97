import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { z } from "zod";
import type { ClaimPath } from "./claim-path.ts";
import { remoteUrl, requiredText } from "./json-file.ts";
import type { OAuth2Settings, OidcSettings, ProviderSettings, SamlSettings } from "./providers.ts";
import { isStrongRsa, roleClaim } from "./setting-types.ts";

/** Where the secrets of an entry may come from. */
export type Sources = {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Whether the entry is a row of auth_private.providers, whose owner must not be able to read files and secrets of this machine. */
  readonly isTable: boolean;
};

/** The JSON of one identity provider, which becomes its settings. */
export const entryType = (sources: Sources): z.ZodType<ProviderSettings> =>
  z.discriminatedUnion("kind", [oidcType(sources), oauth2Type(sources), samlType(sources)], {
    error: ({ code }) => (code === "invalid_union" ? "must be oidc, oauth2 or saml" : "must be an object"),
  });

/** Where providers usually send the profile. */
const OIDC_CLAIMS = { subject: ["sub"], name: ["name", "preferred_username"], email: ["email"] };
const OAUTH2_CLAIMS = { subject: ["sub", "id"], name: ["name", "login", "username"], email: ["email"] };
const SAML_CLAIMS = {
  // The NameID, unless an attribute is named.
  subject: [],
  name: [
    ...["displayName", "name", "cn", "urn:oid:2.16.840.1.113730.3.1.241", "urn:oid:2.5.4.3"],
    "http://schemas.microsoft.com/identity/claims/displayname",
  ],
  email: [
    ...["email", "mail", "urn:oid:0.9.2342.19200300.100.1.3"],
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
  ],
};

/** Where a claim is: `$.profile.nick` */
const claimPath = requiredText.pipe(roleClaim);

const oidcType = (sources: Sources) =>
  z
    .strictObject({
      kind: z.literal("oidc"),
      ...commonFields(claimPath, OIDC_CLAIMS),
      ...clientFields(sources, ["openid", "profile", "email"]),
      issuer: remoteUrl,
    })
    .transform((entry): OidcSettings => ({ ...named(entry), scopes: [...new Set(["openid", ...entry.scopes])] }));

const oauth2Type = (sources: Sources) =>
  z
    .strictObject({
      kind: z.literal("oauth2"),
      ...commonFields(claimPath, OAUTH2_CLAIMS),
      ...clientFields(sources, []),
      authorizationUrl: remoteUrl,
      tokenUrl: remoteUrl,
      userinfoUrl: remoteUrl,
      issuer: remoteUrl.optional(),
    })
    .transform((entry): OAuth2Settings => ({ ...named(entry), issuer: entry.issuer ?? entry.tokenUrl }));

const samlType = (sources: Sources) =>
  z
    .strictObject({
      kind: z.literal("saml"),
      ...commonFields(attribute, SAML_CLAIMS),
      metadata: metadata(sources),
      issuer: requiredText.nullable().default(null),
      entityId: requiredText.nullable().default(null),
      keys: z
        .array(z.strictObject({ privateKey: privateKey(sources), certificate: certificate(sources) }), {
          error: "must be a list of key pairs",
        })
        .max(2, "must have at most 2 key pairs")
        .default([]),
      nameIdFormat: requiredText.nullable().default(null),
      domains: z.array(domain, { error: "must be a list of domains" }).default([]),
    })
    .transform((entry): SamlSettings => named(entry));

/** `Corp.Example` → `corp.example` */
const domain = requiredText
  .transform((text) => text.toLowerCase())
  .refine((text) => text.length <= 253 && /^[^\s@/.]+(\.[^\s@/.]+)+$/.test(text), {
    error: "must be the domain of an e-mail, such as corp.example",
  });

const NAME = /^[a-z0-9][a-z0-9-]{0,49}$/;

type Claim = "subject" | "name" | "email";

/** `path` parses the path of a claim; `usual` are the names of the claims that are read if the entry names none. */
function commonFields(path: z.ZodType<ClaimPath, any>, usual: Readonly<Record<Claim, readonly string[]>>) {
  const paths = (claim: Claim) => oneOrMore(path).default(usual[claim].map((name) => [name]));
  const claims = { subject: paths("subject"), name: paths("name"), email: paths("email") };
  return {
    name: requiredText.regex(NAME, "must have 1 to 50 letters a to z, digits and hyphens"),
    title: requiredText.optional(),
    signUp: z.boolean({ error: "must be true or false" }).default(true),
    claims: z.strictObject(claims, { error: "must be an object" }).prefault({}),
    require: z
      .record(z.string(), z.unknown(), { error: "must be an object" })
      .default({})
      .transform((required) =>
        Object.entries(required).map(([name, values]) => ({
          claim: path.safeParse(name).data ?? [name],
          values: [values].flat(),
        })),
      ),
  };
}

/** The title of a provider is its name unless the entry has one. */
const named = <Entry extends { name: string; title?: string | undefined }>(entry: Entry) => ({
  ...entry,
  title: entry.title ?? entry.name,
});

const oneOrMore = <T>(type: z.ZodType<T, any>) =>
  z.preprocess((value) => (Array.isArray(value) ? value : [value]), z.array(type).min(1, "must not be empty"));

/** An attribute of SAML, whose name may have dots. */
const attribute = requiredText.transform((name): ClaimPath => [name]);

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

/** Environment variables that entries of the table may name. */
const FOR_TABLE = /^AUTH_SECRET_\w+$/;

/** A text, or `{"file": "…"}` or `{"env": "…"}`, from which it is read. */
const secret = (sources: Sources) =>
  z.unknown().transform((value, { addIssue }): string => {
    const { text, fault } = readSecret(value, sources);
    if (text) return text;
    addIssue(fault);
    return z.NEVER;
  });

/** The secret, or why there is none. */
function readSecret(value: unknown, { environment, isTable }: Sources): { text?: string | null; fault: string } {
  const { file, env } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if (isTable && !FOR_TABLE.test(String(env))) {
    return { fault: 'must be {"env": "AUTH_SECRET_…"}: the table must not contain secrets or name other sources' };
  }
  if (typeof env === "string") {
    return { text: environment[env] ?? null, fault: `names the environment variable ${env}, which is not set` };
  }
  if (typeof file === "string") return { text: readText(file), fault: "names a file that cannot be read" };
  return { text: typeof value === "string" ? value : null, fault: 'must be a string, {"file": "…"} or {"env": "…"}' };
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return null;
  }
}

/** A URL, or the path of a file. */
const metadata = ({ isTable }: Sources) =>
  requiredText.transform((text, { addIssue }): SamlSettings["metadata"] => {
    if (/^https?:/.test(text)) {
      if (remoteUrl.safeParse(text).success) return { url: text };
      addIssue("must be an https URL without a user, password or fragment (#)");
      return z.NEVER;
    }
    const xml = isTable ? null : readText(text);
    if (xml) return { xml };
    addIssue(isTable ? "must be an https URL" : "must be an https URL, or a file that can be read");
    return z.NEVER;
  });

const privateKey = (sources: Sources) =>
  secret(sources).refine((pem) => isStrongRsa(() => createPrivateKey(pem)), {
    error: "must be the PEM of an RSA private key of at least 2048 bits",
  });

const certificate = (sources: Sources) =>
  secret(sources).refine((pem) => isStrongRsa(() => new X509Certificate(pem).publicKey), {
    error: "must be the PEM certificate of an RSA key of at least 2048 bits",
  });
