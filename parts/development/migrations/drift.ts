import { cp, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { baseOf, hasOwnAuth, installWithBase } from "../../../db/cluster/base.ts";
import { withClient } from "../../../db/cluster/client.ts";
import type { Cluster } from "../../../db/cluster/embedded.ts";
import { hasForeignAuth, userIdIn } from "../../../db/cluster/foreign-auth.ts";
import { readCurrent } from "../../../db/cluster/graphile-migrate.ts";
import { type Installation, migrate } from "../../../db/cluster/migrate.ts";
import { MigrationFailure, statementFailure } from "../../../db/cluster/migration-failure.ts";
import { type MigrationState, pendingIn, readMigrationState } from "../../../db/cluster/migration-state.ts";
import { CURRENT, hasCurrent } from "../../../db/cluster/migrations-folder.ts";
import type { ModuleChoice } from "../../../db/cluster/modules.ts";
import { loginNames } from "../../../db/cluster/provision.ts";
import { triedOf } from "../../../db/cluster/tried-statements.ts";
import { quoteIdentifier } from "../../../db/sql.ts";
import { type SqlStatement, statementsOf } from "../../../db/sql-tokens.ts";
import { inNewDatabase } from "./compare.ts";
import { type DbObject, readObjects } from "./describe.ts";
import { compareObjects, type DatabaseComparison, type Drift, type DriftScope } from "./drift-comparison.ts";

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
  readonly version: number;
  readonly owner: string;
  readonly isSuperuser: boolean;
  readonly state: MigrationState;
  readonly choice: ModuleChoice;
  readonly hasForeignAuth: boolean;
  readonly tried: readonly SqlStatement[];
  readonly defaultGrants: readonly string[];
  readonly objects: readonly DbObject[];
};

/**
 * Compares a database with what the migrations make that have run on it: they run again on `cluster`, which has no other databases. The
 * database at `url` is only read. Rejects with MigrationFailure.
 */
export async function findDrift(url: string, cluster: Cluster, options: DriftOptions): Promise<DriftReport> {
  const { folder, anonymousRole } = options;
  const actual = await withClient(url, (client) => readActual(client, url, options));
  const compared = actual.state.modules.filter(({ hasThisCode, pending }) => hasThisCode && pending === "");
  return withExpected(cluster, actual, folder, async (client) => {
    const version = await versionOf(client);
    const scope: DriftScope = {
      modules: compared.map(({ name }) => name),
      hasApplication: folder !== null,
      owner: actual.owner,
      isSuperuser: actual.isSuperuser,
      hasForeignAuth: actual.hasForeignAuth,
      logins: loginNames(actual.database),
      anonymousRole,
      olderVersion: version === actual.version ? null : Math.min(version, actual.version),
    };
    const comparison = compareObjects(await readObjects(client), actual.objects, scope);
    const drift = scope.olderVersion === null ? comparison.drift : await withoutSpelling(client, comparison.drift);
    return { ...comparison, drift, database: actual.database, notes: notesOf(actual, comparison, scope) };
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
    const modules = choice.modules.concat(
      state.modules.flatMap(({ name, version }) => (version === null || name === "caller" ? [] : [name])),
    );
    return {
      ...rows[0]!,
      version: await versionOf(client),
      state,
      hasForeignAuth: await hasForeignAuth(client),
      choice: { modules: [...new Set(modules)], userId: (await userIdIn(client)) ?? "" },
      tried:
        folder !== null && (await hasCurrent(folder))
          ? await triedOf(client, statementsOf(await readCurrent(url, folder)))
          : [],
      defaultGrants: (await client.query<{ sql: string }>(DEFAULT_GRANTS, [rows[0]!.owner])).rows.map(({ sql }) => sql),
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

/** The privileges that objects of the owner get in every schema, as statements. */
const DEFAULT_GRANTS = `
  select format('alter default privileges for role %1$I revoke all on %2$s from %1$I, public', r.rolname, k.kind)
    || coalesce((
      select string_agg(
        format('; alter default privileges for role %I grant %s on %s to %s', r.rolname, g.privilege_type, k.kind,
          case g.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end), '')
      from aclexplode(d.defaclacl) as g), '') as sql
  from pg_default_acl as d
  join pg_roles as r on r.oid = d.defaclrole
  cross join lateral (select case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions'
    when 'T' then 'types' when 'n' then 'schemas' end as kind) as k
  where d.defaclnamespace = 0 and r.rolname = $1 and k.kind is not null`;

const versionOf = async (client: pg.ClientBase): Promise<number> =>
  Math.floor(
    (await client.query("select current_setting('server_version_num')::int as number")).rows[0].number / 10_000,
  );

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
  if (!wasEmpty) await withClient(url, (client) => setDefaultGrants(client, actual.defaultGrants));
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

/** A DBA may have changed them before the service was installed, for roles that no migration makes. */
async function setDefaultGrants(client: pg.Client, statements: readonly string[]): Promise<void> {
  for (const statement of statements) {
    const grantees = [...statement.matchAll(/ to (".*?"|\w+)(?=;|$)/g)].map(([, name]) => name!);
    for (const name of grantees.filter((each) => each !== "public"))
      await client.query(`do $$ begin create role ${name}; exception when duplicate_object then null; end $$`);
    await client.query(statement);
  }
}

/** Calls back with a folder of the committed migrations that a database has. */
async function withApplied<T>(
  folder: string,
  { migrations }: MigrationState,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const copy = await mkdtemp(join(tmpdir(), "content-applied-"));
  try {
    await mkdir(join(copy, "committed"));
    const names = migrations.flatMap(({ name, isApplied }) => (isApplied ? [name.slice(0, -".sql".length)] : []));
    for (const file of await readdir(join(folder, "committed")))
      if (names.some((name) => file.startsWith(name)))
        await cp(join(folder, "committed", file), join(copy, "committed", file));
    return await work(copy);
  } finally {
    await rm(copy, { recursive: true });
  }
}

/** Leaves out definitions that only PostgreSQL of another version writes differently: the database of `client` writes them again. */
async function withoutSpelling(client: pg.Client, drift: readonly Drift[]): Promise<readonly Drift[]> {
  const kept: Drift[] = [];
  for (const each of drift) {
    const again = each.state === "changed" ? await respelled(client, each) : null;
    if (again === null || again !== each.expected) kept.push(each);
  }
  return kept;
}

/** The actual definition as the server of `client` writes it; null if it cannot be made there. */
async function respelled(client: pg.Client, { kind, name, actual }: Drift): Promise<string | null> {
  if (kind !== "definition of" && kind !== "function") return null;
  await client.query("begin");
  try {
    if (kind === "definition of") {
      await client.query(`create temporary view respelled as ${actual}`);
      return (await client.query("select pg_get_viewdef('respelled'::regclass) as text")).rows[0].text;
    }
    const [head, ...lines] = actual!.split("\n");
    await client.query(lines.join("\n"));
    const { rows } = await client.query("select pg_get_functiondef($1::regprocedure) as text", [name]);
    return `${head}\n${rows[0].text}`;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    return null;
  } finally {
    await client.query("rollback");
  }
}

function notesOf(
  { state, tried }: Actual,
  { foreignSchemas }: DatabaseComparison,
  scope: DriftScope,
): readonly string[] {
  const pending = pendingIn(state);
  const others = state.modules.filter(
    ({ name, version, pending: due }) => version !== null && due === "" && !scope.modules.includes(name),
  );
  return [
    ...pending.map((step) => `pending, and so not compared: ${step}`),
    ...others.map(
      ({ name, version }) =>
        `not compared, because version ${version} of the service has written it: the module ${name}`,
    ),
    ...(tried.length > 0
      ? ["db/migrations/current.sql is not committed; what has run of it counts as a migration"]
      : []),
    ...(foreignSchemas.length > 0
      ? [`not compared, because no migration makes anything in them: ${foreignSchemas.join(", ")}`]
      : []),
  ];
}
