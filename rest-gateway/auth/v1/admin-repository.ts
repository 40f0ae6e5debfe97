import type { AuthFunctions } from "../functions.ts";
import type { PublicUser } from "./repository.ts";

/** `id` is that of the application, as text. */
export type Found = { readonly id: string; readonly user: PublicUser };

/** What an administrator changes; what is missing stays. */
export type AccountChanges = {
  readonly email?: string;
  readonly emailConfirmed?: boolean;
  readonly role?: string;
  readonly isBanned?: boolean;
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

  async deleteAccount(id: string, address: string): Promise<void> {
    await this.#functions.call("delete_account($1, $2::inet)", [id, address || null]);
  }

  async resetFactor(id: string, factorId: string, address: string): Promise<void> {
    await this.#functions.call("reset_factor($1, $2::uuid, $3::inet)", [id, factorId, address || null]);
  }
}
