import type { ClientBase } from "pg";
import type { Config } from "../../config/config.ts";
import { loginName } from "../cluster/provision.ts";
import type { AdviceOptions } from "./advisor.ts";

/** The roles of callers in a database that the service migrates, beside the role of anonymous ones. */
export const CALLER_ROLES = ["authenticated", "admin", "users_editor"];

type Callers = Pick<AdviceOptions, "logins" | "roles">;

/** Who calls, for these logins. */
export const callersWith = (
  logins: readonly string[],
  { migrate, dbAnonRole }: Pick<Config, "migrate" | "dbAnonRole">,
): Callers => ({ logins, roles: [dbAnonRole, ...(migrate ? CALLER_ROLES : [])] });

/** Who calls, for a command that is connected as the owner. */
export async function callersOf(client: ClientBase, config: Pick<Config, "migrate" | "dbAnonRole">): Promise<Callers> {
  const { rows } = await client.query<{ database: string; login: string }>(
    "select current_database() as database, current_user as login",
  );
  const { database, login } = rows[0]!;
  const logins = config.migrate ? [loginName(database, "data"), loginName(database, "admin")] : [login];
  return callersWith(logins, config);
}
