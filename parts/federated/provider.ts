import type { Logger } from "pino";
import { type ClaimPath, claimAt } from "../../config/claim-path.ts";
import type { ProviderSettings } from "../../config/provider-entry.ts";
import type { Clock, Proof } from "../../identity/account.ts";
import type { Outbound } from "../../identity/outbound.ts";
import type { SentIdToken } from "../../rest-gateway/auth/federated.ts";
import type { Database } from "../../rest-gateway/auth/functions.ts";
import { signInFailure } from "./failure.ts";
import type { Flow, SameSite } from "./flow.ts";

/** What providers need. */
export type ProviderContext = {
  /** The public URL of the service. URLs that providers send browsers back to are made from it, never from a request. */
  readonly baseUrl: string;
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly log: Pick<Logger, "error">;
};

/** An identity provider. Methods reject with Problem. */
export type Provider = {
  readonly settings: ProviderSettings;
  /** Whether the provider sends the browser back with a POST. */
  readonly sameSite: SameSite;
  /** Where it is read which issuer it has, if its settings need not name one. */
  readonly source?: string;
  /** The issuer of its identities. */
  issuer(): Promise<string>;
  /** The URL at the provider where a sign-in begins. */
  begin(flow: Flow): Promise<string>;
  /** The identity in the response of the provider, whose flow has been taken. What may be used once is kept in the database. */
  finish(response: URLSearchParams, flow: Flow, database: Database): Promise<ConfirmedIdentity>;
  /** The identity in an ID token; only of providers that issue them. */
  finishIdToken?(token: SentIdToken): Promise<ConfirmedIdentity>;
  /** The URL at the provider that ends a sign-in there; null if the provider has none. */
  logout?(signIn: string | null, flow: Flow): Promise<string | null>;
  /** Checks the response to a sign-out, if it has contents. */
  finishLogout?(query: string, flow: Flow): Promise<void>;
};

/** `urlOf(context, settings, "callback")` → `https://api.example.com/auth/oidc/acme/callback` */
export const urlOf = (
  { baseUrl }: Pick<ProviderContext, "baseUrl">,
  { kind, name }: Pick<ProviderSettings, "kind" | "name">,
  end = "",
): string => new URL(`${baseUrl}/auth/${kind}/${name}${end === "" ? "" : `/${end}`}`).href;

/** An identity that a provider has confirmed. */
export type ConfirmedIdentity = {
  readonly issuer: string;
  readonly subject: string;
  /** For a new account; null if the provider has not sent them. */
  readonly name: string | null;
  readonly email: string | null;
  /** The data that a sign-out at the provider needs; null if there is none. */
  readonly signIn: string | null;
};

/** Characters of an issuer or a subject, as in the database. */
const MAX_ID = 500;
/** Characters of `users.name`. */
const MAX_NAME = 200;
/** Characters of an e-mail; the database checks its format. */
const MAX_EMAIL = 254;

/**
 * The identity that follows from what a provider has sent, after it was verified. `subject` is the one of the protocol, in
 * place of which the settings may name a claim. Throws Problem if a required value is missing.
 */
export function identityOf(
  { claims, require }: Pick<ProviderSettings, "claims" | "require">,
  issuer: string,
  sent: { readonly subject: string | null; readonly values: unknown; readonly signIn: string | null },
): ConfirmedIdentity {
  const { values, signIn } = sent;
  for (const { claim, values: allowed } of require) {
    const given = [claimAt(values, claim)].flat();
    if (!given.some((value) => allowed.includes(value))) {
      throw signInFailure(
        "not admitted",
        `the claim ${claim.map((step) => (typeof step === "object" ? step.text : step)).join(".")} does not have a required value`,
      );
    }
  }
  const subject = sent.subject ?? textAt(values, claims.subject);
  if (subject === null || subject.trim() === "") {
    throw signInFailure("not verified", "the provider has sent no subject");
  }
  if (subject.length > MAX_ID || issuer.length > MAX_ID || !isStorable(subject)) {
    throw signInFailure("not verified", `the subject, or the issuer, is not a text of at most ${MAX_ID} characters`);
  }
  const email = textAt(values, claims.email);
  const name = textAt(values, claims.name) ?? email?.split("@")[0] ?? null;
  return {
    issuer,
    subject,
    name: name && (isStorable(name) ? [...name].slice(0, MAX_NAME).join("") : null),
    email: email && email.length <= MAX_EMAIL && isStorable(email) ? email : null,
    signIn,
  };
}

/** The first of the paths with a text or a number, which some providers use as ids. */
export function textAt(values: unknown, paths: readonly ClaimPath[]): string | null {
  for (const path of paths) {
    const value = [claimAt(values, path)].flat()[0];
    if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
    if (typeof value === "string" && value.trim() !== "") return value.trim();
  }
  return null;
}

const isStorable = (text: string) => text.isWellFormed() && !/\p{Cc}/u.test(text);

/** What has replaced the password of a sign-in at a provider. */
export const proofOf = ({ settings: { name, kind } }: Provider): Proof => ({
  provider: name,
  ...(kind === "saml" && { bySaml: true }),
});
