import pg from "pg";
import { withClient } from "../db/cluster/client.ts";
import { MigrationFailure } from "../db/cluster/migration-failure.ts";
import type { Part } from "./part.ts";

/** Without it the error of PostgreSQL, which names the right, is all. */
export const WITHOUT_PART = "The part development writes the SQL that gives a missing right: open it";

/** Rejects with the failure of a migration at the database of `url`; if a right was missing, with the SQL that gives it. */
export async function explainRefusal(
  parts: readonly Part[],
  error: unknown,
  url: string,
  runsMigrations: boolean,
): Promise<never> {
  const cause = (error as Error).cause ?? error;
  if (!(cause instanceof pg.DatabaseError) || cause.code !== "42501") throw error;
  const [, refused] = /^permission denied for schema (.+)$/.exec(cause.message) ?? [];
  const use = { runsMigrations, makesRoles: true, ...(refused === undefined ? {} : { schemas: [refused] }) };
  const part = parts.find(({ missingRights }) => missingRights);
  const missing = part && (await withClient(url, (client) => part.missingRights!(client, use)).catch(() => null));
  if (missing === null) throw error;
  throw new MigrationFailure(`${(error as Error).message}\n${missing?.cure ?? WITHOUT_PART}`, { cause });
}
