import { existsSync, globSync } from "node:fs";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { COMMAND } from "../config/command.ts";
import { CommandError } from "./command.ts";

const HELP = `\
Makes an application: a folder with its configuration, TypeScript and packages. It overwrites and installs nothing.

  ${COMMAND} init <folder>   make it in this folder, which may exist
  ${COMMAND} init .          make it in the current folder
  ${COMMAND} init --bare .   without examples: only the configuration, packages and an empty database
  ${COMMAND} init --help     show this help
`;

const TEMPLATE = fileURLToPath(new URL("../template/", import.meta.url));

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

/** The migrations include files of the schema under this name: a link, which a package cannot contain. */
const FIXTURES = "db/migrations/fixtures";

/** The output for these arguments. Throws CommandError. */
export async function init(args: string[]): Promise<string> {
  const read = readArguments(args);
  if (read === null) return HELP;
  const { folder: given, isBare } = read;
  const folder = resolve(given);
  const templates = globSync("**", { cwd: TEMPLATE, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(TEMPLATE, join(entry.parentPath, entry.name)))
    .filter((file) => file.startsWith(BARE) === isBare || (isBare && ALSO_BARE.includes(file)))
    .sort();
  const files = templates.map((template) => ({ template, file: NAMES[template] ?? template.replace(BARE, "") }));
  const existing = [...files.map(({ file }) => file), FIXTURES].filter((file) => existsSync(join(folder, file)));
  if (existing.length > 0)
    throw new CommandError(1, `${given} has these files already, and nothing was written: ${existing.join(", ")}`);
  for (const { template, file } of files) {
    const text = await readFile(join(TEMPLATE, template), "utf8");
    await write(join(folder, file), file === "package.json" ? withNames(text, folder) : text);
  }
  await symlink("../schema", join(folder, FIXTURES));
  const enter = folder === process.cwd() ? "" : `cd ${quoted(given)} && `;
  return `${files.map(({ file }) => `  ${file}\n`).join("")}\nThe application is ready. Install its packages and start it:\n\n  ${enter}npm install\n  npm run dev\n`;
}

function readArguments(args: string[]): { readonly folder: string; readonly isBare: boolean } | null {
  try {
    const options = { help: { type: "boolean", short: "h" }, bare: { type: "boolean", default: false } } as const;
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    if (values.help) return null;
    const [folder, ...more] = positionals;
    if (!folder || more.length > 0) throw new Error("expected one folder");
    return { folder, isBare: values.bare };
  } catch (error) {
    throw new CommandError(2, `${(error as Error).message}; see ${COMMAND} init --help`);
  }
}

async function write(file: string, text: string): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true });
    // Fails if another process has made it meanwhile.
    await writeFile(file, text, { flag: "wx" });
  } catch (error) {
    throw new CommandError(1, `cannot write ${file}: ${(error as Error).message}`);
  }
}

/** The package is named after its folder, and has the version of this package. */
function withNames(text: string, folder: string): string {
  const { name, version } = createRequire(import.meta.url)("../package.json");
  const manifest = JSON.parse(text);
  manifest.name = nameOf(folder);
  manifest.dependencies[name] = version;
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

/** A name that npm accepts: `My Notes` → `my-notes` */
const nameOf = (folder: string): string =>
  basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._~-]+/g, "-")
    .replace(/^[-._]+|-+$/g, "") || "application";

const quoted = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
