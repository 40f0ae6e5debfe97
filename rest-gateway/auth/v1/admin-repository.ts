import { type AuthFunctions, bytes, time } from "../functions.ts";
import type { PublicUser } from "./repository.ts";

/** `id` is that of the application, as text. */
export type Found = { readonly id: string; readonly user: PublicUser };

/** A link that the application sends itself. */
export type LinkToken = {
  readonly kind: "confirm" | "sign-in" | "reset";
  readonly userId: string;
  readonly returnTo: string | null;
};

/** What an administrator changes; what is missing stays. */
export type AccountChanges = {
  readonly email?: string;
  readonly emailConfirmed?: boolean;
  readonly role?: string;
  readonly isBanned?: boolean;
  /** Whether EMAIL_CONFIRM=required keeps the account from signing in before its e-mail is confirmed. */
  readonly mustConfirm?: boolean;
  /** A key that is null is deleted. */
  readonly userMetadata?: Readonly<Record<string, unknown>>;
  readonly appMetadata?: Readonly<Record<string, unknown>>;
};

/** Accounts as the service key manages them. Security events name it as the operator. */
export class AdminUsers {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  list(first: number, total: number): Promise<{ readonly total: number; readonly users: readonly PublicUser[] }> {
    return this.#functions.call("list_users($1::integer, $2::integer)", [String(first), String(total)]);
  }

  find(publicId: string): Promise<Found | null> {
    return this.#functions.call("find_public_user($1::uuid)", [publicId]);
  }

  /** Rejects with the errors of the database. */
  create(
    fields: { readonly name: string; readonly email: string },
    skeleton: string | null,
    passwordHash: string | null,
    changes: AccountChanges,
    address: string,
  ): Promise<PublicUser> {
    const values = [JSON.stringify(fields), skeleton, passwordHash, JSON.stringify(changes), address || null];
    return this.#functions.call("create_user($1::jsonb, $2, $3, $4::jsonb, $5::inet)", values);
  }

  /** Rejects with the errors of the database. */
  change(
    id: string,
    changes: AccountChanges,
    skeleton: string | null,
    passwordHash: string | null,
    address: string,
  ): Promise<PublicUser> {
    const values = [id, JSON.stringify(changes), skeleton, passwordHash, address || null];
    return this.#functions.call("change_user($1, $2::jsonb, $3, $4, $5::inet)", values);
  }

  /** Stores the token of a link, with its code. */
  async addToken(
    { kind, userId, returnTo }: LinkToken,
    {
      tokenHash,
      codeHash,
      expiresAt,
    }: { readonly tokenHash: Buffer; readonly codeHash: Buffer; readonly expiresAt: number },
    address: string,
  ): Promise<void> {
    const hashes = [bytes(tokenHash), bytes(codeHash)];
    const values = [kind, userId, JSON.stringify({ returnTo }), ...hashes, time(expiresAt), address || null];
    const types = "$1, $2, $3::jsonb, $4::bytea, $5::bytea, $6::timestamptz, $7::inet";
    await this.#functions.call(`add_token(${types})`, values);
  }

  /** Adds an invitation of a user who exists. */
  async invite(userId: string, email: string, returnTo: string | null, address: string): Promise<void> {
    const values = [userId, email, JSON.stringify({ returnTo }), address || null, this.#functions.now()];
    await this.#functions.call("invite_user($1, $2, $3::jsonb, $4::inet, $5::timestamptz)", values);
  }

  async deleteAccount(id: string, address: string): Promise<void> {
    await this.#functions.call("delete_account($1, $2::inet)", [id, address || null]);
  }

  async resetFactor(id: string, factorId: string, address: string): Promise<void> {
    await this.#functions.call("reset_factor($1, $2::uuid, $3::inet)", [id, factorId, address || null]);
  }
}
