import type pg from "pg";
import type { Account } from "../identity/account.ts";
import { emailSkeleton, usernameSkeleton } from "../rest-gateway/auth/login-names.ts";

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
    const looks = [emailSkeleton(email), username, username && usernameSkeleton(username)];
    const [created] = await this.#rows<{ id: string }>(
      "select auth_api.register($1, $2, $3, $4, $5, '{}', true, '{}')::text as id",
      ...[JSON.stringify({ name, email }), ...looks, passwordHash],
    );
    await this.#rows("update auth_private.accounts set role = $2 where user_id = $1 and role <> $2", created!.id, role);
    await this.#record("registered", created!.id);
    return created!.id;
  }

  /** Changes the e-mail that the account signs in with, and the e-mail of the user. Rejects with the errors of the database. */
  async setEmail(id: string, email: string): Promise<void> {
    await this.#rows("select auth_private.change_email($1, $2, $3, 'operator')", id, email, emailSkeleton(email));
  }

  async setPassword(id: string, hash: string): Promise<void> {
    await this.#rows("update auth_private.accounts set password_hash = $2 where user_id = $1", id, hash);
  }

  async setRole(id: string, role: string): Promise<void> {
    await this.#rows("update auth_private.accounts set role = $2 where user_id = $1 and role <> $2", id, role);
  }

  async disable(id: string): Promise<void> {
    const text = "update auth_private.accounts set disabled_at = now() where user_id = $1 and disabled_at is null";
    await this.#rows(text, id);
  }

  async enable(id: string): Promise<void> {
    const text = "update auth_private.accounts set disabled_at = null where user_id = $1 and disabled_at is not null";
    await this.#rows(text, id);
  }

  /** False when no second factor was enabled. */
  async resetFactor(id: string): Promise<boolean> {
    const [row] = await this.#rows<{ removed: boolean }>("select auth_private.reset_factor($1) as removed", id);
    if (row!.removed) await this.#record("mfa_disabled", id);
    return row!.removed;
  }

  list(): Promise<AccountRow[]> {
    return this.#rows(`
      select a.user_id::text as id, coalesce(a.username, '') as username, coalesce(e.email, '') as email, a.role,
        case when a.disabled_at is null then 'enabled' else 'disabled' end as state,
        case when auth_private.has_factor(a.user_id) then 'yes' else 'no' end as factor
      from auth_private.accounts as a
      left join auth_private.login_emails as e on e.user_id = a.user_id and e.released_at is null
      order by a.user_id`);
  }

  async #record(event: string, id: string): Promise<void> {
    await this.#rows(`select auth_api.note_event($1, $2, null, '{"by": "operator"}', now())`, event, id);
  }

  async #rows<Row extends object>(text: string, ...values: (string | null)[]): Promise<Row[]> {
    return (await this.client.query<Row>(text, values)).rows;
  }
}
