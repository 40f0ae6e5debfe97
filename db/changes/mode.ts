import pg from "pg";
import type { Config } from "../../config/config.ts";
import type { Logins } from "../cluster/provision.ts";
import { ChangeFeed } from "./feed.ts";
import { LogicalSource } from "./logical.ts";
import { OutboxSource } from "./outbox.ts";
import { Publication, type PublicationManager } from "./publication.ts";
import { slotOf } from "./slot.ts";

/** How changes are read; "logical" is logical decoding, "outbox" a table that triggers fill. */
export type ChangeMode = "logical" | "outbox" | "none";

/** How and where committed changes are read. */
export type ChangesConfig = {
  readonly mode: ChangeMode;
  /** Why the mode is not "logical"; "" if it is. */
  readonly reason: string;
  readonly publication: string;
  readonly manager: PublicationManager;
  /** The connection string of the login that may read changes. */
  readonly url: string;
  /** The OID of the database. */
  readonly database: number;
};

/** The publication of the service (db/schema/changes/publication.sql). */
export const PUBLICATION = "content_changes";

/**
 * Chooses how the changes of a database of the service are read: by logical decoding where the server and the owner's rights allow
 * that, otherwise through the outbox. `owner` may give the login of `url` the right to replicate.
 */
export async function prepareChanges(owner: pg.Client, url: string): Promise<ChangesConfig> {
  const login = new URL(url).username;
  let reason = await refuseLogical(owner, login);
  if (reason?.needs === "right") {
    const granted = await owner.query(`alter role ${owner.escapeIdentifier(login)} replication`).catch(() => null);
    if (granted) reason = null;
  }
  return {
    mode: reason ? "outbox" : "logical",
    reason: reason?.text ?? "",
    publication: PUBLICATION,
    manager: "service",
    url,
    database: await databaseOf(owner),
  };
}

/**
 * Chooses how the changes of any other database are read (MIGRATE=off): by logical decoding if its login may replicate and
 * there is a publication.
 */
export async function findChanges(login: pg.Client, url: string, publication: string): Promise<ChangesConfig> {
  const { rows } = await login.query<{ user: string; is_owned: boolean | null }>(
    `select current_user as user,
       (select pg_has_role(pubowner, 'usage') from pg_publication where pubname = $1) as is_owned`,
    [publication],
  );
  const { user, is_owned: isOwned } = rows[0]!;
  let reason = (await refuseLogical(login, user))?.text ?? "";
  if (reason === "" && isOwned === null)
    reason = `there is no publication: a DBA can run: ${await creationOf(login, publication)}`;
  return {
    mode: reason === "" ? "logical" : "none",
    reason: reason && `changes cannot be read, because ${reason}`,
    publication,
    manager: isOwned === false ? "dba" : "login",
    url,
    database: await databaseOf(login),
  };
}

/** The statement that creates the publication. The database stays unchanged until a DBA runs it. */
async function creationOf(client: pg.Client, publication: string): Promise<string> {
  const { rows } = await client.query(
    "select current_setting('server_version_num')::integer >= 180000 as has_generated",
  );
  const generated = rows[0].has_generated ? ", publish_generated_columns = stored" : "";
  const name = client.escapeIdentifier(publication);
  return `create publication ${name} for tables in schema public with (publish_via_partition_root${generated})`;
}

async function databaseOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ oid: number }>(
    "select oid from pg_database where datname = current_database()",
  );
  return rows[0]!.oid;
}

type Refusal = { readonly needs: "setting" | "right"; readonly text: string };

/** Why the login cannot read the write-ahead log, and what to do. */
async function refuseLogical(client: pg.Client, login: string): Promise<Refusal | null> {
  const { rows } = await client.query(
    `select current_setting('wal_level') as level,
       (select rolreplication or rolsuper or exists (
          select from pg_roles as managed where managed.rolname = 'rds_replication' and pg_has_role(r.oid, managed.oid, 'member')
        ) from pg_roles as r where rolname = $1) as may_replicate`,
    [login],
  );
  const { level, may_replicate: mayReplicate } = rows[0];
  if (level !== "logical")
    return {
      needs: "setting",
      text: `wal_level is ${level}: a DBA can run: alter system set wal_level = logical, and restart the server`,
    };
  const role = client.escapeIdentifier(login);
  if (!mayReplicate)
    return {
      needs: "right",
      text: `the login ${login} may not replicate: a superuser can run: alter role ${role} replication`,
    };
  return null;
}

export type FeedOptions = Pick<Config, "instanceId" | "dbSchemas" | "changesMaxBytes"> & {
  readonly log: FeedLog;
  onConnectionError(error: Error): void;
};

export type FeedLog = { info(message: string): void; warn(message: string): void };

type Opened = { readonly changes: ChangesConfig; readonly logins: Pick<Logins, "data" | "admin" | "service"> };

/** The feed of the changes of a database that has been opened. */
export function createFeed({ changes, logins }: Opened, options: FeedOptions): ChangeFeed {
  const { changesMaxBytes: maxBytes, log } = options;
  const { mode, reason } = changes;
  if (mode === "logical") log.info("changes are read from the write-ahead log");
  else log.warn(mode === "outbox" ? `changes are read from an outbox table, because ${reason}` : reason);
  if (mode === "none") return new ChangeFeed({ source: null, reason, maxBytes });
  const publication = publicationOf(changes, [logins.data, logins.admin, logins.service], options);
  return new ChangeFeed({ source: sourceOf(changes, options), publication, maxBytes });
}

function sourceOf({ mode, url, database, publication, manager }: ChangesConfig, options: FeedOptions) {
  const { instanceId, log, onConnectionError: onError } = options;
  if (mode === "outbox") return new OutboxSource({ connectionString: url, onError });
  return new LogicalSource({
    connectionString: url,
    slot: slotOf(database, instanceId),
    publication,
    hasInstances: manager === "service",
    onError,
    onWarning: (warning) => log.warn(warning),
  });
}

function publicationOf(
  { mode, url, publication, manager }: ChangesConfig,
  logins: readonly string[],
  { dbSchemas, log, onConnectionError }: FeedOptions,
): Publication {
  return new Publication({
    pool: new pg.Pool({
      connectionString: url,
      max: 1,
      application_name: "content-service changes",
      ...(manager === "service" && { options: "-c role=changes_owner" }),
    }),
    name: publication,
    manager,
    schemas: dbSchemas,
    logins: logins.map((login) => decodeURIComponent(new URL(login).username)),
    usesOutbox: mode === "outbox",
    onError: onConnectionError,
    onWarning: (warning) => log.warn(warning),
  });
}
