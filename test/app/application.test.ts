import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { applicationOf } from "../../app/application.ts";
import { misspeltSettings } from "../../app/configured.ts";
import { type Config, defineConfig, defineResource, z } from "../../app/index.ts";
import { loadApplication } from "../../app/load.ts";
import type { Environment } from "../../config/config.ts";
import { configure, KNOWN, readConfig, settingsOf } from "../support/config.ts";
import { DEMO } from "../support/demo.ts";

const OWN = { DATABASE_URL: "postgres://o@db/shop", JWT_SECRET: "a secret of the tests, long enough for HS256" };

/** The application in this environment. */
const made = (config: Config<any>, environment: Environment = {}) => {
  const definition = { folder: null, config };
  return applicationOf(definition, readConfig(environment, settingsOf(definition)));
};

const demo = (environment: Environment) => made(DEMO.config, environment);

/** The names of the plugins of the demo. */
const names = async (environment: Environment) => (await demo(environment).plugins()).map((plugin) => plugin.name);

test("a name in .env that is almost a setting has a line, and other variables of the application have none", () => {
  const declared = { SHOP_NAME: "a", PROT: "1" };
  const lines = misspeltSettings(
    ["ACCES_TOKEN_TTL", "EMAIL_CONFRIM", "SHOP_NAMES", "PORT", "PGRST_DB_URI", "PROT", "POST_URL", "STRIPE_KEY", "A"],
    { declared, known: KNOWN },
  );
  expect(lines).toEqual([
    ".env: ACCES_TOKEN_TTL is not a setting. Did you mean ACCESS_TOKEN_TTL?\n",
    ".env: EMAIL_CONFRIM is not a setting. Did you mean EMAIL_CONFIRM?\n",
    ".env: SHOP_NAMES is not a setting. Did you mean SHOP_NAME?\n",
  ]);
});

const NOTES = defineResource({
  name: "notes",
  singular: "note",
  about: "Short texts.",
  table: "public.notes",
  fields: { id: {} },
});

describe("the settings of the demo", () => {
  test("USERS_WRITE is open on the embedded database and owner with DATABASE_URL by default", () => {
    const isOpen = (environment: Environment) => demo(environment).resources[0]!.editor!.isOpen;
    expect(isOpen({})).toBe(true);
    expect(isOpen({ USERS_WRITE: "" })).toBe(true);
    expect(isOpen({ USERS_WRITE: "owner" })).toBe(false);
    expect(isOpen(OWN)).toBe(false);
    expect(isOpen({ ...OWN, USERS_WRITE: "open" })).toBe(true);
  });

  test("USERS_DIALECT is a list", () => {
    expect(demo({}).dialects).toEqual([]);
    expect(demo({ USERS_DIALECT: "detail, case" }).dialects).toEqual(["detail", "case"]);
  });

  test("GRAPHQL_DELETE_ANONYMOUS decides about a plugin", async () => {
    expect(await names({})).not.toContain("DeleteAnonymousPlugin");
    expect(await names({ GRAPHQL_DELETE_ANONYMOUS: "false-result" })).toContain("DeleteAnonymousPlugin");
  });

  test("GRAPHQL_INTERNAL_STATUS is 200 unless it says 400", () => {
    expect(demo({}).internalStatus).toBe(200);
    expect(demo({ GRAPHQL_INTERNAL_STATUS: "400" }).internalStatus).toBe(400);
    expect(made({}).internalStatus).toBe(200);
  });

  test("GRAPHQL_TIME_SCALAR decides about a plugin", async () => {
    expect(await names({})).not.toContain("DateTimePlugin");
    expect(await names({ GRAPHQL_TIME_SCALAR: "DateTime" })).toContain("DateTimePlugin");
  });

  test.each([
    ["USERS_WRITE", "on", 'USERS_WRITE must be open or owner (is "on")'],
    [
      "USERS_DIALECT",
      "detail loud",
      'USERS_DIALECT must be a list of detail, flat, envelope, partial, case (is "detail loud")',
    ],
    ["GRAPHQL_DELETE_ANONYMOUS", "null", 'GRAPHQL_DELETE_ANONYMOUS must be error or false-result (is "null")'],
    ["GRAPHQL_TIME_SCALAR", "Timestamp", 'GRAPHQL_TIME_SCALAR must be Time or DateTime (is "Timestamp")'],
    ["GRAPHQL_INTERNAL_STATUS", "500", 'GRAPHQL_INTERNAL_STATUS must be 200 or 400 (is "500")'],
  ])("%s=%s is refused", (name, value, message) => expect(() => demo({ [name]: value })).toThrow(message));

  test("are unknown without the demo", () =>
    expect(() => readConfig({ GRAPHQL_DELETE_ANONYMOUS: "error" })).toThrow("is not a setting of this service"));
});

describe("the environment of an application", () => {
  test("has the values that its types return, also from SETTINGS_FILE", () => {
    const file = join(mkdtempSync(join(tmpdir(), "settings-")), "settings");
    writeFileSync(file, "APP_LIMIT=7\nGRAPHQL_COLOUR=red\n");
    const config = defineConfig({
      environment: { APP_LIMIT: z.coerce.number(), GRAPHQL_COLOUR: z.string() },
      resources: ({ APP_LIMIT, GRAPHQL_COLOUR }) => [{ ...NOTES, pageSize: APP_LIMIT, about: GRAPHQL_COLOUR }],
    });
    expect(made(config, { SETTINGS_FILE: file }).resources[0]).toMatchObject({ pageSize: 7, about: "red" });
    expect(made(config, { SETTINGS_FILE: file, APP_LIMIT: "8" }).resources[0]).toMatchObject({ pageSize: 8 });
  });

  test("names a variable that is missing", () => {
    const config = defineConfig({ environment: { APP_URL: z.url({ error: "must be a URL" }), APP_LIMIT: z.string() } });
    expect(() => made(config)).toThrow("APP_URL must be a URL");
    expect(() => made(config, { APP_URL: "https://x.example" })).toThrow(/^APP_LIMIT .* \(is unset\)$/);
  });

  test("must not have names of the service", () => {
    expect(() => made({ environment: { PORT: z.string() } })).toThrow(
      "content-service.config.ts: PORT is a setting of the service: use another name, such as APP_PORT",
    );
  });
});

describe("the settings of an application", () => {
  const read = (settings: Config["settings"], environment: Environment = {}) =>
    readConfig(environment, settingsOf({ folder: null, config: { settings: settings! } }));

  test("apply unless the environment or its names of PostgREST say otherwise", () => {
    expect(read({ GRAPHQL_MAX_DEPTH: 20, DB_SCHEMAS: "shop", SAFE_UPDATE: false })).toMatchObject({
      ...{ graphqlMaxDepth: 20, dbSchemas: ["shop"], safeUpdate: false },
    });
    expect(read({ GRAPHQL_MAX_DEPTH: 20 }, { GRAPHQL_MAX_DEPTH: "9" }).graphqlMaxDepth).toBe(9);
    expect(read({ GRAPHQL_MAX_DEPTH: 20 }, { GRAPHQL_MAX_DEPTH: "" }).graphqlMaxDepth).toBe(20);
    expect(read({ DB_SCHEMAS: "shop" }, { PGRST_DB_SCHEMAS: "api", ...OWN }).dbSchemas).toEqual(["api"]);
  });

  test.each<[Record<string, string | number>, string]>([
    [{ GRAPHQL_MAX_DEPTH: "deep" }, 'GRAPHQL_MAX_DEPTH of the application must be a whole number (is "deep")'],
    [{ MAX_DEPTH: 3 }, "content-service.config.ts: MAX_DEPTH is not a setting of the service; "],
    [{ JWT_SECRET: "x".repeat(32) }, "content-service.config.ts: JWT_SECRET is a secret, which does not belong into"],
    [{ DATABASE_URL: "postgres://o:pw@db/shop" }, "content-service.config.ts: DATABASE_URL is a secret, which does"],
  ])("%j are refused", (settings, message) => expect(() => read(settings as never)).toThrow(message));
});

test("a plugin that cannot be loaded is an error with its line", async () => {
  const broken = async () => {
    throw new Error("no plugin");
  };
  await expect(made({ graphql: broken }).plugins()).rejects.toThrow(/application\.test\.ts:\d+: no plugin$/);
  const none = async () => ({}) as never;
  await expect(made({ graphql: none }).plugins()).rejects.toThrow("must return { plugins: […] }");
});

describe("resources", () => {
  test("have defaults for what they leave out", () => {
    const [notes] = made({ resources: [NOTES] }).resources;
    expect(notes).toMatchObject({ list: "envelope", pageSize: 20, search: null, editor: null, hasAccount: false });
  });

  test("must have different names, and the error has both lines", () => {
    const other = defineResource({ ...NOTES });
    expect(() => made({ resources: [NOTES, other] })).toThrow(
      /application\.test\.ts:\d+: there is another resource named notes, .*application\.test\.ts:\d+: rename one of them$/,
    );
  });

  test("only one may have accounts", () => {
    const people = { ...NOTES, name: "people", hasAccount: true };
    expect(() => made({ resources: [{ ...NOTES, hasAccount: true }, people] })).toThrow(
      "only one resource may have accounts, and notes has them: remove hasAccount from one of them",
    );
  });
});

test.each<[object, string]>([
  [{ routes: {} }, "routes must be a list, without an empty item"],
  [{ tasks: [undefined] }, "tasks must be a list, without an empty item"],
  [{ routes: [{ path: "tags", methods: {} }] }, 'a path begins with / (is "tags")'],
  [
    { routes: [{ path: "/tags", methods: { get: () => 1 } }] },
    "get of /tags is not a method: write GET, POST, PUT, PATCH, DELETE",
  ],
  [{ routes: [{ path: "/tags", methods: { GET: "tags" } }] }, "GET of /tags must be a function"],
])("%j stops the start", (config, message) => {
  expect(() => made(config)).toThrow(message);
});

describe("content-service.config.ts", () => {
  const folderWith = (text: string | null) => {
    const folder = mkdtempSync(join(tmpdir(), "application-"));
    if (text !== null) writeFileSync(join(folder, "content-service.config.ts"), text);
    return folder;
  };

  test.each([
    [null, /is not an application: it has no content-service\.config\.ts$/],
    ["export const config = {};", /content-service\.config\.ts: it has no default export: write export default/],
    [
      "export default { resource: [] };",
      /config\.ts: resource is not a member of defineConfig; it has settings, seedAccounts, /,
    ],
    ["export default { parts: {} };", /config\.ts: parts must be a list$/],
    ["export default { parts: [null] };", /config\.ts: parts has an item that is no part: write definePart/],
    [
      "export default { parts: [{ rows: [] }] };",
      /rows is not a member of definePart; it has name, about, rules, environment, /,
    ],
    ['export default { parts: [{ name: "My Part" }] };', /must be lower-case words with hyphens \(is "My Part"\)$/],
    [
      'export default { parts: [{ name: "none", about: "x" }] };',
      /must be lower-case words with hyphens \(is "none"\)$/,
    ],
    ['export default { parts: [{ name: "notes" }] };', /the part notes says nothing in about$/],
    [
      'export default { parts: [{ name: "notes", about: "x", rules: "rules" }] };',
      /rules of the part notes must be a folder: /,
    ],
    [
      'const notes = { name: "notes", about: "notes" };\nexport default { parts: [notes, notes] };',
      /parts has two with the name notes: rename one of them, or leave it out$/,
    ],
    ['import "./missing.ts";\nexport default {};', /config\.ts(:\d+)?: Cannot find module .*missing\.ts/],
    ["\nthrow new Error('no notes');", /config\.ts:2: no notes$/],
  ])("%j is refused with the file, the line and what to do", async (text, message) => {
    await expect(loadApplication(folderWith(text))).rejects.toThrow(message);
  });

  test("is found in the folder that APPLICATION names", async () => {
    const folder = folderWith("export default { dialects: ['case'] };");
    const { application } = await configure({ environment: { APPLICATION: folder } });
    expect(application).toMatchObject({ folder, dialects: ["case"] });
  });

  test("is not needed: without it, the service has tables, GraphQL and realtime", async () => {
    const { application } = await configure({ environment: {} });
    expect(application).toMatchObject({ folder: null, resources: [] });
    expect(await application.plugins()).toEqual([]);
  });
});

describe("links in the console", () => {
  test("are paths of the service, or http and https URLs", () => {
    const links = [
      { name: "Reports", url: "/reports?of=today#top" },
      { name: "Grafana", url: "https://grafana.example.com/d/1" },
      { name: "Wiki", url: "http://wiki.internal" },
    ];
    const { consoleLinks } = made({ console: { links } });
    expect(consoleLinks).toEqual(links.map(({ name, url }) => ({ name, path: url })));
    const ofEnvironment = defineConfig({
      environment: { APP_WIKI: z.url() },
      console: ({ APP_WIKI }) => ({ links: [{ name: "Wiki", url: APP_WIKI }] }),
    });
    expect(made(ofEnvironment, { APP_WIKI: "https://wiki.example" }).consoleLinks).toEqual([
      { name: "Wiki", path: "https://wiki.example" },
    ]);
    expect(made({}).consoleLinks).toEqual([]);
  });

  test.each([
    ...[
      "javascript:alert(1)",
      "JavaScript:alert(1)",
      "data:text/html,x",
      "//other.example",
      "/\\\\other.example",
      "reports",
    ],
    ...["", "https://user:secret@example.com", "/a b", "java\nscript:alert(1)", "ftp://example.com", 7, null],
  ])("with the url %j are refused", (url) => {
    expect(() => made({ console: { links: [{ name: "Reports", url: url as string }] } })).toThrow(
      /: console\.links\[0\]: url must be a path, such as \/reports, or an http or https URL/,
    );
  });

  test.each(["", "  ", "a\nb", "x".repeat(101), 7])("with the name %j are refused", (name) => {
    expect(() => made({ console: { links: [{ name: name as string, url: "/" }] } })).toThrow(
      /: console\.links\[0\]: name must be a text of 1 to 100 characters on one line/,
    );
  });
});
