import type pg from "pg";
import type { Account } from "../identity/account.ts";
import { type AccountChanges, type DescribedAccount, isWithoutTable } from "../rest-gateway/auth/admin-users.ts";
import { normalizedEmail } from "../rest-gateway/auth/login-names.ts";

/** An account as an operator sees it. */
export type AccountRow = {
  readonly id: string;
  /** "" when the e-mail is the login. */
  readonly username: string;
  readonly email: string;
  readonly role: string;
  readonly state: "enabled" | "disabled";
  readonly factor: "yes" | "no";
};

export type NewAccount = {
  readonly name: string;
  readonly email: string;
  readonly username: string | null;
  readonly role: string;
  readonly passwordHash: string;
};

/** The accounts, as the owner of the database. Triggers record each change and notify the running service. */
export class AccountRepository {
  readonly client: pg.Client;

  constructor(client: pg.Client) {
    this.client = client;
  }

  /** Finds an account by username or e-mail. */
  async find(login: string): Promise<Account | null> {
    const [row] = await this.#rows<{ account: Account | null }>("select auth_api.find_account($1) as account", login);
    return row!.account;
  }

  /** Returns the id of the new user. Rejects with the errors of the database. */
  async create({ name, email, username, role, passwordHash }: NewAccount): Promise<string> {
    const [row] = await this.#rows<{ created: { readonly id: string } }>(
      "select auth_api.create_user($1, $2, $3, $4, null) as created",
      ...[JSON.stringify({ name, email: normalizedEmail(email) }), username],
      ...[passwordHash, JSON.stringify({ role })],
    );
    return row!.created.id;
  }

  /** Changes an account, and the e-mail of its user. Rejects with the errors of the database. */
  async change(id: string, changes: AccountChanges, passwordHash: string | null = null): Promise<void> {
    const email = changes.email && normalizedEmail(changes.email);
    const values = [id, JSON.stringify({ ...changes, email }), passwordHash];
    await this.#rows("select auth_api.change_user($1, $2, $3, null)", ...values);
  }

  /** False when no second factor was enabled. */
  async resetFactor(id: string): Promise<boolean> {
    const text = "select auth_api.reset_factor($1, null, null) as removed";
    return (await this.#rows<{ removed: boolean }>(text, id))[0]!.removed;
  }

  async endSignIns(id: string): Promise<void> {
    await this.#rows("select auth_api.end_sign_ins($1, null)", id);
  }

  /** Deletes a user with the rows that refer to the user, or gives these rows to the successor. Rejects with the errors of the database. */
  async remove(id: string, successor: string | null): Promise<void> {
    const { client } = this;
    await client.query("savepoint remove_user");
    try {
      await this.#rows("select auth.remove_user($1, $2)", id, successor);
    } catch (error) {
      if (!isWithoutTable(error, successor)) throw error;
      await client.query("rollback to savepoint remove_user");
      await this.#rows("select auth_api.delete_account($1, null)", id);
    }
  }

  /** Those whose name, username or e-mail contains the text, or whose id it is; null for all. */
  async list(text: string | null): Promise<AccountRow[]> {
    const [row] = await this.#rows<{ found: { readonly users: readonly DescribedAccount[] } }>(
      "select auth_api.list_accounts($1, 0, null) as found",
      text,
    );
    return row!.found.users.map(({ id, username, email, role, disabled, mfaEnabled }) => ({
      id: String(id),
      username: username ?? "",
      email: email ?? "",
      role,
      state: disabled ? "disabled" : "enabled",
      factor: mfaEnabled ? "yes" : "no",
    }));
  }

  async #rows<Row extends object>(text: string, ...values: (string | null)[]): Promise<Row[]> {
    return (await this.client.query<Row>(text, values)).rows;
  }
}
