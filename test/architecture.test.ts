import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

const ROOF = "roof";
/** Which folders the files of a folder may import from; files at the top are the roof. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  db: ["db"],
  http: ["http", "db"],
  plugins: ["plugins", "db"],
  graphql: ["graphql", "plugins", "http", "db"],
  "rest-gateway": ["rest-gateway", "http", "db"],
  [ROOF]: [ROOF, "graphql", "rest-gateway", "http", "db"],
};

const sources = globSync("{*,{db,http,plugins,graphql,rest-gateway}/**/*}.ts").filter(
  (file) => !file.endsWith(".config.ts"),
);
const folderOf = (file: string) => (file.includes("/") ? file.split("/")[0]! : ROOF);
const importsOf = (file: string) =>
  [...readFileSync(file, "utf8").matchAll(/from "(\.[^"]+)"/g)].map(([, path]) =>
    normalize(join(dirname(file), path!)),
  );

test.each(sources)("%s imports from its own floor and those below alone", (file) => {
  const allowed = MAY_IMPORT[folderOf(file)]!;
  expect(importsOf(file).filter((imported) => !allowed.includes(folderOf(imported)))).toEqual([]);
});

/** The rooms of the gateway, each of which may use those before it. */
const ROOMS = ["parse", "principal", "conventions", "tasks", "table", "openapi", "types", "docs", "auth", "resources"];
const roomOf = (file: string) => /^rest-gateway\/([\w-]+)\//.exec(file)?.[1] ?? null;

test.each(ROOMS)("rest-gateway/%s uses the rooms before it alone", (room) => {
  const used = sources.filter((file) => roomOf(file) === room).flatMap((file) => importsOf(file).map(roomOf));
  const known = ROOMS.slice(0, ROOMS.indexOf(room) + 1);
  expect(used.filter((name) => name !== null && !known.includes(name))).toEqual([]);
});

test("every folder of the gateway is one of its rooms", () => {
  expect([...new Set(sources.map(roomOf))].filter((name) => name !== null).sort()).toEqual([...ROOMS].sort());
});

test("config.ts alone reads the environment", () => {
  expect(sources.filter((file) => readFileSync(file, "utf8").includes("process.env"))).toEqual(["config.ts"]);
});

test("every dependency has an exact version", () => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync("package.json", "utf8"));
  const versions = Object.values<string>({ ...dependencies, ...devDependencies });
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))).toEqual([]);
});

test("the install scripts that run are approved by name", () => {
  const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
  const withScripts = Object.entries<any>(lock.packages)
    .filter(([, entry]) => entry.hasInstallScript)
    .map(([path]) => path.replace(/^.*node_modules\//, ""));
  const { allowScripts } = JSON.parse(readFileSync("package.json", "utf8"));
  const isApproved = (name: string) => name in allowScripts || name === "fsevents";
  expect(withScripts.filter((name) => !isApproved(name))).toEqual([]);
});

test("there is one copy of graphql", () => {
  const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
  expect(Object.keys(lock.packages).filter((path) => /(^|\/)node_modules\/graphql$/.test(path))).toEqual([
    "node_modules/graphql",
  ]);
});

test("npm ci finds every package in the lock file, those for other computers too", () => {
  const packages: Record<string, any> = JSON.parse(readFileSync("package-lock.json", "utf8")).packages;
  const locked = new Set(Object.keys(packages).map((path) => path.replace(/^.*node_modules\//, "")));
  const wanted = Object.values(packages).flatMap(({ optionalDependencies = {} }) => Object.keys(optionalDependencies));
  expect(wanted.filter((name) => !locked.has(name))).toEqual([]);
});
