import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineCommand, FLAG, TEXT } from "../../../cli/command.ts";
import { COMMAND } from "../../../config/command.ts";
import { FIXTURES, installCommands, manifestFor, type NewFile, writeFiles } from "../new-files.ts";
import { initDatabase } from "./init-database.ts";
import { readSupabase } from "./supabase.ts";

const HELP = `\
Makes an application: a folder with its configuration, TypeScript and packages. It overwrites and installs nothing. A
package.json that exists keeps what it has.

  ${COMMAND} init <folder>   make it in this folder, which may exist
  ${COMMAND} init .          make it in the current folder
  ${COMMAND} init --bare .   without examples: only the configuration, packages and an empty database
  ${COMMAND} init --database <url> [folder]
                                         for a database that you have: say what is in it, choose the settings, and write
                                         files that fit; the database is only read
  ${COMMAND} init --from-supabase <project> <folder>
                                         for a Supabase project, or its folder supabase: with its migrations, data and
                                         settings; what is not served is listed by file and line
      --force                            replace files that exist
  ${COMMAND} init --help     show this help

The URL is that of the owner of the database: postgres://user:password@host:5432/database. With the URL of a login that
only has the roles of callers, the service serves the database as it is. The URL is written only to .env, which git ignores.
`;

const TEMPLATE = fileURLToPath(new URL("../../../template/", import.meta.url));

/** Files that have another name in the template: npm does not pack them, or would take the folder for a package. */
const NAMES: Readonly<Record<string, string>> = {
  "env.example": ".env.example",
  "github/workflows/test.yml": ".github/workflows/test.yml",
  gitignore: ".gitignore",
  npmrc: ".npmrc",
  "package.template.json": "package.json",
};

/** The files of the template for `--bare`: those in this folder, and some of the others. */
const BARE = "bare/";
const ALSO_BARE = [
  "db/schema/public.sql",
  "gitignore",
  "npmrc",
  "package.template.json",
  "pnpm-workspace.yaml",
  "tsconfig.json",
];

/** What a Supabase project has in place of the files for `--bare`. */
const REPLACED = /^(content-service\.config\.ts|db\/schema\/.*|db\/migrations\/committed\/.*)$/;

export const init = defineCommand({
  name: "init",
  help: HELP,
  options: { bare: FLAG, database: TEXT, force: FLAG, "from-supabase": TEXT },
  maxArguments: 1,
  async run({ values: { bare, database, force: replaces, "from-supabase": supabase }, args, refuse }) {
    const [given = database === undefined ? "" : "."] = args;
    if (!given) throw refuse("expected one folder");
    if ([bare, database !== undefined, supabase !== undefined].filter(Boolean).length > 1)
      throw refuse("--bare, --database and --from-supabase exclude each other");
    const folder = resolve(given);
    if (database !== undefined) return initDatabase(database, { folder, given, replaces });
    const project = supabase === undefined ? null : await readSupabase(supabase);
    const isBare = bare || project !== null;
    const own = project?.files ?? [];
    const templates = globSync("**", { cwd: TEMPLATE, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(TEMPLATE, join(entry.parentPath, entry.name)))
      .filter((file) => file.startsWith(BARE) === isBare || (isBare && ALSO_BARE.includes(file)))
      .sort();
    const made = await Promise.all(
      templates.map(async (template): Promise<NewFile> => {
        const file = NAMES[template] ?? template.replace(BARE, "");
        const text = await readFile(join(TEMPLATE, template), "utf8");
        return file === "package.json" ? manifestFor(folder, text, { replaces }) : { file, text };
      }),
    );
    const files = [...made.filter(({ file }) => project === null || !REPLACED.test(file)), ...own];
    await writeFiles(folder, [...files, FIXTURES], { given, replaces });
    const commands = [...installCommands(folder, given), "npm run dev"].map((command) => `  ${command}\n`);
    const about = project?.about ?? "";
    return `${files.map(({ file }) => `  ${file}\n`).join("")}\n${about}The application is ready. Install its packages and start it:\n\n${commands.join("")}`;
  },
});
