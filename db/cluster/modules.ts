import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import type { ModuleName, UserIdType } from "../../config/modules.ts";
import type { Module } from "../modules/modules.ts";
import { statementsOf } from "../sql-tokens.ts";
import { withoutDefaultPrivileges } from "./default-privileges.ts";
import { modulesFor, refuseForeign } from "./foreign-auth.ts";
import { MigrationFailure, type MigrationText, statementFailure } from "./migration-failure.ts";

/** The folder with a folder for each module. */
export const MODULES_FOLDER = fileURLToPath(new URL("../modules", import.meta.url));
/** The version of the running service. */
export const VERSION: string = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version;

/** What a module has in a database: the hash of its code, the version of the service that wrote it, and its migrations. */
type Installed = { readonly code: string; readonly version: string; readonly migrations: readonly string[] };
type Ledger = ReadonlyMap<string, Installed>;

/** The modules that a service uses, and the type of the ids of its users; "" for that of the database, which is uuid at first. */
export type ModuleChoice = { readonly modules: readonly ModuleName[]; readonly userId: UserIdType | "" };

export type ModuleChanges = {
  /** Whether the database had no modules before. */
  readonly isNew: boolean;
  /** The version of a newer service, which has changed the modules; null if there is none. */
  readonly newerVersion: string | null;
  /** The modules that were installed, or brought up to date. */
  readonly changed: readonly string[];
};

/**
 * Installs the modules, or brings them up to date: their new migrations, and their code if it has changed. All in one
 * transaction, which gives up if it has to wait for a lock. The caller lets no other service migrate. Rejects with
 * MigrationFailure.
 */
export async function updateModules(
  client: pg.Client,
  { modules, userId }: ModuleChoice,
  folder = MODULES_FOLDER,
): Promise<ModuleChanges> {
  await refuseUnfit(client, { modules, userId });
  const ledger = await readLedger(client);
  const chosen = (await modulesFor(client)).filter((module) => isChosen(module, modules));
  const newerVersion = [...(ledger?.values() ?? [])].map(({ version }) => version).find(isNewer) ?? null;
  // The code of a newer version stays: it serves this one too.
  const due = (newerVersion === null ? chosen : [])
    .map((module) => ({ name: module.name, steps: stepsFor(folder, module, ledger?.get(module.name)) }))
    .filter(({ steps }) => steps.length > 0);
  const steps = due.flatMap((module) => module.steps);
  if (steps.length > 0)
    await inTransaction(client, () =>
      withoutDefaultPrivileges(client, () => run(client, ledger === null ? [LEDGER, ...steps] : steps, userId)),
    );
  return { isNew: ledger === null, newerVersion, changed: due.map(({ name }) => name) };
}

/** Rejects with MigrationFailure for a database in which the modules cannot be installed beside what it has. */
export async function refuseUnfit(client: pg.ClientBase, { modules, userId }: ModuleChoice): Promise<void> {
  const ledger = await readLedger(client);
  const added = (await modulesFor(client)).filter((module) => isChosen(module, modules) && !ledger?.has(module.name));
  await refuseForeign(client, { added, isInstalled: ledger !== null, userId });
}

/** What a database has of a module, and what a start would do there. */
export type ModuleState = {
  readonly name: Module["name"];
  /** The version of the service that wrote its code; null if it is not installed. */
  readonly version: string | null;
  readonly isChosen: boolean;
  /** Whether its code is that of this version. */
  readonly hasThisCode: boolean;
  /** The files of its migrations that the database does not have yet. */
  readonly migrations: readonly string[];
  /** What a start would do with it; "" for nothing. */
  readonly pending: string;
};

/** Reads the state of each module in a database. */
export async function readModules(
  client: pg.ClientBase,
  { modules }: Pick<ModuleChoice, "modules">,
  folder = MODULES_FOLDER,
): Promise<readonly ModuleState[]> {
  const [ledger, known] = [await readLedger(client), await modulesFor(client)];
  // A start leaves the modules of a newer version as they are.
  const isOutdated = [...(ledger?.values() ?? [])].some(({ version }) => isNewer(version));
  return known.map((module) => {
    const installed = ledger?.get(module.name);
    const { hash } = codeOf(folder, module);
    const state = {
      name: module.name,
      version: installed?.version ?? null,
      isChosen: isChosen(module, modules),
      hasThisCode: installed?.code === hash,
      migrations: installed === undefined ? [] : pendingOf(folder, module, installed).map(({ file }) => file),
    };
    const isDue = state.isChosen && !isOutdated;
    return { ...state, pending: isDue ? pendingWork(state) : "" };
  });
}

function pendingWork({ version, hasThisCode, migrations }: Omit<ModuleState, "pending">): string {
  if (version === null) return "installs it";
  if (migrations.length > 0) return `runs ${migrations.join(", ")}, and its code again`;
  return hasThisCode ? "" : "runs its code again";
}

/** SQL to execute, and the statement that records it. */
type Step = MigrationText & { readonly record: { readonly text: string; readonly values: readonly unknown[] } | null };

const LEDGER: Step = {
  file: "the ledger",
  text: `
    create schema content_service;
    comment on schema content_service is 'The modules of the service in this database.';
    create table content_service.modules (
      module          text primary key,
      code_hash       text not null,
      product_version text not null,
      updated_at      timestamptz not null default now()
    );
    create table content_service.migrations (
      module text not null references content_service.modules on delete cascade,
      number text not null,
      run_at timestamptz not null default now(),

      primary key (module, number)
    );`,
  record: null,
};

/** A new module needs no migrations: `tables.sql` has the tables as they are. */
function stepsFor(folder: string, module: Module, installed: Installed | undefined): readonly Step[] {
  const pending = pendingOf(folder, module, installed);
  const { code, hash } = codeOf(folder, module);
  const recorded = { text: RECORD_CODE, values: [module.name, hash, VERSION] };
  const written: readonly Step[] = code.map((text, i) => ({
    ...text,
    record: i === code.length - 1 ? recorded : null,
  }));
  const note = (number: string) => ({ text: RECORD_MIGRATION, values: [module.name, number] });
  if (installed === undefined) {
    const known = pending.map(({ number }) => ({ file: number, text: "", record: note(number) }));
    const tables = module.schemas.map(() => ({ ...readText(folder, module, "tables.sql"), record: null })).slice(0, 1);
    return [...tables, ...written, ...known];
  }
  const run = pending.map(({ number, file }) => ({
    ...readText(folder, module, `migrations/${file}`),
    record: note(number),
  }));
  return run.length > 0 || installed.code !== hash ? [...run, ...written] : [];
}

const isChosen = ({ name }: Module, modules: readonly ModuleName[]): boolean =>
  name === "caller" || modules.includes(name);

const readText = (folder: string, { name }: Module, file: string): MigrationText => ({
  file: `db/modules/${name}/${file}`,
  text: readFileSync(join(folder, name, file), "utf8"),
});

/** The files of code of a module, and the hash of all of them. */
function codeOf(folder: string, module: Module): { readonly code: readonly MigrationText[]; readonly hash: string } {
  const code = module.code.map((file) => readText(folder, module, file));
  const hash = createHash("sha256")
    .update(code.map(({ text }) => text).join("\0"))
    .digest("hex");
  return { code, hash };
}

/** The migrations that a database does not have yet. */
const pendingOf = (folder: string, { name }: Module, installed: Installed | undefined) =>
  migrationsIn(join(folder, name)).filter(({ number }) => !installed?.migrations.includes(number));

const RECORD_CODE = `
  insert into content_service.modules as m values ($1, $2, $3)
  on conflict (module) do update
  set code_hash = excluded.code_hash, product_version = excluded.product_version, updated_at = now()`;
const RECORD_MIGRATION = "insert into content_service.migrations (module, number) values ($1, $2)";

async function run(client: pg.Client, steps: readonly Step[], userId: UserIdType | ""): Promise<void> {
  await client.query("select set_config('content_service.user_id', $1, true)", [userId || "uuid"]);
  // What needs a table would wait behind a statement that waits for it.
  await client.query("set local lock_timeout = '3s'");
  for (const { record, ...migration } of steps) {
    for (const statement of statementsOf(migration.text))
      await client.query(statement.text).catch((error: pg.DatabaseError) => {
        throw statementFailure({ statement, error }, migration);
      });
    if (record !== null) await client.query(record.text, [...record.values]);
  }
}

export async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query("begin");
  try {
    const result = await work();
    await client.query("commit");
    return result;
  } catch (error) {
    // It fails on a lost connection, which is what the error says.
    await client.query("rollback").catch(() => {});
    throw error;
  }
}

/** `001-a-column-more.sql` → `{ number: "001", file: "001-a-column-more.sql" }`, in order. */
function migrationsIn(home: string): readonly { readonly number: string; readonly file: string }[] {
  const files = existsSync(join(home, "migrations")) ? readdirSync(join(home, "migrations")) : [];
  return files.sort().map((file) => ({ number: file.slice(0, 3), file }));
}

/** Whether the database has modules. Rejects with MigrationFailure if this login may not use them. */
export async function hasModules(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query(`
    select current_user as login, pg_get_userbyid(nspowner) as owner, has_schema_privilege(n.oid, 'usage') as "mayUse",
      exists (select from pg_class where relnamespace = n.oid and relname = 'modules') as "isMade"
    from pg_namespace as n where nspname = 'content_service'`);
  const [found] = rows;
  if (found === undefined) return false;
  if (!found.mayUse) throw new MigrationFailure(modulesOfOther(found.owner, found.login));
  return found.isMade;
}

const modulesOfOther = (owner: string, login: string) =>
  `the modules of the service in this database belong to the login ${owner}, and ${login} may not use them: set DATABASE_URL to the URL of ` +
  `${owner}, or give everything to ${login} (docs/configuration.md, Change the owner)`;

/** Null if the database has no modules. */
async function readLedger(client: pg.ClientBase): Promise<Ledger | null> {
  if (!(await hasModules(client))) return null;
  const { rows } = await client.query<Installed & { module: string }>(`
    select m.module, m.code_hash as code, m.product_version as version,
      array(select g.number from content_service.migrations as g where g.module = m.module) as migrations
    from content_service.modules as m`);
  return new Map(rows.map(({ module, ...installed }) => [module, installed]));
}

/** Whether this version is newer than that of the running service. */
const isNewer = (version: string): boolean => compareVersions(version, VERSION) > 0;

/** Orders versions as numbers, for `sort`: 1.9.0, 1.10.0 */
export function compareVersions(one: string, other: string): number {
  const [a, b] = [one, other].map((text) => text.split(/[.-]/).slice(0, 3).map(Number));
  const place = a!.findIndex((part, i) => part !== b![i]);
  return place < 0 ? 0 : a![place]! - b![place]!;
}
