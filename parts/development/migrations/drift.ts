import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import pg from "pg";
import { hasOwnAuth, installWithBase } from "../../../cli/base.ts";
import { readCurrent } from "../../../cli/current-migration.ts";
import { withClient } from "../../../db/cluster/client.ts";
import type { Cluster } from "../../../db/cluster/embedded.ts";
import { hasForeignAuth, userIdIn } from "../../../db/cluster/foreign-auth.ts";
import { type Installation, migrate } from "../../../db/cluster/migrate.ts";
import { MigrationFailure, statementFailure } from "../../../db/cluster/migration-failure.ts";
import { type MigrationState, pendingIn, readMigrationState } from "../../../db/cluster/migration-state.ts";
import { baseOf, CURRENT, hasCurrent } from "../../../db/cluster/migrations-folder.ts";
import type { ModuleChoice } from "../../../db/cluster/modules.ts";
import { loginNames } from "../../../db/cluster/provision.ts";
import { hashOf, hasTried, readTried } from "../../../db/cluster/tried-statements.ts";
import { MODULES } from "../../../db/modules/modules.ts";
import { quoteIdentifier } from "../../../db/sql.ts";
import { type SqlStatement, statementsOf } from "../../../db/sql-tokens.ts";
import { inNewDatabase } from "./compare.ts";
import { type DbObject, readObjects } from "./describe.ts";
import { compareObjects, type DatabaseComparison, type Drift } from "./drift-comparison.ts";

export type DriftOptions = Installation & {
  /** The role of anonymous callers. */
  readonly anonymousRole: string;
};

export type DriftReport = DatabaseComparison & {
  readonly database: string;
  /** What was left out of the comparison, and what a start would change. */
  readonly notes: readonly string[];
};

/** What a database has, and what has run on it. */
type Actual = {
  readonly database: string;
  readonly owner: string;
  readonly isSuperuser: boolean;
  readonly state: MigrationState;
  readonly choice: ModuleChoice;
  readonly hasForeignAuth: boolean;
  readonly tried: readonly SqlStatement[];
  /** Statements that make the privileges that objects of the owner get in every schema. */
  readonly defaultGrants: string;
  readonly objects: readonly DbObject[];
};

/**
 * Compares a database with what the migrations make that have run on it: they run again on `cluster`, which has no other databases. The
 * database at `url` is only read. Rejects with MigrationFailure.
 */
export async function findDrift(url: string, cluster: Cluster, options: DriftOptions): Promise<DriftReport> {
  const { folder, anonymousRole } = options;
  const actual = await withClient(url, (client) => readActual(client, url, options));
  const current = actual.state.modules.filter(({ hasThisCode, migrations }) => hasThisCode && migrations.length === 0);
  const stale = actual.state.modules.filter((module) => module.version !== null && !current.includes(module));
  const others = MODULES.filter(({ name }) => !current.some((each) => each.name === name));
  return withExpected(cluster, actual, folder, async (client) => {
    const comparison = compareObjects(await readObjects(client), actual.objects, {
      ...actual,
      // Modules add functions to the schema of the module caller.
      notCompared: [...others.flatMap(({ schemas }) => schemas), ...(stale.length > 0 ? [null, "auth"] : [])],
      hasApplication: folder !== null,
      logins: loginNames(actual.database),
      anonymousRole,
    });
    const drift: Drift[] = [];
    for (const each of comparison.drift) if (!(await isOnlySpelling(client, each))) drift.push(each);
    return { ...comparison, drift, database: actual.database, notes: notesOf(actual, stale, comparison) };
  });
}

async function readActual(client: pg.Client, url: string, { folder, ...choice }: DriftOptions): Promise<Actual> {
  // One snapshot. What readObjects sets on the connection, which may be one of a pooler, ends with the transaction.
  await client.query("begin isolation level repeatable read read only; set local jit = off");
  try {
    const state = await readMigrationState(client, { folder, ...choice });
    if (state.modules.every(({ version }) => version === null)) throw new MigrationFailure(NOT_INSTALLED);
    const newer = state.migrations.filter(({ isNewer }) => isNewer).map(({ file }) => file);
    if (newer.length > 0) throw new MigrationFailure(`${NEWER}: ${newer.join(", ")}`);
    const { rows } = await client.query<Pick<Actual, "database" | "owner" | "isSuperuser">>(OWNER);
    const modules = state.modules.flatMap(({ name, version }) => (version === null || name === "caller" ? [] : [name]));
    return {
      ...rows[0]!,
      state,
      hasForeignAuth: await hasForeignAuth(client),
      choice: { modules, userId: (await userIdIn(client)) ?? "" },
      tried:
        folder !== null && (await hasCurrent(folder))
          ? await triedOf(client, statementsOf(await readCurrent(url, folder)))
          : [],
      defaultGrants: (await client.query<{ sql: string }>(DEFAULT_GRANTS, [rows[0]!.owner])).rows[0]!.sql,
      objects: await readObjects(client),
    };
  } catch (error) {
    if ((error as pg.DatabaseError).code !== FORBIDDEN) throw error;
    const login = decodeURIComponent(new URL(url).username);
    throw new MigrationFailure(
      `the login ${login} may not read which migrations have run (${(error as Error).message}): ${BY_OWNER}`,
    );
  } finally {
    await client.query("rollback");
  }
}

/** SQLSTATE of a missing right. */
const FORBIDDEN = "42501";
const BY_OWNER = "DATABASE_URL has to name the owner of the database, as for the service";
const NOT_INSTALLED =
  "this database has nothing of the service yet: a start installs it, and so there is nothing to compare";
const NEWER =
  "a newer version of the application has migrated this database: run the command of that version. It has migrations that db/migrations/committed does not have";

const OWNER = `
  select current_database() as database, r.rolname as owner, r.rolsuper as "isSuperuser"
  from pg_namespace as n join pg_roles as r on r.oid = n.nspowner
  where n.nspname = 'content_service'`;

/** A DBA may have changed them before the service was installed, for roles that no migration makes. */
const DEFAULT_GRANTS = `
  select coalesce(string_agg(
    format('alter default privileges for role %1$I revoke all on %2$s from %1$I, public; ', r.rolname, k.kind) || (
      select coalesce(string_agg(
        format('do $do$ begin create role %1$s; exception when duplicate_object or reserved_name then null; end $do$; '
          'alter default privileges for role %2$I grant %3$s on %4$s to %1$s; ',
          case g.grantee when 0 then 'public' else g.grantee::regrole::text end, r.rolname, g.privilege_type, k.kind), ''), '')
      from aclexplode(d.defaclacl) as g), ''), '') as sql
  from pg_default_acl as d
  join pg_roles as r on r.oid = d.defaclrole
  cross join lateral (select case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions'
    when 'T' then 'types' when 'n' then 'schemas' end as kind) as k
  where d.defaclnamespace = 0 and r.rolname = $1 and k.kind is not null`;

const PASSWORD = "expected";

/** Runs on a new database of the cluster what has run on the other one, and calls back with a connection to it. */
const withExpected = <T>(
  cluster: Cluster,
  actual: Actual,
  folder: string | null,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> =>
  inNewDatabase(cluster, "expected", async (rootUrl) => {
    // Objects get an owner of the same name. As a superuser it may also do what a DBA has allowed the other one to do.
    const name = quoteIdentifier(actual.owner);
    await withClient(rootUrl, async (root) => {
      await root.query(`do $$ begin create role ${name}; exception when duplicate_object then null; end $$`);
      if (actual.owner !== "postgres") await root.query(`alter role ${name} superuser login password '${PASSWORD}'`);
    });
    const login = actual.owner === "postgres" ? {} : { username: encodeURIComponent(actual.owner), password: PASSWORD };
    const url = Object.assign(new URL(rootUrl), login).href;
    await repeat(url, actual, folder);
    return withClient(url, work);
  });

async function repeat(url: string, actual: Actual, folder: string | null): Promise<void> {
  const base = folder === null ? null : baseOf(join(folder, ".."));
  const wasEmpty = folder !== null && base === null;
  if (!wasEmpty) await withClient(url, (client) => client.query(actual.defaultGrants));
  if (actual.hasForeignAuth && !hasOwnAuth(base))
    await withClient(url, (client) => client.query(foreignAuth(actual.choice.userId)));
  await installWithBase(url, base, actual.choice);
  if (folder === null) return;
  await withApplied(folder, actual.state, (applied) => migrate(url, () => {}, { folder: applied, ...actual.choice }));
  await withClient(url, async (client) => {
    for (const statement of actual.tried) {
      await client.query(statement.text).catch(async (error: pg.DatabaseError) => {
        throw statementFailure({ statement, error }, { file: CURRENT, text: await readCurrent(url, folder) });
      });
    }
  });
}

/** What a schema `auth` of something else has to have. */
const foreignAuth = (type: string): string => `
  create schema auth;
  create function auth.uid() returns ${type} language sql stable as
    $$ select (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::${type} $$`;

/** Calls back with a folder of the committed migrations that a database has. */
async function withApplied<T>(
  folder: string,
  { migrations }: MigrationState,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const copy = await mkdtemp(join(tmpdir(), "content-applied-"));
  const pending = migrations.flatMap(({ name, isApplied }) => (isApplied ? [] : [name.slice(0, -".sql".length)]));
  const filter = (path: string) => !pending.some((name) => basename(path).startsWith(name));
  try {
    await cp(join(folder, "committed"), join(copy, "committed"), { recursive: true, filter });
    return await work(copy);
  } finally {
    await rm(copy, { recursive: true });
  }
}

/** Whether PostgreSQL of another version only writes the definition of a view or function differently: that of `client` writes it again. */
async function isOnlySpelling(client: pg.Client, { state, kind, name, expected, actual }: Drift): Promise<boolean> {
  if (state !== "changed" || !/^(function|view|materialized view)$/.test(kind)) return false;
  const [head, ...lines] = actual!.split("\n");
  const [statement, read, what] =
    kind === "function"
      ? ["", "pg_get_functiondef($1::regprocedure)", name]
      : ["create temporary view respelled as ", "pg_get_viewdef($1::regclass)", "respelled"];
  await client.query("begin");
  try {
    await client.query(statement + lines.join("\n"));
    const { rows } = await client.query<{ text: string }>(`select ${read} as text`, [what]);
    return `${head}\n${rows[0]!.text}` === expected;
  } catch (error) {
    // It cannot be made there.
    if (error instanceof pg.DatabaseError) return false;
    throw error;
  } finally {
    await client.query("rollback");
  }
}

const notesOf = (
  { state, tried }: Actual,
  stale: MigrationState["modules"],
  { foreignSchemas }: DatabaseComparison,
): readonly string[] => [
  ...pendingIn(state).map((step) => `pending, and so not compared: ${step}`),
  ...stale
    .filter(({ pending }) => pending === "")
    .map(
      ({ name, version }) =>
        `not compared, because version ${version} of the service has written it: the module ${name}`,
    ),
  ...(tried.length > 0 ? ["db/migrations/current.sql is not committed; what has run of it counts as a migration"] : []),
  ...(foreignSchemas.length > 0
    ? [`not compared, because no migration makes anything in them: ${foreignSchemas.join(", ")}`]
    : []),
];

/** Those of the statements that this database has run since its last commit. */
async function triedOf(client: pg.ClientBase, statements: readonly SqlStatement[]): Promise<readonly SqlStatement[]> {
  if (!(await hasTried(client))) return [];
  const tried = new Set(await readTried(client));
  return statements.filter((statement) => tried.has(hashOf(statement)));
}
