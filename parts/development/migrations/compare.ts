import { join } from "node:path";
import type pg from "pg";
import { installWithBase } from "../../../cli/base.ts";
import { applyCurrent, compileSchema } from "../../../cli/current-migration.ts";
import { notIncluded } from "../../../cli/includes.ts";
import { COMMAND } from "../../../config/command.ts";
import { withClient } from "../../../db/cluster/client.ts";
import type { Cluster } from "../../../db/cluster/embedded.ts";
import { type Installation, migrate } from "../../../db/cluster/migrate.ts";
import { explainFailure } from "../../../db/cluster/migration-failure.ts";
import { baseOf, schemaOf } from "../../../db/cluster/migrations-folder.ts";
import type { ModuleChoice } from "../../../db/cluster/modules.ts";
import type { Finding } from "../../../db/findings/finding.ts";
import { describeDatabase, differences } from "./describe.ts";

const DROP_ROLES = `
  do $$
  declare role name;
  begin
    for role in select rolname from pg_roles where rolname !~ '^pg_' and rolname <> current_user loop
      execute format('drop role %I', role);
    end loop;
  end $$`;

export type Comparison = {
  /** `- ` marks what only the migrations create, `+ ` what only the schema creates. */
  readonly differences: readonly string[];
  /** Files of `db/schema/` that `schema.sql` does not include. */
  readonly notIncluded: readonly string[];
  /** The number of objects that the schema creates. */
  readonly objects: number;
  /** What is wrong in the schema. */
  readonly findings: readonly Finding[];
};

export type CompareOptions = Installation & {
  /** Whether `current.sql` counts as a migration. */
  readonly withCurrent: boolean;
  readonly folder: string;
  /** What is wrong in a database, for callers with these roles; by default those of the settings. */
  inspect(client: pg.Client, roles?: readonly string[]): Promise<readonly Finding[]>;
};

/**
 * Compares the database that the migrations create with that of `db/schema/`, on a cluster without other databases. Rejects
 * with MigrationFailure.
 */
export async function compareSchema(
  cluster: Cluster,
  { withCurrent, inspect, ...installation }: CompareOptions,
): Promise<Comparison> {
  const { folder } = installation;
  const base = baseOf(join(folder, ".."));
  const unused = await notIncluded(schemaOf(folder));
  const migrated = await describeNew(cluster, "migrated", async (url) => {
    await installWithBase(url, base, installation);
    if (!withCurrent) return migrate(url, () => {}, installation);
    await applyCurrent(url, () => {}, folder);
  });
  let findings: readonly Finding[] = [];
  const compiled = await describeNew(cluster, "compiled", async (url) => {
    await installWithBase(url, base, installation);
    const known = base === null ? [] : await withClient(url, (client) => inspectBase(client, inspect));
    const text = await compileSchema(url, folder);
    await query(url, text).catch(async (error) => {
      throw await explainFailure(error, url, { file: "db/schema/schema.sql", text });
    });
    findings = (await withClient(url, inspect)).filter((finding) => !known.some((other) => isSame(finding, other)));
  });
  return { differences: differences(migrated, compiled), notIncluded: unused, objects: compiled.length, findings };
}

/** What the base has is not a mistake of the application. */
const isSame = (finding: Finding, other: Finding): boolean =>
  finding.rule === other.rule && finding.object === other.object;

/** Creates a database, and describes it. */
const describeNew = (cluster: Cluster, name: string, build: (url: string) => Promise<unknown>): Promise<string[]> =>
  inNewDatabase(cluster, name, async (url) => {
    await build(url);
    return withClient(url, describeDatabase);
  });

/** Calls back with a new database, and drops it with its roles: the next database must create them itself. */
export async function inNewDatabase<T>(cluster: Cluster, name: string, work: (url: string) => Promise<T>): Promise<T> {
  await query(cluster.url("postgres"), `create database ${name}`);
  try {
    return await work(cluster.url(name));
  } finally {
    await query(cluster.url("postgres"), `drop database ${name}`);
    await query(cluster.url("postgres"), DROP_ROLES);
  }
}

/**
 * Calls back while new databases of the cluster have the modules of the service, and the base of the application, as graphile-migrate
 * expects them for the migrations. Drops the databases `content` and `shadow` afterwards.
 */
export async function withModules<T>(
  cluster: Cluster,
  { folder, ...choice }: ModuleChoice & { readonly folder: string },
  work: () => Promise<T>,
): Promise<T> {
  const template = cluster.url("template1");
  try {
    await installWithBase(template, baseOf(join(folder, "..")), choice);
    await query(cluster.url("postgres"), "create database content");
    return await work();
  } finally {
    for (const name of ["content", "shadow"]) await query(cluster.url("postgres"), `drop database if exists ${name}`);
    for (const statement of EMPTY_TEMPLATE) await query(cluster.url("postgres"), statement);
    await query(cluster.url("postgres"), DROP_ROLES);
  }
}

const EMPTY_TEMPLATE = [
  "alter database template1 is_template false",
  "drop database template1",
  "create database template1 template template0 is_template true",
];

/** For every role: a migration may grant roles of the base to callers. */
async function inspectBase(client: pg.Client, inspect: CompareOptions["inspect"]): Promise<readonly Finding[]> {
  const { rows } = await client.query<{ name: string }>(
    "select rolname as name from pg_roles where rolname !~ '^pg_' and not rolsuper",
  );
  const roles = rows.map(({ name }) => name);
  return inspect(client, roles);
}

/** What is incomplete, and how to fix it. Empty if `db/schema/` and the migrations agree. */
export function incompleteIn({ differences, notIncluded }: Comparison): readonly string[] {
  const marked = (mark: string) =>
    differences.filter((line) => line.startsWith(mark)).map((line) => `  ${line.replaceAll("\n", "\n      ")}`);
  const blocks: readonly (readonly [title: string, lines: readonly string[]])[] = [
    [
      "db/schema/schema.sql does not include these files. Add a line for each, or delete the file:",
      notIncluded.map((file) => `  --!include ${file}`),
    ],
    ["Only the migrations create these. Write them into the files of db/schema/ too:", marked("- ")],
    [
      `Only db/schema/ creates these. Write to db/migrations/current.sql the statements that do, or --!include the file, and run ${COMMAND} migrate commit:`,
      marked("+ "),
    ],
  ];
  return [
    ...(differences.length > 0 ? ["db/schema/ and the migrations create different databases."] : []),
    ...blocks.flatMap(([title, lines]) => (lines.length === 0 ? [] : [title, ...lines])),
  ];
}

const query = (url: string, text: string): Promise<unknown> => withClient(url, (client) => client.query(text));
