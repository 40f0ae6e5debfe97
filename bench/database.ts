import { setTimeout } from "node:timers/promises";
import pg from "pg";
import { type ScratchCluster, startScratchCluster } from "../cli/scratch-cluster.ts";
import { MODULE_NAMES } from "../config/modules.ts";
import { migrate } from "../db/cluster/migrate.ts";
import { provisionLogins } from "../db/cluster/provision.ts";
import { SECRET } from "./credentials.ts";
import type { ServerDatabase } from "./servers.ts";

/** The database that is measured: a throw-away cluster with the migrated schema and its data, policies on. */
export type BenchDatabase = AsyncDisposable & {
  /** The owner's connection string. */
  readonly ownerUrl: string;
  /** The login of the pools for callers. */
  readonly dataUrl: string;
  /** The same through the Unix socket of the cluster. */
  readonly socket: ServerDatabase;
  readonly port: number;
  /** The postmaster's. */
  readonly pid: number;
  readonly version: string;
  readonly cluster: ScratchCluster;
  /** Waits until no statement and no autovacuum is running. */
  settle(): Promise<void>;
  /** Deletes all rows written since the database was created. */
  removeWritten(): Promise<void>;
};

export const USERS = 10_000;
export const ARTICLES = 100_000;
export const COMMENTS = 300_000;

const NAME = "bench";

/** Creates the database. The SQL that one bench needs in addition is executed before and after the tables are filled. */
export async function createDatabase(more = "", afterFill = ""): Promise<BenchDatabase> {
  await using stack = new AsyncDisposableStack();
  const cluster = await startScratchCluster();
  stack.defer(() => cluster.remove());
  await withClient(cluster.url("postgres"), (client) => client.query(`create database ${NAME}`));
  const ownerUrl = cluster.url(NAME);
  await migrate(ownerUrl, () => {}, { folder: "demo/db/migrations", modules: MODULE_NAMES, userId: "bigint" });

  const owner = new pg.Client({ connectionString: ownerUrl, application_name: "bench" });
  await owner.connect();
  stack.defer(() => owner.end());
  const { data: dataUrl } = await provisionLogins(owner, ownerUrl, SECRET);
  const socketUrl = cluster.socketUrl(NAME);
  const { data: socketDataUrl } = await provisionLogins(owner, socketUrl, SECRET);
  await owner.query(more);
  await fill(owner, afterFill);
  const { rows } = await owner.query<{ server_version: string }>("show server_version");
  const all = stack.move();
  return {
    ownerUrl,
    dataUrl,
    socket: { ownerUrl: socketUrl, dataUrl: socketDataUrl },
    port: cluster.port,
    pid: cluster.pid,
    cluster,
    version: rows[0]!.server_version,
    settle: () => settle(owner),
    removeWritten: () => removeWritten(owner),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

const CONTENT = "CaseRequests that stand for the text of an article, which is longer than its title. ";

/** Set by set, without triggers and without checks of foreign keys, which hold by construction. */
const FILL = `
  set session_replication_role = replica;

  insert into public.users (id, name, email, age, created_at) overriding system value
  select n, 'User number ' || n, 'user' || n || '@example.com', 18 + n % 60, timestamptz '2020-01-01' + n * interval '1 hour'
  from generate_series(1, ${USERS}) as n;

  -- Their tokens are valid; no password matches.
  insert into auth_private.accounts (user_id, name, password_hash)
  select n, 'User number ' || n, '$argon2id$' from generate_series(1, ${USERS}) as n;

  -- 7919 is prime to the number of users: each has written as many, spread over the whole time.
  insert into public.articles (id, author_id, title, content, status, tags, created_at) overriding system value
  select n, 1 + n * 7919::bigint % ${USERS}, 'Article number ' || n || ' and what it is about', repeat('${CONTENT}', 1 + n % 4),
    (array['DRAFT', 'PUBLISHED', 'PUBLISHED', 'ARCHIVED'])[1 + n % 4]::public.article_status,
    array['topic ' || n % 50, 'series ' || n % 500], timestamptz '2021-01-01' + n * interval '20 minutes'
  from generate_series(1, ${ARTICLES}) as n;

  insert into public.comments (id, article_id, author_id, content, created_at) overriding system value
  select n, 1 + n % ${ARTICLES}, 1 + n * 6101::bigint % ${USERS}, 'Comment number ' || n, timestamptz '2022-01-01' + n * interval '5 minutes'
  from generate_series(1, ${COMMENTS}) as n;

  select setval(pg_get_serial_sequence('public.users', 'id'), ${USERS});
  select setval(pg_get_serial_sequence('public.articles', 'id'), ${ARTICLES});
  select setval(pg_get_serial_sequence('public.comments', 'id'), ${COMMENTS});
  reset session_replication_role;`;

async function fill(owner: pg.Client, more: string): Promise<void> {
  await owner.query(FILL);
  await owner.query(more);
  // With vacuum, so that counts can use index-only scans as on a database in normal operation.
  await owner.query("vacuum analyze");
  await owner.query("checkpoint");
}

async function removeWritten(owner: pg.Client): Promise<void> {
  await owner.query("set session_replication_role = replica");
  await owner.query("delete from public.comments where id > $1", [COMMENTS]);
  await owner.query("delete from public.articles where id > $1", [ARTICLES]);
  await owner.query("delete from public.users where id > $1", [USERS]);
  await owner.query("reset session_replication_role");
  await owner.query("vacuum public.comments, public.articles, public.users");
}

const ACTIVE_BACKENDS = `
  select coalesce(string_agg(backend_type || ': ' || query, '; '), '') as what
  from pg_stat_activity
  where pid <> pg_backend_pid() and (state <> 'idle' or backend_type = 'autovacuum worker')`;
const MAX_WAIT_MILLISECONDS = 60_000;

/** Resolves when the database was idle twice in a row: a server may still begin requests that the load tool has left. */
async function settle(owner: pg.Client): Promise<void> {
  const deadline = Date.now() + MAX_WAIT_MILLISECONDS;
  for (let idle = 0; ; ) {
    const { rows } = await owner.query<{ what: string }>(ACTIVE_BACKENDS);
    const { what } = rows[0]!;
    idle = what === "" ? idle + 1 : 0;
    if (idle === 2) return;
    if (Date.now() > deadline) throw new Error(`the database is still busy: ${what}`);
    await setTimeout(50);
  }
}

async function withClient(connectionString: string, callback: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await callback(client);
  } finally {
    await client.end();
  }
}
