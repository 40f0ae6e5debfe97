import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineCommand, FLAG, TEXT } from "../../../cli/command.ts";
import { COMMAND } from "../../../config/command.ts";
import { FIXTURES, installCommands, manifestFor, type NewFile, writeFiles } from "../new-files.ts";
import { initDatabase } from "./init-database.ts";

const HELP = `\
Makes an application: a folder with its configuration, TypeScript and packages. It overwrites and installs nothing. A
package.json that exists keeps what it has.

  ${COMMAND} init <folder>   make it in this folder, which may exist
  ${COMMAND} init .          make it in the current folder
  ${COMMAND} init --bare .   without examples: only the configuration, packages and an empty database
  ${COMMAND} init --database <url> [folder]
                                         for a database that you have: say what is in it, choose the settings, and write
                                         files that fit; the database is only read
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

export const init = defineCommand({
  name: "init",
  help: HELP,
  options: { bare: FLAG, database: TEXT, force: FLAG },
  maxArguments: 1,
  async run({ values: { bare: isBare, database, force: replaces }, args, refuse }) {
    const [given = database === undefined ? "" : "."] = args;
    if (!given) throw refuse("expected one folder");
    if (isBare && database !== undefined) throw refuse("--bare and --database exclude each other");
    const folder = resolve(given);
    if (database !== undefined) return initDatabase(database, { folder, given, replaces });
    const templates = globSync("**", { cwd: TEMPLATE, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(TEMPLATE, join(entry.parentPath, entry.name)))
      .filter((file) => file.startsWith(BARE) === isBare || (isBare && ALSO_BARE.includes(file)))
      .sort();
    const files = await Promise.all(
      templates.map(async (template): Promise<NewFile> => {
        const file = NAMES[template] ?? template.replace(BARE, "");
        const text = await readFile(join(TEMPLATE, template), "utf8");
        return file === "package.json" ? manifestFor(folder, text, { replaces }) : { file, text };
      }),
    );
    await writeFiles(folder, [...files, FIXTURES], { given, replaces });
    const commands = [...installCommands(folder, given), "npm run dev"].map((command) => `  ${command}\n`);
    return `${files.map(({ file }) => `  ${file}\n`).join("")}\nThe application is ready. Install its packages and start it:\n\n${commands.join("")}`;
  },
});
