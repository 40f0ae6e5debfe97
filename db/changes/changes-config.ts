import pg from "pg";
import type { Config } from "../../config/config.ts";
import { quoteIfNeeded } from "../catalog/catalog.ts";
import { prepareSession, withClient } from "../cluster/client.ts";
import type { Logins } from "../cluster/provision.ts";
import type { DatabaseLimits } from "../limits.ts";
import { quoteIdentifier } from "../sql.ts";
import { PrimaryClient } from "../wire/primary.ts";
import type { DescribedTable } from "./column-numbers.ts";
import { ChangeFeed } from "./feed.ts";
import { LogicalSource } from "./logical.ts";
import { Publication, type PublicationManager } from "./publication.ts";
import { creationOf } from "./publication-plan.ts";
import { serverVersion, type TableState, tablesQuery } from "./publication-state.ts";
import { sharedSlotOf, slotOf } from "./replication-slot.ts";
import { inspectServer, OTHER_SERVER, refusalsOfLogical, whyUnread } from "./requirements.ts";
import { SharedSource } from "./shared.ts";
import type { SharedLog } from "./shared-log.ts";
import { ChangesMissing, type FoundSource } from "./source-search.ts";

/** How and where committed changes are read. It has no functions, because worker processes receive it as JSON. */
export type ChangesConfig = {
  /** Why they cannot be read, with what a DBA can run; null if they can. It names logins and tables. */
  readonly missing: string | null;
  readonly publication: string;
  readonly manager: PublicationManager;
  /** The connection string of a login at the primary, which may read changes unless a standby does. */
  readonly url: string;
  /** The connection string of the login that may read changes at a standby; "" if the primary decodes the log. */
  readonly standbyUrl: string;
  /** The OID of the database. */
  readonly database: number;
  /** Where `findChanges` looks; null if the service manages the publication. */
  readonly search: { readonly url: string; readonly options: FindOptions } | null;
};

/** The publication of the service (db/modules/feed/publication.sql), or of a DBA. */
export const PUBLICATION = "content_changes";
/** The publication of a database of Supabase, which has the tables whose changes its clients receive. */
const SUPABASE_PUBLICATION = "supabase_realtime";

/** The publication of a DBA whose changes are read: one of Supabase if there is none for the service. Null if there is neither. */
export async function publicationIn(client: pg.ClientBase): Promise<string | null> {
  const { rows } = await client.query<{ name: string }>(
    "select pubname as name from pg_publication where pubname in ($1, $2) order by pubname <> $1",
    [PUBLICATION, SUPABASE_PUBLICATION],
  );
  return rows[0]?.name ?? null;
}

/**
 * How the changes of a database of the service are read. With `mayGrant`, `owner` may give the login of `url` the right to replicate, if
 * nothing else is missing.
 */
export async function prepareChanges(
  owner: pg.Client,
  { url, standbyUrl }: Pick<ChangesConfig, "url" | "standbyUrl">,
  mayGrant: boolean,
): Promise<ChangesConfig> {
  const login = decodeURIComponent(new URL(url).username);
  const refusals = await refusalsOfLogical(owner, login);
  if (mayGrant && refusals.length === 1 && refusals[0]!.needs === "right") {
    const granted = await owner.query(`alter role ${quoteIdentifier(login)} replication`).catch(() => null);
    if (granted) refusals.length = 0;
  }
  return {
    missing: whyUnread(refusals.map(({ text }) => text)),
    ...{ publication: PUBLICATION, manager: "service", url, standbyUrl },
    database: (await owner.query<{ oid: number }>(DATABASE)).rows[0]!.oid,
    search: null,
  };
}

/** Looks again for what was missing. */
const findAgain = ({ search, ...changes }: ChangesConfig): Promise<ChangesConfig> =>
  search === null
    ? withClient(changes.url, (client) => prepareChanges(client, changes, false))
    : findChanges(search.url, search.options);

export type FindOptions = {
  /** The served schemas. */
  readonly schemas: readonly string[];
  /** The connection string of the login for changes; "" if there is none. */
  readonly changesUrl: string;
  /** The logins of a service, if the owner asks about them: of requests, and the one that reads changes. */
  readonly logins?: { readonly requests: string; readonly changes: string };
  /** Whether MODULES leaves out the feed, so that without a publication changes are not wanted. */
  readonly isOptional?: boolean;
};

/** Why they are not read on purpose: a DBA has made no publication either. */
const LEFT_OUT = "changes of tables are not read, because MODULES leaves out feed";

/**
 * How the changes of any other database are read (MIGRATE=off), if the login for changes may replicate and there is a publication. `url`
 * is a direct connection with the login of requests.
 */
export async function findChanges(url: string, options: FindOptions): Promise<ChangesConfig> {
  const found = await withClient(url, async (client) => {
    const { rows } = await client.query<{ user: string; database: string; oid: number }>(
      `select coalesce($1, current_user) as user, datname as database, oid
       from pg_database where datname = current_database()`,
      [options.logins?.requests],
    );
    const { user, database, oid } = rows[0]!;
    const publication = await publicationIn(client);
    if (options.isOptional && publication === null) return { ...REFUSED, missing: LEFT_OUT, oid, publication };
    const reading = options.changesUrl
      ? await withClient(options.changesUrl, (reader) => inspect(reader, client, database, publication, options)).catch(
          refusalOfLogin,
        )
      : await inspect(client, client, database, publication, options);
    const creation = publication === null ? [await creationFor(client, options, user)] : [];
    return { ...reading, missing: whyUnread([...reading.reasons, ...creation]), oid, publication };
  });
  const { missing, isOwned, isStandby, oid } = found;
  return {
    missing,
    publication: found.publication ?? PUBLICATION,
    manager: isOwned ? "login" : "dba",
    url: isStandby ? url : options.changesUrl || url,
    standbyUrl: isStandby ? options.changesUrl : "",
    database: oid,
    search: { url, options },
  };
}

/** What a login finds that is to read changes. */
type Reading = { readonly reasons: readonly string[]; readonly isOwned: boolean; readonly isStandby: boolean };

async function inspect(
  client: pg.Client,
  primary: pg.Client,
  database: string,
  publication: string | null,
  { changesUrl, logins }: FindOptions,
): Promise<Reading> {
  const { rows } = await client.query(
    `select coalesce($2, current_user) as user, current_database() as database,
       (select pg_has_role(pubowner, 'usage') from pg_publication where pubname = $1) as is_owned`,
    [publication, logins?.changes],
  );
  const { user, database: own, is_owned: isOwned } = rows[0]!;
  if (own !== database)
    return { ...REFUSED, reasons: [`CHANGES_URL names the database ${own} instead of ${database}`] };
  const { isStandby, system, refusals } = await inspectServer(client);
  if (refusals.length > 0) return { ...REFUSED, reasons: refusals };
  if (isStandby && (await inspectServer(primary)).system !== system) return { ...REFUSED, reasons: [OTHER_SERVER] };
  const hasOwnLogin = changesUrl !== "" || logins !== undefined;
  const reasons = (await refusalsOfLogical(client, user)).map(({ needs, text }) =>
    needs === "right" && !hasOwnLogin ? adviceForLogin(user, database) : text,
  );
  // The login that then asks about the publication is that of requests, at the primary.
  return { reasons, isStandby, isOwned: isOwned === true && !isStandby };
}

const REFUSED = { isOwned: false, isStandby: false } as const;

/** A login that serves requests should not replicate: it could copy the whole server, with all its databases. */
const adviceForLogin = (user: string, database: string) =>
  `the login ${user} may not replicate, and should not, because it serves requests. A superuser can create another login: ` +
  `create role ${quoteIfNeeded(`${database}_changes`)} login replication password '…'; its connection URL is the setting CHANGES_URL`;

const refusalOfLogin = ({ message }: Error): Reading => ({
  ...REFUSED,
  reasons: [`the login of CHANGES_URL is refused: ${message}`],
});

/** Why the publication is missing, and the statement that creates it. The database stays unchanged until a DBA runs it. */
async function creationFor(client: pg.Client, { schemas }: FindOptions, login: string): Promise<string> {
  const { rows } = await client.query<TableState>(tablesQuery, [schemas, [login], PUBLICATION]);
  const { sql, leftOut } = creationOf(rows, { name: PUBLICATION, server: await serverVersion(client) });
  const without =
    leftOut.length === 0 ? "" : ` (it leaves out tables that could no longer be written: ${leftOut.join("; ")})`;
  const missing = `there is no publication ${PUBLICATION}`;
  if (sql === null) return `${missing}, and no table that callers may read can be published${without}`;
  return `${missing}: a DBA can run: ${sql}${without}`;
}

const DATABASE = "select oid from pg_database where datname = current_database()";

export type FeedOptions = Pick<Config, "instanceId" | "dbSchemas"> &
  Pick<DatabaseLimits, "changesMaxBytes" | "changesOpenTimeout"> & {
    readonly pool: pg.Pool;
    readonly log: FeedLog;
    /** The log in which processes share what one of them reads; null if each process reads for itself. */
    readonly sharedLog: ((publication: string) => SharedLog) | null;
    onConnectionError(error: Error): void;
    /** Called when something else arrives, or does not arrive, than before. */
    onPublicationChange(): void;
  };

export type FeedLog = { info(message: string): void; warn(message: string): void };

/** Maximum connections: one each for the source, the publication and the lost channels. */
const CONNECTIONS = 3;
const CONNECT_MILLISECONDS = 10_000;

/** The connections of the login that reads changes, in the role of the owner of what the service keeps about them. */
export function changesPool(
  { url, manager }: Pick<ChangesConfig, "url" | "manager">,
  onError: (error: Error) => void,
): pg.Pool {
  const pool = new pg.Pool({
    Client: PrimaryClient,
    connectionString: url,
    max: CONNECTIONS,
    connectionTimeoutMillis: CONNECT_MILLISECONDS,
    application_name: "content-service changes",
    onConnect: prepareSession,
    ...(manager === "service" && { options: "-c role=changes_owner" }),
  });
  pool.on("error", onError);
  pool.on("connect", (client) => client.on("error", onError));
  return pool;
}

/** What the log of a start warns about; null if changes are read, or not on purpose. */
export function warningOf({ missing, manager }: Pick<ChangesConfig, "missing" | "manager">): string | null {
  if (missing === null || missing === LEFT_OUT) return null;
  const cure = manager === "service" ? "" : "; the module feed sets it up itself";
  return `${missing}. Only subscriptions to changes need this${cure}`;
}

type Opened = { readonly changes: ChangesConfig; readonly logins: Pick<Logins, "data" | "admin" | "service"> };

/** The feed of the changes of a database that has been opened. */
export function createFeed({ changes, logins }: Opened, options: FeedOptions): ChangeFeed {
  const { changesMaxBytes: maxBytes, changesOpenTimeout: openTimeout, log, onConnectionError } = options;
  const { missing: reason } = changes;
  if (reason === null) return new ChangeFeed({ ...openSource({ changes, logins }, options), maxBytes, openTimeout });
  const search = {
    reason,
    async find() {
      const found = await findAgain(changes);
      if (found.missing !== null) throw new ChangesMissing(found.missing);
      return openSource({ changes: found, logins }, options);
    },
    onMissing: (missing: string) => log.warn(missing),
    onError: onConnectionError,
  };
  return new ChangeFeed({ source: null, search, maxBytes, openTimeout });
}

function openSource({ changes, logins }: Opened, options: FeedOptions): FoundSource {
  options.log.info(
    options.sharedLog
      ? "changes are read from the write-ahead log, by one process for all with the same REDIS_URL"
      : "changes are read from the write-ahead log",
  );
  const publication = publicationOf(changes, [logins.data, logins.admin, logins.service], options);
  return { source: sourceOf(changes, publication, options), publication };
}

function sourceOf(changes: ChangesConfig, publication: Publication, options: FeedOptions) {
  const { url, standbyUrl, database, publication: name, manager } = changes;
  const { instanceId, pool, log, sharedLog, changesMaxBytes: maxBytes, onConnectionError: onError } = options;
  const common = {
    ...{ connectionString: standbyUrl || url, pool },
    standby: standbyUrl === "" ? null : changesPool({ url: standbyUrl, manager: "dba" }, onError),
    publication: name,
    hasInstances: manager === "service",
    onError,
    onWarning: (warning: string) => log.warn(warning),
    onTable: (table: DescribedTable) => publication.meet(table),
  };
  return sharedLog === null
    ? new LogicalSource({ ...common, slot: slotOf(database, instanceId) })
    : new SharedSource({ ...common, slot: sharedSlotOf(database, name), log: sharedLog(name), maxBytes });
}

function publicationOf(
  { publication, manager }: ChangesConfig,
  logins: readonly string[],
  { pool, dbSchemas, log, onConnectionError, onPublicationChange: onChange }: FeedOptions,
): Publication {
  return new Publication({
    pool,
    name: publication,
    manager,
    schemas: dbSchemas,
    logins: logins.map((login) => decodeURIComponent(new URL(login).username)),
    onChange,
    onError: onConnectionError,
    onWarning: (warning) => log.warn(warning),
  });
}
