import type pg from "pg";
import { CREDENTIALS } from "../../problems/credentials.ts";

const [, , REFUSED] = CREDENTIALS["service key off"];

/** Why the service key is refused in a database with modules, and what cures it; null if it is accepted. */
export async function whyNoServiceKey(client: pg.ClientBase): Promise<string | null> {
  const { rowCount } = await client.query("select from pg_roles where rolname = 'service_role' and rolbypassrls");
  if (rowCount === 1) return null;
  return `${REFUSED}. A superuser can run: alter role service_role bypassrls; then restart the service`;
}
