import type pg from "pg";
import { withClient } from "../cluster/client.ts";
import { quoteIdentifier } from "../sql.ts";

type Refusal = { readonly needs: "setting" | "right"; readonly text: string };

/** Why changes are not read; null without a reason. */
export const whyUnread = (reasons: readonly string[]): string | null =>
  reasons.length === 0 ? null : `changes cannot be read, because ${reasons.join("; and because ")}`;

/** Everything that keeps the login from reading the write-ahead log, and what to do. */
export async function refusalsOfLogical(client: pg.Client, login: string): Promise<Refusal[]> {
  const { rows } = await client.query(
    `select current_setting('wal_level') as level,
       (select rolreplication or rolsuper or exists (
          select from pg_roles as managed where managed.rolname = 'rds_replication' and pg_has_role(r.oid, managed.oid, 'member')
        ) from pg_roles as r where rolname = $1) as may_replicate`,
    [login],
  );
  const { level, may_replicate: mayReplicate } = rows[0];
  const refusals: Refusal[] = [];
  if (level !== "logical")
    refusals.push({
      needs: "setting",
      text: `wal_level is ${level}: a DBA can run: alter system set wal_level = logical, and restart the server`,
    });
  const role = quoteIdentifier(login);
  if (!mayReplicate)
    refusals.push({
      needs: "right",
      text: `the login ${login} may not replicate: a superuser can run: alter role ${role} replication`,
    });
  return refusals;
}

/** `server_version_num` of the first PostgreSQL whose standbys decode the write-ahead log. */
const DECODES = 160_000;

type Inspected = { readonly isStandby: boolean; readonly system: string; readonly refusals: readonly string[] };

/** Whether the server of CHANGES_URL is a standby, and what it then lacks. */
export async function inspectServer(client: pg.ClientBase): Promise<Inspected> {
  const { rows } = await client.query(
    `select pg_is_in_recovery() as "isStandby", current_setting('server_version_num')::int as version,
       current_setting('server_version') as name, system_identifier::text as system
     from pg_control_system()`,
  );
  const { isStandby, version, name, system } = rows[0];
  const refusals =
    isStandby && version < DECODES
      ? [`CHANGES_URL names a standby with PostgreSQL ${name}: only from 16 on can a standby decode its log`]
      : [];
  return { isStandby, system, refusals };
}

/**
 * Rejects if the log of the database of `owner` cannot be read at this server. One that does not answer now is tried again later.
 * With `mayGrant`, the login that reads changes gets the right with which a slot is made at once.
 */
export async function prepareStandby(owner: pg.ClientBase, url: string, mayGrant: boolean): Promise<void> {
  const there = await withClient(url, (client) => inspectServer(client)).catch(() => null);
  if (there === null) return;
  if (there.refusals.length > 0) throw new Error(there.refusals.join("; "));
  if (there.system !== (await inspectServer(owner)).system) throw new Error(OTHER_SERVER);
  // Without it, making a slot takes up to 15 seconds.
  if (there.isStandby && mayGrant) await owner.query(GRANT).catch(() => {});
}

const GRANT = "grant execute on function pg_catalog.pg_log_standby_snapshot() to changes_owner";

export const OTHER_SERVER = "CHANGES_URL names neither the database server nor a standby of it";
