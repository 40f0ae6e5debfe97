import { readFileSync } from "node:fs";
import jwt from "jsonwebtoken";
import { beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase } from "../../support/database.ts";
import { startPostgrest, whyNoPostgrest } from "../../support/postgrest.ts";
import { JWT_SECRET, startTestService } from "../../support/service.ts";
import { ask, differencesOf, type Side } from "./postgrest/answered.ts";
import { type Asked, type Caller, nameOf } from "./postgrest/asked.ts";
import { DIFFERENCES } from "./postgrest/differences.ts";
import { EMBEDS } from "./postgrest/embeds.ts";
import { FILTERS } from "./postgrest/filters.ts";
import { FUNCTIONS } from "./postgrest/functions.ts";
import { READS } from "./postgrest/reads.ts";
import { SURROUNDINGS } from "./postgrest/surroundings.ts";
import { WRITES } from "./postgrest/writes.ts";

const missing = whyNoPostgrest();
if (missing) console.warn(`skipped: the same answers as PostgREST, because ${missing}`);

const SCHEMA = readFileSync(new URL("./cinema.sql", import.meta.url), "utf8");
const sign = (claims: object, secret = JWT_SECRET) => jwt.sign(claims, secret, { expiresIn: 600 });
const TOKENS: Readonly<Record<Caller, string>> = {
  ada: sign({ role: "authenticated", sub: "1" }),
  bob: sign({ role: "authenticated", sub: "2" }),
  expired: jwt.sign({ role: "authenticated", exp: 1_000_000 }, JWT_SECRET),
  forged: sign({ role: "authenticated" }, "another secret that is long enough to be one"),
  "a role that is none": sign({ role: "nobody_at_all" }),
};

let theirs: Side;
let ours: Side;

// The same settings for both, on the same database: whatever is written is undone.
beforeAll(async () => {
  if (missing) return;
  const database = await createTestDatabase();
  await database.owner.query(SCHEMA);
  const settings = {
    PGRST_DB_URI: database.url,
    PGRST_DB_SCHEMAS: "cinema, archive",
    PGRST_DB_ANON_ROLE: "anon",
    PGRST_DB_MAX_ROWS: "100",
    PGRST_DB_TX_END: "rollback-allow-override",
    PGRST_DB_AGGREGATES_ENABLED: "true",
    PGRST_JWT_SECRET: JWT_SECRET,
    PGRST_DB_PRE_REQUEST: "cinema.check_request",
    PGRST_APP_SETTINGS_TENANT: "lumiere",
    PGRST_SERVER_HOST: "127.0.0.1",
  };
  const service = await startTestService({ ...settings, GRAPHQL_MAX_TABLES: "0" }, database);
  const postgrest = await startPostgrest(settings);
  theirs = { address: postgrest.address, tokens: TOKENS };
  ours = { address: `${service.url}/rest/v1`, tokens: TOKENS };
  return async () => {
    await postgrest[Symbol.asyncDispose]();
    await service.stop();
  };
});

const GROUPS: Readonly<Record<string, readonly Asked[]>> = {
  "what is read": READS,
  "which rows are read": FILTERS,
  "what is embedded": EMBEDS,
  "what is written": WRITES,
  "what is called": FUNCTIONS,
  "who asks, and for what": SURROUNDINGS,
};

const wanted = new Map(
  DIFFERENCES.flatMap(({ differs, requests }) => requests.map((name) => [name, differs] as const)),
);

describe.skipIf(missing)("PostgREST 12.0.2 and ours answer the same:", () => {
  describe.each(Object.entries(GROUPS))("%s", (_group, requests) => {
    test.each(requests.map((asked) => [nameOf(asked), asked] as const))("%s", async (name, asked) => {
      // One after the other: both write the same rows.
      const their = await ask(theirs, asked);
      const our = await ask(ours, asked);
      const expected = wanted.get(name);
      if (expected) expect(differencesOf(their, our)).toEqual(expected);
      else expect(our).toEqual(their);
    });
  });
});

test("each request is asked once, and each wanted difference is of one of them", () => {
  const names = Object.values(GROUPS).flat().map(nameOf);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  expect([...wanted.keys()].filter((name) => !names.includes(name))).toEqual([]);
  expect(wanted.size).toBe(DIFFERENCES.flatMap(({ requests }) => requests).length);
});
