import type pg from "pg";
import { AdminUsers } from "../rest-gateway/auth/admin-users.ts";

/** Accounts, as the owner of the database manages them in a transaction. Triggers notify the running service of each change. */
export function adminUsersOf(client: pg.Client): AdminUsers {
  const functions = {
    async call<T>(call: string, values: readonly (string | null)[]): Promise<T> {
      const { rows } = await client.query<{ result: T }>(`select to_json(auth_api.${call}) as result`, [...values]);
      return rows[0]!.result;
    },
    now: () => new Date().toISOString(),
    by: () => functions,
  };
  return new AdminUsers(functions, {
    async run(_identity, [{ text, values }]) {
      await client.query("savepoint before");
      try {
        await client.query(text, values);
      } catch (error) {
        await client.query("rollback to savepoint before");
        throw error;
      }
    },
  });
}
