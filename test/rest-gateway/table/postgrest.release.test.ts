import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase } from "../../support/database.ts";
import { startPostgrest, whyNoPostgrest } from "../../support/postgrest.ts";
import { JWT_SECRET, startTestService } from "../../support/service.ts";
import { ask } from "./postgrest/compare.ts";
import { EMBEDS } from "./postgrest/embeds.ts";
import { FILTERS } from "./postgrest/filters.ts";
import { type ComparedRequest, nameOf } from "./postgrest/request.ts";

const missing = whyNoPostgrest();
if (missing) console.warn(`skipped the comparison with PostgREST, because ${missing}`);

const SCHEMA = readFileSync(new URL("./cinema.sql", import.meta.url), "utf8");

let theirs: string;
let ours: string;

// Both servers have the same settings and the same database.
beforeAll(async () => {
  if (missing) return;
  const database = await createTestDatabase();
  await database.owner.query(SCHEMA);
  const settings = {
    PGRST_DB_URI: database.url,
    PGRST_DB_SCHEMAS: "cinema, archive",
    PGRST_DB_ANON_ROLE: "anon",
    PGRST_DB_MAX_ROWS: "100",
    PGRST_DB_AGGREGATES_ENABLED: "true",
    PGRST_JWT_SECRET: JWT_SECRET,
    PGRST_SERVER_HOST: "127.0.0.1",
  };
  const service = await startTestService({ ...settings, GRAPHQL_DOCUMENTS: "none" }, database);
  const postgrest = await startPostgrest(settings);
  theirs = postgrest.address;
  ours = `${service.url}/rest/v1`;
  return async () => {
    await postgrest[Symbol.asyncDispose]();
    await service.stop();
  };
});

const GROUPS: Readonly<Record<string, readonly ComparedRequest[]>> = {
  filters: FILTERS,
  "embedded relations": EMBEDS,
};

// The query language alone, and not what differs on purpose (docs/tables.md): the other tests show both.
describe.skipIf(missing)("PostgREST 12.0.2 and this service return the same response", () => {
  describe.each(Object.entries(GROUPS))("for %s:", (_group, requests) => {
    test.each(requests.map((request) => [nameOf(request), request] as const))("to %s", async (_name, request) => {
      expect(await ask(ours, request)).toEqual(await ask(theirs, request));
    });
  });
});
