import type { Pool } from "pg";
import { SHORT_LOCK_TIMEOUT } from "../follow/lock-retries.ts";

export type PolicyCommand = "all" | "select" | "insert" | "update" | "delete";

/** A row-level policy. */
export type Policy = {
  readonly schema: string;
  readonly table: string;
  readonly name: string;
  readonly command: PolicyCommand;
  readonly isPermissive: boolean;
  /** The roles that it applies to, possibly "public". */
  readonly roles: readonly string[];
  /** SQL text of the condition for rows that exist; null if there is none. All names are qualified. */
  readonly using: string | null;
  /** SQL text of the condition for rows that are written; null if there is none, and USING applies. */
  readonly check: string | null;
};

const POLICIES = `
  select schemaname as schema, tablename as table, policyname as name, lower(cmd) as command,
    permissive = 'PERMISSIVE' as "isPermissive", roles::text[], qual as using, with_check as check
  from pg_policies
  where schemaname = any ($1)
  order by schemaname, tablename, policyname`;

/** The policies of all tables in these schemas, as the database has them now. Rejects with 55P03 if a table is locked. */
export async function readPolicies(
  pool: Pick<Pool, "connect">,
  schemas: readonly string[],
): Promise<readonly Policy[]> {
  const client = await pool.connect();
  try {
    // With an empty search path Postgres writes every name with its schema.
    await client.query(`begin read only; set local search_path = ''; ${SHORT_LOCK_TIMEOUT}`);
    const { rows } = await client.query<Policy>(POLICIES, [schemas]);
    return rows;
  } finally {
    await client.query("rollback");
    client.release();
  }
}

/** Whether the policy applies to a role that has the privileges of these roles, its own included. */
export const appliesTo = ({ roles }: Policy, inherited: ReadonlySet<string>): boolean =>
  roles.some((role) => inherited.has(role));

/**
 * SQL text of the condition under which these policies allow a row to be read or inserted: all restrictive ones and one permissive
 * one must hold. A policy for all commands checks new rows with USING if it has no WITH CHECK.
 */
export function conditionFor(
  command: "select" | "insert",
  policies: readonly Pick<Policy, "command" | "isPermissive" | "using" | "check">[],
): string {
  const conditions = (isPermissive: boolean) =>
    policies.flatMap((policy) => {
      const isRelevant =
        policy.isPermissive === isPermissive && (policy.command === command || policy.command === "all");
      const condition = command === "select" ? policy.using : (policy.check ?? policy.using);
      return isRelevant && condition !== null ? [`(${condition})`] : [];
    });
  const permissive = conditions(true);
  if (permissive.length === 0) return "false";
  return [...conditions(false), `(${permissive.join(" or ")})`].join(" and ");
}
