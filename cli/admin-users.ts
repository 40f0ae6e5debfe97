import type pg from "pg";
import { AdminUsers } from "../rest-gateway/auth/admin-users.ts";

/** Accounts, as the owner of the database manages them in a transaction. Triggers notify the running service of each change. */
export function adminUsersOf(client: pg.Client): AdminUsers {
  const call = async <T>(name: string, values: readonly (string | null)[]): Promise<T> => {
    const { rows } = await client.query<{ result: T }>(`select to_json(auth_api.${name}) as result`, [...values]);
    return rows[0]!.result;
  };
  const now = () => new Date().toISOString();
  const functions = { call, change: call, forget: () => {}, now, by: () => functions };
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
