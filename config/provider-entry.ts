import { z } from "zod";
import type { ClaimPath } from "./claim-path.ts";

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
