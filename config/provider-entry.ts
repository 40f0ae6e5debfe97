import { z } from "zod";
import type { ClaimPath } from "./claim-path.ts";
import { parsedBy } from "./config-error.ts";
import { isLoopbackUrl, readFile, remoteUrl, requiredText } from "./json-file.ts";

/** What an entry may name. */
export type Sources = {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Whether the entry is a row of auth_private.providers, whose owner must not be able to read files and secrets of this machine. */
  readonly isTable: boolean;
  /** Whether its URLs may be on loopback addresses (AUTH_PROVIDERS_NETWORKS=loopback). */
  readonly allowsLoopback: boolean;
};

/** Each is what a part brings. */
export type Kind = "oidc" | "oauth2" | "saml";

/** Settings that all identity providers have. */
export type ProviderSettings = {
  readonly kind: Kind;
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
  /** The issuer of its identities. Null: the one that the provider names first; it must not change later. */
  readonly issuer: string | null;
  /** The domains of the e-mails of its users, in lower case: an application finds the provider by them. */
  readonly domains?: readonly string[];
};

/** How entries of one kind are read. */
export type ProviderKind = {
  readonly kind: Kind;
  /** The JSON of an entry, which becomes its settings. */
  entry(sources: Sources): z.ZodType<ProviderSettings>;
};

/** The JSON of one identity provider, which becomes its settings. Of the kinds, those of parts that are not open are refused. */
export function entryType(sources: Sources, kinds: readonly ProviderKind[]): z.ZodType<ProviderSettings> {
  const types = ALL.map((name) => kinds.find(({ kind }) => kind === name)?.entry(sources) ?? ofClosedPart(name));
  const known = `${ALL.slice(0, -1).join(", ")} or ${ALL.at(-1)}`;
  return z.discriminatedUnion("kind", types as unknown as [z.core.$ZodTypeDiscriminable], {
    error: ({ code }) => (code === "invalid_union" ? `must be ${known}` : "must be an object"),
  }) as unknown as z.ZodType<ProviderSettings>;
}

/** The part that reads each kind. */
const OF_PARTS: Readonly<Record<Kind, string>> = { oidc: "federated", oauth2: "federated", saml: "saml" };
const ALL = Object.keys(OF_PARTS) as Kind[];

const ofClosedPart = (kind: Kind) =>
  z.looseObject({ kind: z.literal(kind) }).refine(() => false, {
    path: ["kind"],
    error: `is ${kind}, but the part ${OF_PARTS[kind]} is not open (PARTS)`,
  });

/** A URL at the provider. */
export const providerUrl = ({ allowsLoopback }: Sources) =>
  remoteUrl.refine(
    (url) => allowsLoopback || !isLoopbackUrl(url),
    "is on a loopback address, which requires AUTH_PROVIDERS_NETWORKS=loopback",
  );

type Claim = "subject" | "name" | "email";

/** `path` parses the path of a claim; `usual` are the names of the claims that are read if the entry names none. */
export function commonFields(path: z.ZodType<ClaimPath, any>, usual: Readonly<Record<Claim, readonly string[]>>) {
  const paths = (claim: Claim) => oneOrMore(path).default(usual[claim].map((name) => [name]));
  const claims = { subject: paths("subject"), name: paths("name"), email: paths("email") };
  return {
    name: requiredText.regex(/^[a-z0-9][a-z0-9-]{0,49}$/, "must have 1 to 50 letters a to z, digits and hyphens"),
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
export const named = <Entry extends { name: string; title?: string | undefined }>(entry: Entry) => ({
  ...entry,
  title: entry.title ?? entry.name,
});

const oneOrMore = <T>(type: z.ZodType<T, any>) =>
  z.preprocess((value) => (Array.isArray(value) ? value : [value]), z.array(type).min(1, "must not be empty"));

/** Environment variables that entries of the table may name. */
const FOR_TABLE = /^AUTH_SECRET_\w+$/;

/** A text, or `{"file": "…"}` or `{"env": "…"}`, from which it is read. */
export const secret = (sources: Sources) => parsedBy(z.unknown(), (value) => readSecret(value, sources));

function readSecret(value: unknown, { environment, isTable }: Sources): string {
  const { file, env } = Object(value) as Record<string, unknown>;
  if (isTable && !FOR_TABLE.test(String(env)))
    throw new Error('must be {"env": "AUTH_SECRET_…"}: the table must not contain secrets or name other sources');
  const text = typeof env === "string" ? environment[env] : typeof file === "string" ? readFile(file).trim() : value;
  if (typeof text === "string" && text !== "") return text;
  if (typeof env === "string") throw new Error(`names the environment variable ${env}, which is not set`);
  throw new Error('must be a string, {"file": "…"} or {"env": "…"}, and not empty');
}
