import type pg from "pg";
import { asInstalled, EVENT_TRIGGERS, loginsOf, schemasOf } from "../db/cluster/module-removal.ts";
import { inTransaction, readModules } from "../db/cluster/modules.ts";
import { MODULES, type Module } from "../db/modules/modules.ts";
import { DEPENDENTS, MENTIONS, mentionOf } from "./module-dependents.ts";

/** An object of the application, `policy owners on table public.notes`. */
export type Dependent = {
  readonly object: string;
  /** A statement that shows it; "" if there is none. */
  readonly sql: string;
  /** The statement that removes it, or its dependence; "" if there is none. */
  readonly undo: string;
};

/** What keeps modules from being removed. */
export type Obstacles = {
  /** What would be dropped with them. */
  readonly dependents: readonly Dependent[];
  /** Functions whose text names their schemas: PostgreSQL does not know whether they use them. */
  readonly mentions: readonly Dependent[];
  /** The hooks of the application and its table of users, as `new_user: public.new_user(jsonb)`: no start sets them again. */
  readonly hooks: readonly Dependent[];
  /** Modules that stay and need them. */
  readonly neededBy: readonly string[];
  /** The connections of a service that runs. */
  readonly connections: number;
  /** The schemas that would be dropped. */
  readonly schemas: readonly string[];
};

/** Finds what keeps modules from being removed. */
export async function findObstacles(client: pg.Client, chosen: readonly Module[]): Promise<Obstacles> {
  return inTransaction(client, async () => {
    const modules = await asInstalled(client, chosen);
    // Names are then written with their schemas.
    await client.query("set local search_path = ''");
    const schemas = schemasOf(modules);
    const functions = modules.flatMap(({ callerFunctions }) => callerFunctions);
    const dependents = await client.query<Dependent>(DEPENDENTS, [schemas, functions, EVENT_TRIGGERS]);
    const mentions = await client.query<Dependent>(MENTIONS, [schemasOf(MODULES), mentionOf(schemas, functions)]);
    const connections = await client.query(
      "select count(*)::integer as count from pg_stat_activity where datname = current_database() and usename = any ($1)",
      [await loginsOf(client, MODULES)],
    );
    return {
      dependents: dependents.rows,
      mentions: mentions.rows,
      hooks: modules.some(({ name }) => name === "auth") ? await hooksOf(client) : [],
      neededBy: await dependentModules(client, modules),
      connections: connections.rows[0].count,
      schemas: modules.flatMap((module) => module.schemas),
    };
  });
}

async function hooksOf(client: pg.Client): Promise<readonly Dependent[]> {
  const { rows } = await client.query<Dependent>(`
    select format('hook %s: %s', point, function) as object, '' as sql, format('select auth.use_hook(%L, null)', point) as undo
    from auth_private.hooks
    union all
    select format('table of users: %s', confrelid::regclass), '', 'select auth.use_users(null)'
    from pg_constraint where conrelid = 'auth_private.accounts'::regclass and conname = 'accounts_user_id_fkey'
    order by object`);
  return rows;
}

/** Every module needs `caller`, and no other one. */
async function dependentModules(client: pg.Client, removed: readonly Module[]): Promise<readonly string[]> {
  if (!removed.some(({ name }) => name === "caller")) return [];
  const installed = (await readModules(client, { modules: [] })).filter(({ version }) => version !== null);
  return installed.map(({ name }) => name).filter((name) => !removed.some((module) => module.name === name));
}
