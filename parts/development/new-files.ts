import { existsSync, readFileSync, statSync } from "node:fs";
import { open, rename, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, extname, join, resolve } from "node:path";
import { CommandError, quoted } from "../../cli/command.ts";
import { readText } from "../../config/text-file.ts";
import { makeFolder } from "../../db/cluster/folders.ts";

/** A file of a new application. With `link` it is a symbolic link to this path. */
export type NewFile = { readonly file: string } & (
  | {
      readonly text: string;
      readonly isSecret?: boolean;
      /** Whether the text has everything of a file that exists, which it may replace. */
      readonly keepsExisting?: boolean;
    }
  | { readonly link: string }
);

/** The migrations include files of the schema under this name: a link, which a package cannot contain. */
export const FIXTURES: NewFile = { file: "db/migrations/fixtures", link: "../schema" };

export type WriteOptions = {
  /** The folder as the user has written it. */
  readonly given: string;
  /** Whether files that exist are replaced; otherwise nothing is written. */
  readonly replaces: boolean;
};

/** Writes the files of a new application. Throws CommandError. */
export async function writeFiles(
  folder: string,
  files: readonly NewFile[],
  { given, replaces }: WriteOptions,
): Promise<void> {
  if (statSync(folder, { throwIfNoEntry: false })?.isFile())
    throw new CommandError(1, `${given} is a file: name a folder, which may be new`);
  const existing = files
    .filter((file) => !("keepsExisting" in file))
    .map(({ file }) => file)
    .filter((file) => existsSync(join(folder, file)));
  if (existing.length > 0 && !replaces)
    throw new CommandError(1, `${given} has these files already, and nothing was written: ${existing.join(", ")}`);
  const made: string[] = [];
  for (const file of files) {
    const path = join(folder, file.file);
    await write(path, file, { replaces: replaces || "keepsExisting" in file, made }).catch(async (error) => {
      // The command can be repeated.
      for (const each of made) await rm(each, { force: true });
      throw new CommandError(1, `cannot write ${path}: ${(error as Error).message}`);
    });
  }
}

/** Adds to `made` what has to be removed if a later file cannot be written. */
async function write(
  path: string,
  file: NewFile,
  { replaces, made }: { readonly replaces: boolean; readonly made: string[] },
): Promise<void> {
  makeFolder(dirname(path));
  if ("link" in file) {
    if (replaces) await rm(path, { force: true });
    await symlink(file.link, path);
    return void made.push(path);
  }
  // What exists is replaced when the new file is complete.
  const target = replaces ? `${path}.new` : path;
  // Fails if another process has made it meanwhile.
  const handle = await open(target, "wx", file.isSecret ? 0o600 : 0o666);
  made.push(target);
  await handle.writeFile(file.text).finally(() => handle.close());
  if (replaces) await rename(target, path);
}

/** What a manifest of the template gets in addition. */
type Additions = {
  readonly scripts?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
};

/**
 * package.json. The package is named after its folder, and has the version of this package. What the folder has already stays, such as
 * what `npm install content-service` has written, unless `replaces` is set.
 */
export async function manifestFor(
  folder: string,
  template: string,
  { replaces, ...additions }: Additions & Pick<WriteOptions, "replaces">,
): Promise<NewFile> {
  const { name, version } = createRequire(import.meta.url)("../../package.json");
  const made = merged({ ...additions, dependencies: { [name]: version } }, JSON.parse(template));
  const existing = replaces ? null : readManifest(folder);
  const manifest = merged({ name: nameOf(folder), ...existing }, made);
  return {
    file: MANIFEST,
    text: `${JSON.stringify(manifest, null, 2)}\n`,
    ...(existing && { keepsExisting: true }),
  };
}

const MANIFEST = "package.json";

/** Null if there is none. Throws CommandError. */
function readManifest(folder: string): Members | null {
  const file = join(folder, MANIFEST);
  if (!existsSync(file)) return null;
  let manifest: unknown;
  try {
    manifest = JSON.parse(readText(file));
  } catch (error) {
    throw new CommandError(1, `cannot read ${file}: ${(error as Error).message}`);
  }
  if (!isObject(manifest)) throw new CommandError(1, `${file} is not a JSON object`);
  if ((manifest.type ?? "module") === "module") return manifest;
  throw new CommandError(1, `${file} has "type": "${manifest.type}": applications are modules, so set it to "module"`);
}

type Members = Readonly<Record<string, unknown>>;

/** The members of both objects, and of the objects in them. The first one has precedence. */
function merged(first: Members, second: Members): Members {
  const values = Object.entries(first).map(([name, value]) => {
    const other = second[name];
    return [name, isObject(value) && isObject(other) ? merged(value, other) : value];
  });
  return { ...second, ...Object.fromEntries(values) };
}

const isObject = (value: unknown): value is Members =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A name that npm accepts: `My Notes` → `my-notes` */
const nameOf = (folder: string): string =>
  basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._~-]+/g, "-")
    .replace(/^[-._]+|-+$/g, "") || "application";

/**
 * The commands that install the packages of a new application. Until this version is in the registry, npm needs the file that `npx` has run
 * this command from, or the one that a clone makes.
 */
export function installCommands(folder: string, given: string): readonly string[] {
  const { name, version } = createRequire(import.meta.url)("../../package.json");
  const enter = enterCommand(folder, given);
  const source = fileOfPackage(name);
  if (source === "registry") return [`${enter}npm install`];
  if (source !== "clone") return [`${enter}${installFile(source, folder)}`];
  const pack = `npx node build/package.ts ../package && npm pack ../package --pack-destination ${quoted(given)}`;
  return [`${pack}   # in the clone`, `${enter}npm install ./${name}-${version}.tgz`];
}

/** package.json names the file by a relative path, so it must be part of the folder, which is deployed elsewhere. */
export function installFile(source: string, folder: string): string {
  const install = `npm install ./${quoted(basename(source))}`;
  return dirname(source) === folder ? install : `cp ${quoted(source)} . && ${install}`;
}

/** `npx` installs packages in a folder of their own, whose manifest names the file. */
function fileOfPackage(name: string): string {
  const packageFolder = join(import.meta.dirname, "../..");
  if (extname(import.meta.filename) === ".ts") return "clone";
  const parent = join(packageFolder, "../..");
  const manifest = join(parent, MANIFEST);
  const wanted = existsSync(manifest) ? JSON.parse(readFileSync(manifest, "utf8")).dependencies?.[name] : undefined;
  return wanted?.startsWith("file:") ? resolve(parent, wanted.slice("file:".length)) : "registry";
}

/** `cd 'My Notes' && `; nothing for the current folder. */
export const enterCommand = (folder: string, given: string): string =>
  folder === process.cwd() ? "" : `cd ${quoted(given)} && `;
