import type { Account } from "../../identity/account.ts";
import type { LinkedIdentity } from "../../rest-gateway/auth/federated.ts";
import { type AuthFunctions, bytes } from "../../rest-gateway/auth/functions.ts";
import { normalizedEmail } from "../../rest-gateway/auth/login-names.ts";
import type { CurrentSignIn } from "../../rest-gateway/auth/session-repository.ts";
import type { ConfirmedIdentity } from "./provider.ts";

/** `signIn` is encrypted, and so is readable only by the service. */
export type SealedIdentity = Omit<ConfirmedIdentity, "signIn"> & { readonly signIn: Buffer | null };

type Linked =
  | { readonly outcome: "linked"; readonly id: string }
  | { readonly outcome: "taken" }
  | { readonly outcome: "too many" }
  | { readonly outcome: "changed" };

/** A row of the table of providers. */
export type ProviderRow = { readonly name: string; readonly definition: Readonly<Record<string, unknown>> };

/** The identities of accounts at providers, and the providers of the table. */
export class IdentityRepository {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  providers(): Promise<readonly ProviderRow[]> {
    return this.#functions.call("list_providers()", []);
  }

  /** Records a sign-in. Returns null if the identity is not linked to an account. */
  use({ issuer, subject, email, signIn }: SealedIdentity, provider: string): Promise<Account | null> {
    const values = [
      issuer,
      subject,
      provider,
      email && normalizedEmail(email),
      signIn && bytes(signIn),
      this.#functions.now(),
    ];
    return this.#functions.call("use_identity($1, $2, $3, $4, $5::bytea, $6::timestamptz)", values);
  }

  /** Creates a user with an account. Rejects with the errors of the database that a trigger has raised. */
  register(
    { issuer, subject, name, email, signIn }: SealedIdentity,
    provider: string,
    address: string,
  ): Promise<"registered" | "linked" | "email taken" | "malformed"> {
    const values = [issuer, subject, provider, name, email && normalizedEmail(email), signIn && bytes(signIn)];
    return this.#functions.call("register_identity($1, $2, $3, $4, $5, $6::bytea, $7::inet, $8::timestamptz)", [
      ...values,
      address || null,
      this.#functions.now(),
    ]);
  }

  link(
    { id: userId, session }: CurrentSignIn,
    { issuer, subject, email, signIn }: SealedIdentity,
    provider: string,
    max: number,
    address: string,
  ): Promise<Linked> {
    const given = [
      userId,
      session,
      issuer,
      subject,
      provider,
      email && normalizedEmail(email),
      signIn && bytes(signIn),
    ];
    const values = [...given, String(max), address || null, this.#functions.now()];
    const types = "$1, $2::uuid, $3, $4, $5, $6, $7::bytea, $8::integer, $9::inet, $10::timestamptz";
    return this.#functions.change(`link_identity(${types})`, values);
  }

  list(userId: string): Promise<readonly LinkedIdentity[]> {
    return this.#functions.call("list_identities($1)", [userId]);
  }

  /** `issuers` are those with which a user can still sign in. Ends all other sign-ins of the user. */
  unlink(
    { id: userId, session }: CurrentSignIn,
    id: string,
    issuers: readonly string[],
    address: string,
  ): Promise<"unlinked" | "missing" | "last" | "changed"> {
    const list = JSON.stringify(issuers);
    const values = [userId, id, list, session, address || null, this.#functions.now()];
    const types = "$1, $2::uuid, array(select jsonb_array_elements_text($3::jsonb)), $4::uuid";
    return this.#functions.change(`unlink_identity(${types}, $5::inet, $6::timestamptz)`, values);
  }

  /** Returns and deletes the data of the user's last sign-in that a sign-out at the issuer needs. Null if there is none. */
  async takeSignIn(
    userId: string,
    issuer: string,
  ): Promise<{ readonly subject: string; readonly signIn: Buffer } | null> {
    type Found = { readonly subject: string; readonly signIn: string };
    const found = await this.#functions.call<Found | null>("take_sign_in($1, $2)", [userId, issuer]);
    return found && { subject: found.subject, signIn: Buffer.from(found.signIn, "hex") };
  }
}
