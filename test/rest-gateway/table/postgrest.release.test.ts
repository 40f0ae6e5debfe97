import { readFileSync } from "node:fs";
import jwt from "jsonwebtoken";
import { beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase } from "../../support/database.ts";
import { startPostgrest, whyNoPostgrest } from "../../support/postgrest.ts";
import { JWT_SECRET, startTestService } from "../../support/service.ts";
import { ask, type Side } from "./postgrest/compare.ts";
import { EMBEDS } from "./postgrest/embeds.ts";
import { FILTERS } from "./postgrest/filters.ts";
import { FUNCTIONS } from "./postgrest/functions.ts";
import { READS } from "./postgrest/reads.ts";
import { type Caller, type ComparedRequest, nameOf } from "./postgrest/request.ts";
import { SURROUNDINGS } from "./postgrest/surroundings.ts";
import { WRITES } from "./postgrest/writes.ts";

const missing = whyNoPostgrest();
if (missing) console.warn(`skipped the comparison with PostgREST, because ${missing}`);

const SCHEMA = readFileSync(new URL("./cinema.sql", import.meta.url), "utf8");
const sign = (claims: object, secret = JWT_SECRET) => jwt.sign(claims, secret, { expiresIn: 600 });
const TOKENS: Readonly<Record<Caller, string>> = {
  ada: sign({ role: "authenticated", sub: "1" }),
  bob: sign({ role: "authenticated", sub: "2" }),
  expired: jwt.sign({ role: "authenticated", exp: 1_000_000 }, JWT_SECRET),
  forged: sign({ role: "authenticated" }, "another secret that is long enough to be one"),
  "an unknown role": sign({ role: "unknown_role" }),
};

let theirs: Side;
let ours: Side;

// Both servers have the same settings and the same database, and roll back every write.
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
  theirs = { baseUrl: postgrest.address, tokens: TOKENS };
  ours = { baseUrl: `${service.url}/rest/v1`, tokens: TOKENS };
  return async () => {
    await postgrest[Symbol.asyncDispose]();
    await service.stop();
  };
});

const GROUPS: Readonly<Record<string, readonly ComparedRequest[]>> = {
  reads: READS,
  filters: FILTERS,
  "embedded relations": EMBEDS,
  writes: WRITES,
  "function calls": FUNCTIONS,
  "callers, schemas and methods": SURROUNDINGS,
};

// Not what differs on purpose, which the other tests show: docs/tables.md, Differences from PostgREST.
describe.skipIf(missing)("PostgREST 12.0.2 and this service return the same response", () => {
  describe.each(Object.entries(GROUPS))("for %s:", (_group, requests) => {
    test.each(requests.map((request) => [nameOf(request), request] as const))("to %s", async (_name, request) => {
      // In sequence, because both write the same rows.
      const their = await ask(theirs, request);
      const our = await ask(ours, request);
      expect(our).toEqual(their);
    });
  });
});
