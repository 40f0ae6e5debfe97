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
