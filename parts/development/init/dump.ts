import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { DUMP_ARGUMENTS } from "../../../cli/base.ts";
import { variablesOf } from "../../../config/config.ts";
import type { Role, Setting, Survey } from "../existing/survey.ts";
import { SERVICE_SCHEMAS } from "../existing/survey-queries.ts";

const run = promisify(execFile);

/** Where packages of PostgreSQL put programs that are not in the PATH. */
const FOLDERS = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"];
const LONGEST_DUMP = 256_000_000;
const LOCK_WAIT = "5s";

/** The SQL of the schema, or why there is none. */
export type Dump = { readonly text: string } | { readonly reason: string };

/** Those of a database that has the service. */
export const DUMP_WITHOUT_SERVICE: readonly string[] = [
  ...DUMP_ARGUMENTS,
  ...SERVICE_SCHEMAS.map((schema) => `--exclude-schema=${schema}`),
];

/** The arguments of pg_dump, without the database. It takes locks that only changes of tables wait for. */
export const dumpArguments = ({ installedId }: Survey): readonly string[] =>
  installedId === null ? DUMP_ARGUMENTS : DUMP_WITHOUT_SERVICE;

/** Writes the schema of the database at `url` as SQL, with a pg_dump that is as new as the server. */
export async function dumpSchema(url: string, survey: Survey): Promise<Dump> {
  const wanted = Number.parseInt(survey.version, 10);
  const program = await findProgram(wanted);
  if (program === null) return { reason: `no pg_dump of version ${wanted} or later is installed` };
  // The password would otherwise be in the list of processes.
  const shown = new URL(url);
  const password = decodeURIComponent(shown.password);
  shown.password = "";
  const args = [...dumpArguments(survey), `--lock-wait-timeout=${LOCK_WAIT}`, `--dbname=${shown.href}`];
  const env = { ...variablesOf(["PATH", "HOME"]), ...(password && { PGPASSWORD: password }) };
  try {
    return { text: (await run(program, args, { env, maxBuffer: LONGEST_DUMP })).stdout };
  } catch (error) {
    const { stderr = "", message } = error as Error & { stderr?: string };
    return { reason: (stderr || message).trim().split("\n")[0]! };
  }
}

/** The oldest that is new enough: a newer one may write what an older server does not know. */
async function findProgram(wanted: number): Promise<string | null> {
  const folders = [
    ...(variablesOf(["PATH"]).PATH ?? "").split(delimiter).filter((folder) => folder !== ""),
    ...globSync(FOLDERS),
  ];
  const found = await Promise.all(
    [...new Set(folders)].map(async (folder) => {
      const program = join(folder, "pg_dump");
      const { stdout } = await run(program, ["--version"]).catch(() => ({ stdout: "" }));
      return { program, version: Number(/ (\d+)/.exec(stdout)?.[1] ?? 0) };
    }),
  );
  const fit = found.filter(({ version }) => version >= wanted).sort((a, b) => a.version - b.version);
  return fit[0]?.program ?? null;
}

/** Gives a new database the settings, which pg_dump does not write. */
export function writeSettings(settings: readonly Setting[]): string {
  const statements = settings.map(({ name, value }) => {
    const literal = `'${value.replaceAll("'", "''")}'`;
    return `select set_config('${name}', ${literal}, false);\ndo $$ begin execute format('alter database %I set ${name} from current', current_database()); end $$;\n`;
  });
  return `-- The settings of the database, on which its functions and views may depend.\n${statements.join("")}`;
}

/** Makes the roles that the dump names, which pg_dump does not write. They cannot log in. */
export function writeRoles(roles: readonly Role[]): string {
  const made = roles.map(({ name, sql, bypassesPolicies, inherits }) => {
    const options = `nologin${bypassesPolicies ? " bypassrls" : ""}${inherits ? "" : " noinherit"}`;
    const literal = `'${name.replaceAll("'", "''")}'`;
    return `  if not exists (select from pg_roles where rolname = ${literal}) then create role ${sql} ${options}; end if;\n`;
  });
  const members = roles.flatMap(({ sql, memberOf }) =>
    memberOf.map((name) => `grant ${roles.find((role) => role.name === name)?.sql ?? name} to ${sql};\n`),
  );
  const created = made.length > 0 ? `do $$ begin\n${made.join("")}end $$;\n` : "";
  return `-- The roles that schema.sql names. They exist once in a server, so each is made if it is missing.\n${created}${members.join("")}`;
}
