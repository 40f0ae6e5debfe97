import type { z } from "zod";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import { type Identity, NO_REQUEST } from "../../db/transaction/identity.ts";
import type { Account } from "../../identity/account.ts";
import type { AdminUserAnswer, EventAnswer } from "./admin-schemas.ts";
import type { AuthFunctions } from "./functions.ts";
import { normalizedEmail } from "./login-names.ts";
import type { Found, PublicUser } from "./public-users.ts";

/** What an administrator changes; what is missing stays. */
export type AccountChanges = {
  readonly email?: string;
  readonly emailConfirmed?: boolean;
  readonly role?: string;
  readonly isBanned?: boolean;
  /** In ISO 8601; null, or missing, for a ban without an end. */
  readonly bannedUntil?: string | null;
  /** Whether EMAIL_CONFIRM=required keeps the account from signing in before its e-mail is confirmed. */
  readonly mustConfirm?: boolean;
  /** Whether the user is invited now. */
  readonly isInvited?: boolean;
  /** A key that is null is deleted. */
  readonly userMetadata?: Readonly<Record<string, unknown>>;
  readonly appMetadata?: Readonly<Record<string, unknown>>;
};

/** By what security events are found. */
export const EVENT_FILTERS = ["event", "user", "operator", "from", "to", "before"] as const;
export type EventFilters = Readonly<Record<(typeof EVENT_FILTERS)[number], string | null>>;

/** An account as an operator sees it. */
export type DescribedAccount = z.infer<typeof AdminUserAnswer>;

export type NewAccount = {
  readonly fields: { readonly name: string; readonly email: string };
  readonly username?: string | null | undefined;
  /** Null: the user sets a password by e-mail, or signs in with a provider. */
  readonly passwordHash: string | null;
  readonly changes: AccountChanges;
};

type Functions = Pick<AuthFunctions, "call" | "change" | "forget" | "now"> & { by(operator: string): Functions };
type Removal = { readonly text: string; readonly values: (string | null)[] };
type ServiceDatabase = { run(identity: Identity, removal: readonly [Removal]): Promise<unknown> };

/** Accounts as operators manage them. Security events name the operator. */
export class AdminUsers {
  readonly #functions: Functions;
  readonly #serviceDatabase: ServiceDatabase;
  readonly #operator: string | undefined;

  /** `serviceDatabase` is the pool of the service key, which may change the rows of all users. */
  constructor(functions: Functions, serviceDatabase: ServiceDatabase, operator?: string) {
    this.#functions = functions;
    this.#serviceDatabase = serviceDatabase;
    this.#operator = operator;
  }

  /** The same for this operator: `user 3`, `role service_role`. */
  by(operator: string): AdminUsers {
    return new AdminUsers(this.#functions.by(operator), this.#serviceDatabase, operator);
  }

  /** Security events, newest first. */
  events(filters: EventFilters, total: number): Promise<readonly z.infer<typeof EventAnswer>[]> {
    return this.#functions.call("list_events($1::jsonb, $2::integer)", [JSON.stringify(filters), String(total)]);
  }

  /**
   * Deletes a user with the rows that refer to the user, or gives these rows to the successor. Without a table of users, only the account is
   * deleted. Rejects with the errors of the database.
   */
  async remove(id: string, successor: string | null, address: string): Promise<void> {
    const caller = { role: "service_role", claims: { role: "service_role" }, expiresAt: null, refused: null };
    const settings = { fixed: [], given: [["request.address", address]] as const };
    const request = { ...NO_REQUEST, ...(this.#operator && { operator: this.#operator }) };
    const remove = { text: "select auth.remove_user($1, $2)", values: [id, successor] };
    try {
      await this.#serviceDatabase.run({ caller, request, settings }, [remove]);
      this.#functions.forget(id);
    } catch (error) {
      // Without a table of users, there is only an account to delete.
      if ((error as DatabaseErrorLike).code !== "55000" || successor !== null) throw error;
      await this.deleteAccount(id, address);
    }
  }

  /** Those whose e-mail, name or username contains the text, newest first. */
  search(
    text: string | null,
    first: number,
    total: number | null,
  ): Promise<{ total: number; users: DescribedAccount[] }> {
    const values = [text, String(first), total === null ? null : String(total)];
    return this.#functions.call("list_accounts($1, $2::bigint, $3::integer)", values);
  }

  /** By the id of the application, which may be any text. */
  describe(id: string): Promise<DescribedAccount | null> {
    return this.#functions.call("find_described_account($1)", [id]);
  }

  /** By the username or the e-mail. */
  byLogin(login: string): Promise<Account | null> {
    return this.#functions.call("find_account($1)", [login]);
  }

  /** Rejects with the errors of the database. */
  create({ fields, username = null, passwordHash, changes }: NewAccount, address: string): Promise<Found> {
    const values = [
      JSON.stringify({ ...fields, email: normalizedEmail(fields.email) }),
      username,
      passwordHash,
      JSON.stringify(changes),
      address || null,
    ];
    return this.#functions.call("create_user($1::jsonb, $2, $3, $4::jsonb, $5::inet)", values);
  }

  /** Rejects with the errors of the database. */
  change(id: string, changes: AccountChanges, passwordHash: string | null, address: string): Promise<PublicUser> {
    const email = changes.email && normalizedEmail(changes.email);
    const values = [id, JSON.stringify({ ...changes, email }), passwordHash, address || null];
    return this.#functions.change("change_user($1, $2::jsonb, $3, $4::inet)", values);
  }

  async deleteAccount(id: string, address: string): Promise<void> {
    await this.#functions.change("delete_account($1, $2::inet)", [id, address || null]);
  }

  /** Without `factorId`, all of them. Returns false if none was enabled. */
  resetFactor(id: string, factorId: string | null, address: string): Promise<boolean> {
    return this.#functions.change("reset_factor($1, $2::uuid, $3::inet)", [id, factorId, address || null]);
  }

  async endSignIns(id: string, address: string): Promise<void> {
    await this.#functions.change("end_sign_ins($1, $2::inet)", [id, address || null]);
  }
}
