import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
import { PARTS } from "../parts/list.ts";
import { loadParts } from "../service/parts.ts";

/** The entry point, which may import everything. */
const ROOT = "server.ts";

/** Which folders the files of a folder may import from. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  config: [],
  problems: ["config"],
  telemetry: ["config"],
  cache: ["telemetry"],
  db: ["problems", "cache", "telemetry", "config"],
  identity: ["db", "problems", "cache", "telemetry", "config"],
  gate: ["identity", "db", "problems", "telemetry", "config"],
  plugins: ["db", "problems"],
  graphql: ["plugins", "gate", "identity", "db", "problems", "cache", "telemetry", "config"],
  "rest-gateway": ["gate", "identity", "db", "problems", "cache", "telemetry", "config"],
  realtime: ["gate", "identity", "db", "problems", "telemetry", "config"],
  app: ["plugins", "rest-gateway", "db", "problems", "config"],
  cli: ["app", "parts", "service", "graphql", "rest-gateway", "identity", "db", "problems", "config"],
  pages: ["rest-gateway", "gate", "identity", "db", "problems", "telemetry", "config"],
  parts: [
    "service",
    "cli",
    "app",
    "pages",
    "graphql",
    "plugins",
    "realtime",
    "rest-gateway",
    "gate",
    "identity",
    "db",
    "problems",
    "telemetry",
    "config",
  ],
  // For tests of applications: it starts the service, and no other folder imports it.
  kit: ["server.ts", "service", "cli", "app", "rest-gateway", "gate", "identity", "db", "config"],
  service: "app pages graphql realtime rest-gateway gate identity db problems cache telemetry config".split(" "),
};

const sources = globSync(`{*,{${Object.keys(MAY_IMPORT).join()}}/**/*}.ts`).filter(
  (file) => !file.endsWith(".config.ts"),
);
const partOf = (file: string) => /^parts\/([\w-]+)\//.exec(file)?.[1] ?? null;
const folderOf = (file: string) => file.split("/")[0]!;
const importsOf = (file: string) =>
  [...readFileSync(file, "utf8").matchAll(/(?:from|import\() ?"(\.[^"]+)"/g)].map(([, path]) =>
    normalize(join(dirname(file), path!)),
  );

test("the top level has no source file but server.ts", () => {
  expect(sources.filter((file) => !file.includes("/"))).toEqual([ROOT]);
});

test.each(Object.keys(MAY_IMPORT))("%s/ imports only from itself and the folders below it", (folder) => {
  const allowed = [folder, ...MAY_IMPORT[folder]!];
  const upward = sources
    .filter((file) => folderOf(file) === folder)
    .flatMap((file) => importsOf(file).map((imported) => ({ file, imported })))
    .filter(({ imported }) => !allowed.includes(folderOf(imported)));
  expect(upward).toEqual([]);
});

/** The list of all parts, and who loads parts from it: the entry points. Commands load it by its name. */
const LIST = "parts/list.ts";
const OPENERS = [ROOT, "cli/content-service.ts"];
/** What parts may import of the composition and of the commands. */
const FOR_PARTS = [
  ...["service/part.ts", "service/core.ts"],
  ...[
    "base",
    "command",
    "current-migration",
    "file-watcher",
    "includes",
    "migration-notes",
    "module",
    "open-core",
    "open-parts",
    "scratch-cluster",
  ].map((name) => `cli/${name}.ts`),
];

test("no file of the core imports a part, and a part imports another one only if it needs it", async () => {
  const parts = await loadParts(PARTS, { parts: PARTS.map(({ name }) => name), embedded: true });
  expect(globSync("parts/*/part.ts").map(partOf).sort()).toEqual(parts.map(({ name }) => name).sort());
  expect(globSync("parts/*/README.md").map(partOf).sort()).toEqual(parts.map(({ name }) => name).sort());
  const isAllowed = (file: string, imported: string) => {
    const [own, other] = [partOf(file), partOf(imported)];
    if (imported === LIST) return OPENERS.includes(file);
    return file === LIST || own === other || parts.find(({ name }) => name === own)?.needs?.includes(other!) === true;
  };
  const crossing = sources
    .flatMap((file) => importsOf(file).map((imported) => ({ file, imported })))
    .filter(({ file, imported }) => imported.startsWith("parts/") && !isAllowed(file, imported));
  expect(crossing).toEqual([]);
  const inward = sources
    .filter((file) => file.startsWith("parts/") && file !== LIST)
    .flatMap((file) => importsOf(file).map((imported) => ({ file, imported })))
    .filter(({ imported }) => /^(service|cli)\//.test(imported) && !FOR_PARTS.includes(imported));
  expect(inward).toEqual([]);
});

test("db/query writes and runs the queries of all interfaces: only they import it", () => {
  const users = sources.filter((file) => importsOf(file).some((imported) => imported.startsWith("db/query/")));
  expect(users.filter((file) => /^(db\/(?!query\/)|identity|gate)/.test(file))).toEqual([]);
});

/** The folders of the gateway, each of which may import from those before it. */
const GATEWAY = ["conventions", "tasks", "table", "routes", "auth", "resources"];
const gatewayFolderOf = (file: string) => /^rest-gateway\/([\w-]+)\//.exec(file)?.[1] ?? null;

/** What the files import: paths from the root, and names of packages. */
const modulesIn = (files: readonly string[]): string[] =>
  files.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/(?:^import [^"\n]*|^\} from |import\()"([^"]+)"/gm)].map(([, name]) =>
      name!.startsWith(".") ? normalize(join(dirname(file), name!)) : name!,
    ),
  );

test("demo/ imports only from itself and from the package, as any application does", () => {
  const files = globSync("demo/**/*.ts", { exclude: ["**/node_modules/**"] }).filter(
    (file) => !file.startsWith("demo/pages/"),
  );
  expect(files.length).toBeGreaterThan(8);
  expect(modulesIn(files).filter((name) => !/^(demo\/|content-service(\/|$))/.test(name))).toEqual([]);
});

test("demo/pages/ imports nothing of the service: pages are its clients", () => {
  const files = globSync("demo/pages/**/*.{ts,tsx}", { exclude: ["**/node_modules/**"] });
  expect(files.length).toBeGreaterThan(8);
  const ofProject = modulesIn(files).filter((name) => /^(\.\.|\w+\/.*\.tsx?$|content-service)/.test(name));
  expect(ofProject.filter((name) => !name.startsWith("demo/pages/"))).toEqual([]);
});

test("only demo/, test/, bench/ and the documentation name an article: the product serves any application", () => {
  const files = globSync(`{server.ts,{build,deploy,template,${Object.keys(MAY_IMPORT).join()}}/**/*.*}`, {
    exclude: ["**/node_modules/**"],
  }).filter(
    // SQL of the demo that has not moved yet.
    (file) => !/^db\/(schema|migrations)\//.test(file) && !/\.(gz|png|ico|woff2)$/.test(file),
  );
  expect(files.length).toBeGreaterThan(400);
  expect(files.filter((file) => /article/i.test(readFileSync(file, "utf8")))).toEqual([]);
});

test.each(GATEWAY)("rest-gateway/%s imports only from the folders before it", (folder) => {
  const used = sources
    .filter((file) => gatewayFolderOf(file) === folder)
    .flatMap((file) => importsOf(file).map(gatewayFolderOf));
  const known = GATEWAY.slice(0, GATEWAY.indexOf(folder) + 1);
  expect(used.filter((name) => name !== null && !known.includes(name))).toEqual([]);
});

test("every folder of rest-gateway has its place in that order", () => {
  expect([...new Set(sources.map(gatewayFolderOf))].filter((name) => name !== null).sort()).toEqual(
    [...GATEWAY].sort(),
  );
});

test("db/changes reads changes, db/rights decides who sees them, db/delivery delivers them: each imports only from those before it", () => {
  const order = ["changes", "rights", "delivery"].map((folder) => `db/${folder}/`);
  const placeOf = (file: string) => order.findIndex((folder) => file.startsWith(folder));
  const backward = sources
    .filter((file) => placeOf(file) >= 0)
    .flatMap((file) => importsOf(file).map((imported) => ({ file, imported })))
    .filter(({ file, imported }) => placeOf(imported) > placeOf(file));
  expect(backward).toEqual([]);
});

/** The stages of a request, each of which may use the data types of later ones and never an earlier stage. */
const STAGES = ["parse", "plan", "write", "answer"];

test.each(["table", "resources"])("no stage of rest-gateway/%s imports an earlier stage", (folder) => {
  const stageOf = (file: string) => STAGES.indexOf(file.split("/")[2]!);
  const backward = sources
    .filter((file) => file.startsWith(`rest-gateway/${folder}/`) && stageOf(file) >= 0)
    .flatMap((file) => importsOf(file).map((imported) => ({ file, imported })))
    .filter(({ imported }) => imported.startsWith(`rest-gateway/${folder}/`) && stageOf(imported) >= 0)
    .filter(({ file, imported }) => stageOf(imported) < stageOf(file));
  expect(backward).toEqual([]);
});

/** What a file imports when it is loaded: not types, and not what `import()` loads later. */
const valuesOf = (file: string) =>
  [...readFileSync(file, "utf8").matchAll(/^import (?!type )[^;]*?"([^"]+)";/gm)]
    .filter(([statement]) => !/^import \{(\s*type [^,}]+,?)+\s*\}/.test(statement))
    .map(([, name]) => (name!.startsWith(".") ? normalize(join(dirname(file), name!)) : name!));

/** The same, and types. */
const typesAndValuesOf = (file: string) =>
  [...readFileSync(file, "utf8").matchAll(/^(?:import|export)\s[^;]*? from "(\.[^"]+)";/gm)].map(([, name]) =>
    normalize(join(dirname(file), name!)),
  );

/** A room with imports of types in circles, which are to go. */
const CIRCULAR = "rest-gateway/auth/";

test.each([
  ["no source file imports itself through others", sources, valuesOf],
  [
    "no source file imports itself through types either, outside of one room",
    sources.filter((file) => !file.startsWith(CIRCULAR)),
    typesAndValuesOf,
  ],
])("%s", (_, files, importedBy) => {
  const imports = new Map(files.map((file) => [file, importedBy(file)]));
  // Files that no cycle can lead through are removed until nothing changes.
  for (let size = 0; size !== imports.size; ) {
    size = imports.size;
    for (const [file, imported] of imports) if (!imported.some((path) => imports.has(path))) imports.delete(file);
  }
  const isImported = (file: string) => [...imports.values()].some((imported) => imported.includes(file));
  expect([...imports.keys()].filter(isImported)).toEqual([]);
});

test("no two classes have one name", () => {
  const names = sources.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/^(?:export )?(?:abstract )?class (\w+)/gm)].map(([, name]) => name!),
  );
  expect(names.length).toBeGreaterThan(100);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});

test("server.ts does not load PostGraphile, graphile-migrate or uqr, which few starts or requests need", () => {
  const loaded = new Set([ROOT]);
  for (const file of loaded) if (sources.includes(file)) for (const name of valuesOf(file)) loaded.add(name);
  expect(loaded.size).toBeGreaterThan(300);
  expect(
    [...loaded].filter((name) => /^(postgraphile|grafast|graphile-build|graphile-migrate|uqr)/.test(name)),
  ).toEqual([]);
});

test("config/config.ts alone reads the environment, and only the command sets it for the processes that it starts", () => {
  expect(sources.filter((file) => readFileSync(file, "utf8").includes("process.env")).sort()).toEqual([
    "cli/content-service.ts",
    "config/config.ts",
  ]);
});

test("no file path is read from a URL without decoding it, so that the name of a folder may contain a space", () => {
  const files = globSync("**/*.ts", { exclude: ["**/node_modules/**"] });
  expect(files.length).toBeGreaterThan(500);
  expect(files.filter((file) => /import\.meta\.url\)\.(pathname|href)\b/.test(readFileSync(file, "utf8")))).toEqual([
    // It compares URLs.
    "bench/request-trace.ts",
  ]);
});

const containing = (pattern: RegExp) => sources.filter((file) => pattern.test(readFileSync(file, "utf8"))).sort();

test("no file imports values from node:http, which would load 12 MB that the service does not use", () => {
  const imports = sources.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/^import (?!type )[^;]*?from "node:http";/gm)].map(() => file),
  );
  expect(imports).toEqual([]);
});

test("no WeakMap has requests as its keys: V8 would keep each until it collects the whole heap", () => {
  expect(containing(/WeakMap<(IncomingMessage|ServerResponse)\b/)).toEqual([]);
});

test("db/sql.ts alone quotes names, and values of CSV are quoted in the same way", () => {
  expect(containing(/escapeIdentifier|replace(All)?\((["'`]"["'`]|\/"\/g), *["'`]""["'`]\)/)).toEqual([
    "db/query/result.ts",
    "db/sql.ts",
  ]);
});

test("db/filters has the one list of operators and the one type of conditions", () => {
  expect(containing(/["'`](neq|ilike|nxr)["'`]|\b(neq|ilike|nxr):/)).toEqual(["db/filters/operators.ts"]);
  expect(containing(/^(export )?(type|interface) Condition\b/m)).toEqual(["db/filters/condition.ts"]);
});

test("conditions are parsed in db/filters", () => {
  expect(containing(/^export function parseLogic\b/m)).toEqual(["db/filters/parse.ts"]);
});

test("one skeleton tries requests for tables and resources again", () => {
  expect(containing(/refreshIfStale\(\)/).filter((file) => gatewayFolderOf(file) !== null)).toEqual([
    "rest-gateway/conventions/data-interface.ts",
  ]);
});

test("only plugins, those of applications included, and the compiled queries that join their SQL, use pg-sql2", () => {
  const users = containing(/from "[^"]*pg-sql2"/);
  expect(
    users.filter((file) => !/^(plugins|graphql\/compiled|parts\/graphql-extras)\/|^app\/postgraphile\.ts$/.test(file)),
  ).toEqual([]);
});

const readJson = (file: string) => JSON.parse(readFileSync(file, "utf8"));
/** The folders that have a lock file. */
const LOCKED = globSync("{.,*,*/*}/package-lock.json", { exclude: ["**/node_modules/**"] }).map(dirname);

test("every dependency has an exact version", () => {
  const versions = LOCKED.flatMap((folder) => {
    const { dependencies, devDependencies, optionalDependencies } = readJson(join(folder, "package.json"));
    return Object.values<string>({ ...dependencies, ...devDependencies, ...optionalDependencies });
  });
  const inexact = versions.filter((version) => !/^(npm:[\w-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(version));
  expect(inexact).toEqual([]);
});

test("the install scripts that run are approved by name", () => {
  const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
  const withScripts = Object.entries<any>(lock.packages)
    .filter(([path, entry]) => path !== "" && entry.hasInstallScript)
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

test("no line of SQL has more than 120 characters", () => {
  const long = globSync(["db/modules/**/*.sql", "demo/db/schema/**/*.sql"]).flatMap((file) =>
    readFileSync(file, "utf8")
      .split("\n")
      .flatMap((line, i) => (line.length > 120 ? [`${file}:${i + 1}`] : [])),
  );
  expect(long).toEqual([]);
});

test("the SQL of the modules is ASCII, so that a database of any encoding takes it", () => {
  const others = globSync("db/modules/**/*.sql").filter((file) => /[^\p{ASCII}]/u.test(readFileSync(file, "utf8")));
  expect(others).toEqual([]);
});

/** Files with one noun that would be worse in pieces: a parser, a planner, a machine with states. They may have 600 lines. */
const MACHINES = [
  "config/settings.ts",
  "db/admission/byte-budget.ts",
  "db/query/rows.ts",
  "db/transaction/execution.ts",
  "db/transaction/row-stream.ts",
  "db/transaction/transaction-plan.ts",
  "db/wire/batch.ts",
  "gate/limits/clients.ts",
  "gate/limits/turns.ts",
  "gate/pipeline/pipeline.ts",
  "graphql/execute/engine.ts",
];

test("no source file has more than 300 lines, and no machine more than 600", () => {
  const linesOf = (file: string) => readFileSync(file, "utf8").split("\n").length - 1;
  expect(sources.filter((file) => linesOf(file) > 300).sort()).toEqual(MACHINES);
  expect(MACHINES.filter((file) => linesOf(file) > 600)).toEqual([]);
});

/** Errors that no client gets: they are caught and become a Problem or another answer, or end a command. */
const INTERNAL_ERRORS = [
  ...["ChangesMissing", "CheckError", "CommandError", "ConfigError", "FilterError"],
  ...[
    "FormFault",
    "InvalidDescription",
    "InvalidJson",
    "IssuerUnavailable",
    "Malformed",
    "MalformedMessage",
    "MigrationFailure",
    "MissingServer",
  ],
  ...["NameConflict", "NotCompiled", "OutboundError", "QuestionFault", "RefusedRecord"],
  ..."SignatureError SlotTaken StacklessError TokenError TooManyTables TracingError UnusableHash WatchEnded".split(" "),
  ...["SchemaFault", "XmlError"],
];
const matchesIn = (pattern: RegExp) =>
  sources.flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(pattern)].map(([, name]) => ({ file, name: name! })),
  );
const carriers = matchesIn(/class (\w+) extends (?:\w*Error|Problem)\b/g).filter(
  ({ name }) => !INTERNAL_ERRORS.includes(name),
);

test(`${carriers.length} class carries errors to clients: Problem`, () => {
  expect(carriers).toEqual([{ file: "problems/problem.ts", name: "Problem" }]);
});

test("each folder has at most one function that turns errors into problems, and one writes each common problem", () => {
  const folders = matchesIn(/function (problemOf)\b/g).map(({ file }) => file.split("/").slice(0, 2).join("/"));
  expect(folders).toEqual([...new Set(folders)]);
  for (const name of ["internalProblem", "loginRequired", "methodNotAllowed", "noSuchPath"])
    expect(matchesIn(new RegExp(`(?:const|function) (${name})\\b`, "g")).length).toBeLessThan(2);
});

test("the text of a 429 stands in problems/ alone", () => {
  const rows = matchesIn(/\b(429),\s*"RATE_LIMITED"/g);
  expect(rows.length).toBeGreaterThan(10);
  expect(rows.filter(({ file }) => !file.startsWith("problems/"))).toEqual([]);
  expect(matchesIn(/status: (429)/g)).toEqual([]);
});

/** What opens connections while the service runs, by file. The table in docs/architecture.md gives the reason for each. */
const DOORS: Readonly<Record<string, number>> = {
  // `Transactions`, one for each login of requests: data, admin, service, auth.
  "db/transaction/pool.ts": 1,
  // Background work and LISTEN.
  "db/database.ts": 1,
  // Tasks.
  "db/cluster/queue.ts": 1,
  // What the service keeps about changes.
  "db/changes/changes-config.ts": 1,
  "db/changes/replication.ts": 1,
  // What a replica has replayed.
  "db/replicas/replica.ts": 1,
  // Cancels a statement, and ends at once.
  "db/wire/connection.ts": 1,
  // Asks the servers of a URL which is the primary, and ends at once.
  "db/wire/primary.ts": 1,
};

/** Commands, tests of applications, and what is done before the service serves. */
const AT_START = /^(cli|kit|parts\/development|db\/cluster\/(?!queue))/;

test("few files open connections to the database", () => {
  const doors = sources
    .filter((file) => !AT_START.test(file))
    .map(
      (file) =>
        [
          file,
          readFileSync(file, "utf8").match(/new (pg\.(Pool|Client)|RawClient|PrimaryClient)\(/g)?.length ?? 0,
        ] as const,
    )
    .filter(([, count]) => count > 0);
  expect(Object.fromEntries(doors)).toEqual(DOORS);
});

test("a process has nine doors to the database, each of which docs/architecture.md explains", () => {
  const [, section] = readFileSync("docs/architecture.md", "utf8").split("## Connections to the database\n");
  const rows = [...section!.split("\n## ")[0]!.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
  expect(rows).toEqual(["data", "admin", "service", "auth", "catalog", "tasks", "changes", "replication", "replicas"]);
});

test("tests end connections of their own database, because others share the server", () => {
  const ends = globSync("test/**/*.ts").flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/pg_terminate_backend\([\w, ]+\)\s+from pg_\w+[^;`"]*/g)].map(
      ([statement]) => ({ file, statement }),
    ),
  );
  const unbounded = ends.filter(({ statement }) => !/current_database\(\)|datname|usename|ofService/.test(statement));
  // It has a server of its own.
  expect(unbounded).toMatchObject([{ file: "test/service/failover.all.test.ts" }]);
  expect(ends.length).toBeGreaterThan(10);
});
