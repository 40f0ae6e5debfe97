import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { CommandError } from "../../../cli/command.ts";
import type { NewFile } from "../new-files.ts";
import { committed } from "./database-files.ts";
import { readProject, type SupabaseProject } from "./supabase-settings.ts";
import { type Difference, withoutUnserved } from "./supabase-sql.ts";

const CONFIG = "config.toml";

/**
 * Reads a Supabase project, or its folder `supabase`. Returns the files of an application with its migrations, data and settings, and what
 * is not served, as a text. Rejects with CommandError.
 */
export async function readSupabase(given: string): Promise<{ files: readonly NewFile[]; about: string }> {
  const folder = [join(given, "supabase"), given]
    .map((each) => resolve(each))
    .find((each) => [CONFIG, "migrations"].some((name) => existsSync(join(each, name))));
  if (folder === undefined)
    throw new CommandError(
      1,
      `${given} has no supabase/migrations: name the folder of a Supabase project, or its folder supabase`,
    );
  const { parse } = await import("smol-toml");
  const config = join(folder, CONFIG);
  const project = readProject(existsSync(config) ? readFileSync(config, "utf8") : "", parse);
  const migrations = migrationsIn(folder);
  const seed = seedOf(folder, project.seeds);
  const schema = [
    { file: "supabase.sql", text: readFileSync(join(import.meta.dirname, "supabase.sql"), "utf8") },
    ...migrations.map(({ file, text }) => ({
      file: file.replace("migrations/", "supabase/"),
      text: withSettings(text),
    })),
  ];
  const differences = [
    ...project.differences,
    ...migrations.flatMap((each) => each.differences),
    ...seed.differences,
    ...functionsIn(folder),
  ];
  return {
    files: [
      { file: "content-service.config.ts", text: configuration(project) },
      { file: "db/schema/schema.sql", text: SCHEMA + schema.map(({ file }) => `--!include ${file}\n`).join("") },
      ...schema.map(({ file, text }) => ({ file: `db/schema/${file}`, text })),
      ...committed(schema),
      ...(seed.text === "" ? [] : [{ file: "db/seed.sql", text: once(seed.text) }]),
    ],
    about: `${migrations.length} migrations of Supabase run at the first start, after db/schema/supabase.sql.\n\n${listed(differences)}`,
  };
}

type Migration = ReturnType<typeof withoutUnserved> & { readonly file: string };

/** In the order in which Supabase runs them. Throws CommandError. */
function migrationsIn(folder: string): readonly Migration[] {
  const files = globSync("migrations/*.sql", { cwd: folder })
    .filter((file) => /^\d+_/.test(basename(file)))
    .sort();
  if (files.length === 0)
    throw new CommandError(
      1,
      `${join(folder, "migrations")} has no migrations, such as 20260102030405_init.sql: supabase db pull writes them`,
    );
  return files.map((file) => ({ file, ...withoutUnserved(file, readFileSync(join(folder, file), "utf8")) }));
}

/** Supabase runs each migration with these settings, whatever those before it have set. */
const withSettings = (text: string): string =>
  `set local check_function_bodies = off;\n${text.trimEnd()}\n;\nreset all;\nset search_path = "$user", public, extensions;\n`;

/** A file with rows for psql stays out: its whole text is a difference. */
function seedOf(folder: string, patterns: readonly string[]) {
  const files = patterns.flatMap((pattern) => globSync(pattern, { cwd: folder }).sort());
  const seeds = files.map((file) => ({ file, ...withoutUnserved(file, readFileSync(join(folder, file), "utf8")) }));
  const run = seeds.filter(({ text }) => !/^copy\b.*\bfrom\s+stdin\b/im.test(text));
  return {
    text: run.map(({ text }) => text.trim()).join("\n"),
    differences: seeds.flatMap((each) => each.differences),
  };
}

/** A seed runs at each start, and those of Supabase run once. */
function once(text: string): string {
  const tag = text.includes("$seed$") ? "$seed_of_supabase$" : "$seed$";
  return `\
-- Data for development, inserted once into the embedded database.
do $once$ begin
if exists (select from hooks.seeds) then return; end if;
insert into hooks.seeds default values;
execute ${tag}
${text}
${tag};
end $once$;
`;
}

/** Edge functions, which run in Deno. */
function functionsIn(folder: string): readonly Difference[] {
  const functions = join(folder, "functions");
  const names = existsSync(functions)
    ? readdirSync(functions).filter((name) => existsSync(join(functions, name, "index.ts")))
    : [];
  return names.map((name) => ({
    file: `functions/${name}/index.ts`,
    line: 1,
    what: `the edge function ${name}`,
    instead: `a route of the application (docs/applications.md, Routes), or the function where it runs now`,
  }));
}

const SCHEMA = `\
-- The database of the application, in order of creation. Migrations include the same files. supabase/ has the migrations of Supabase.
`;

function configuration({ name, settings }: SupabaseProject): string {
  const lines = Object.entries(settings).map(([key, value]) => `    ${key}: ${JSON.stringify(value)},\n`);
  return `\
import { defineConfig } from "content-service";

// The settings of the Supabase project${name === "" ? "" : ` ${JSON.stringify(name)}`}.
export default defineConfig({
  settings: {
${lines.join("")}  },
});
`;
}

/** What the reader has to look at, by file and line, under what to use instead. */
function listed(differences: readonly Difference[]): string {
  if (differences.length === 0) return "";
  const groups = Map.groupBy(differences, ({ instead }) => instead);
  const lines = [...groups].map(
    ([instead, found]) =>
      `  Instead: ${instead}\n${found.map(({ file, line, what }) => `    ${file}:${line}  ${what}\n`).join("")}`,
  );
  return `Not served, or different here. To change a migration before the first start, change it in your project, and run this again with --force.\n\n${lines.join("")}\n`;
}
