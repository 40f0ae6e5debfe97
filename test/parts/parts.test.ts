import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { applicationOf } from "../../app/application.ts";
import { definePart, defineRoute, z } from "../../app/index.ts";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { documents } from "../../cli/documents.ts";
import { partsCommand } from "../../cli/parts.ts";
import { ASSETS } from "../../pages/assets.ts";
import { adviseCommand } from "../../parts/advisor/advise.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { PARTS } from "../../parts/list.ts";
import type { Part } from "../../service/part.ts";
import { type ListedPart, loadParts, loadPlugins, withOwnParts } from "../../service/parts.ts";
import { refuseClashes } from "../../service/routes.ts";
import { readConfig, settingsOf } from "../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const DATABASE_URL = "postgres://owner@localhost/notes";
const JWT_SECRET = "a-secret-of-at-least-32-characters-for-tests";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return database.drop;
});

const listed = (part: Part, isForDevelopment = false): ListedPart => ({
  ...{ name: part.name, isForDevelopment },
  load: async () => part,
});
const LIST = [
  listed({ name: "mail", about: "" }),
  listed({ name: "console", about: "", needs: ["mail"], paths: ["/console/*"] }, true),
  listed({ name: "site", about: "" }, true),
];
const names = async (parts: string, more: Readonly<Record<string, string>> = {}) =>
  (await loadParts(LIST, readConfig({ PARTS: parts, ...more }))).map(({ name }) => name);

test.each([
  ["", ["mail", "console", "site"], ["mail"]],
  ["+console", ["mail", "console", "site"], ["mail", "console"]],
  ["-site", ["mail", "console"], ["mail"]],
  ["-mail", ["site"], []],
  ["+site,-mail,-console", ["site"], ["site"]],
  ["console, mail", ["mail", "console"], ["mail", "console"]],
  ["console", ["mail", "console"], ["mail", "console"]],
  ["none", [], []],
])("PARTS=%s opens %j with the embedded database, and %j with another one", async (parts, embedded, other) => {
  expect(await names(parts)).toEqual(embedded);
  expect(await names(parts, { DATABASE_URL, JWT_SECRET })).toEqual(other);
});

test("PARTS stops the start if it has an unknown name, or leaves out a part that a named one needs", async () => {
  await expect(names("+consol")).rejects.toThrow(
    "PARTS names consol, which is not a part; the parts are mail, console, site",
  );
  await expect(names("+console,-mail")).rejects.toThrow(
    "PARTS leaves out mail, which console needs: leave out both, or neither",
  );
});

test("a path of a part is refused to an application, unless the part is not open", async () => {
  const config = { routes: [{ path: "/console/notes", methods: { GET: () => ({}) } }] };
  const application = applicationOf({ ...NO_APPLICATION, config } as never, readConfig({}));
  const refuse = async (parts: string) =>
    refuseClashes(application, await loadParts(LIST, readConfig({ PARTS: parts })));
  await expect(refuse("")).rejects.toThrow("the path /console/notes is taken, because the part console serves");
  await expect(refuse("-console")).resolves.toBeUndefined();
});

const route = (path: string) => defineRoute({ path, methods: { GET: () => ({}) } });
const reports = definePart({
  name: "reports",
  about: "reports about notes",
  environment: { APP_LIMIT: z.coerce.number().default(10) },
  routes: ({ APP_LIMIT }) => [route(`/reports/${APP_LIMIT}`)],
  console: { links: [{ name: "Reports", url: "/reports" }] },
});
const ownParts = (parts: string, more: object = {}) => {
  const definition = { folder: null, config: { parts: [reports], routes: [route("/own")], ...more } };
  const { declared } = settingsOf(definition);
  return applicationOf(definition, readConfig({ PARTS: parts, APP_LIMIT: "7" }, { declared }));
};
const pathsOf = (parts: string) => ownParts(parts).routes.map((each) => "path" in each && each.path);

test("a part of an application comes before the rest of it, with settings of its own, and PARTS leaves it out", async () => {
  expect(pathsOf("")).toEqual(["/reports/7", "/own"]);
  expect(pathsOf("-reports")).toEqual(["/own"]);
  expect(pathsOf("console,mail")).toEqual(["/own"]);
  expect(ownParts("").consoleLinks).toEqual([{ name: "Reports", path: "/reports" }]);
  const list = withOwnParts(LIST, ownParts(""));
  expect((await loadParts(list, readConfig({ PARTS: "-site" }))).map(({ name }) => name)).toEqual([
    ...["mail", "console", "reports"],
  ]);
});

test("a part of an application with the name of another part, or of a setting that another one declares, is refused", () => {
  expect(() => withOwnParts([listed({ name: "reports", about: "" })], ownParts(""))).toThrow(
    /parts\.test\.ts:\d+: the service has a part named reports: choose another name$/,
  );
  expect(() => ownParts("", { environment: { APP_LIMIT: z.string() } })).toThrow(
    /parts\.test\.ts:\d+: APP_LIMIT is declared by .*parts\.test\.ts:\d+ and content-service\.config\.ts$/,
  );
});

test("GraphQL has the plugins of the parts that are open, and then those of the application", async () => {
  const pluginsOf = (name: string) => async () => [{ name, version: "1.0.0" }];
  const list = [
    listed({ name: "charts", about: "", plugins: pluginsOf("ChartsPlugin") }),
    listed({ name: "site", about: "" }),
    listed({ name: "maps", about: "", plugins: pluginsOf("MapsPlugin") }),
  ];
  const application = { plugins: pluginsOf("NotesPlugin") };
  const names = async (parts: string) => {
    const config = readConfig({ PARTS: parts });
    const loaded = await loadPlugins(await loadParts(list, config), application, config);
    return loaded.map(({ name }) => name).filter((each) => each !== "ExtrasOfAllTablesPlugin");
  };
  expect(await names("")).toEqual(["ChartsPlugin", "MapsPlugin", "NotesPlugin"]);
  expect(await names("-charts")).toEqual(["MapsPlugin", "NotesPlugin"]);
  expect(await names("none")).toEqual(["NotesPlugin"]);
});

test("the modules of pages import each other as browsers load them: all are at /assets", async () => {
  const parts = await loadParts(PARTS, readConfig({}));
  const assets = [...ASSETS, ...parts.flatMap((part) => part.assets ?? [])];
  const names = assets.map(({ name }) => `./${name}`);
  const modules = assets.filter(({ file }) => file.endsWith(".js") && file.includes("/browser/"));
  expect(modules.length).toBeGreaterThan(10);
  const imports = modules.flatMap(({ file }) =>
    [...readFileSync(file, "utf8").matchAll(/^(?:import|export) [^;]*?from "([^"]+)";/gm)].map(([, name]) => ({
      file,
      name,
    })),
  );
  expect(imports.length).toBeGreaterThan(15);
  expect(imports.filter(({ name }) => !names.includes(name!))).toEqual([]);
});

test("the command parts lists all, with what is open", async () => {
  const { stdout, exitCode } = await outcomeOf(partsCommand([], { PARTS: "-console", SETTINGS_FILE: "" }));
  expect(exitCode).toBe(0);
  expect(stdout.split("\n")[0]).toMatch(/^part +state +modules +for +serves$/);
  for (const { name } of PARTS)
    expect(stdout).toMatch(
      new RegExp(`^${name} +${name === "console" ? "not open" : "open"} .*(everywhere|development) +\\S`, "m"),
    );
  expect(stdout).toMatch(/^mail +open +auth, tasks +everywhere/m);
  const ofDatabase = await outcomeOf(partsCommand([], { DATABASE_URL: database.url, SETTINGS_FILE: "" }));
  expect(ofDatabase.stdout).toMatch(/^mail +open +auth \d+\.\d+\.\d+\S*, tasks \d+\.\d+\.\d+\S* +everywhere/m);
  expect(await outcomeOf(partsCommand(["console"]))).toMatchObject({ exitCode: 2 });
  expect((await outcomeOf(partsCommand(["--help"]))).stdout).toContain("npx content-service parts");
});

test.each([
  ["parts", partsCommand, []],
  ["advise", adviseCommand, []],
  ["doctor federated", doctor, ["federated"]],
  ["documents check", documents, ["check"]],
])(
  "the command %s ends with exit code 2 if PARTS leaves out a part that a named one needs",
  async (_, command, args) => {
    const folder = mkdtempSync(join(tmpdir(), "documents-"));
    writeFileSync(join(folder, "all.json"), JSON.stringify({ all: "{ __typename }" }));
    const environment = {
      ...{ DATABASE_URL: database.url, JWT_SECRET, MIGRATE: "off", SETTINGS_FILE: "" },
      ...{ PARTS: "+console,-advisor", GRAPHQL_DOCUMENTS: `only ${join(folder, "all.json")}` },
    };
    expect(await outcomeOf(command(args as string[], environment))).toEqual({
      ...{ exitCode: 2, stdout: "" },
      stderr: "PARTS leaves out advisor, which console needs: leave out both, or neither\n",
    });
  },
);
