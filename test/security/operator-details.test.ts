import { request } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readConfig } from "../../config/config.ts";
import { createLog } from "../../http/pipeline/log.ts";
import { type Service, startService } from "../../service/start.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

/** Sends these headers as they are; `fetch` would replace Host and refuse Sec-Fetch-Site. */
async function get(url: string, headers: Readonly<Record<string, string>> = {}) {
  const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
    request(url, { headers }, resolve).on("error", reject).end();
  });
  return { status: response.statusCode!, json: JSON.parse(await text(response)) };
}

const LEAK = "create table if not exists rates (id int primary key, rate int); grant select on rates to anon";
const STATUS_ONLY = { status: 200, json: { status: "ok" } };

describe("/health of a service with the embedded database", () => {
  let database: TestDatabase;
  let service: Service;
  beforeAll(async () => {
    database = await createTestDatabase();
    await database.owner.query(LEAK);
    const environment = { DATABASE_URL: database.url, JWT_SECRET, PORT: "0", LOG_LEVEL: "silent", SEED: "none" };
    // The test's own server instead of one that the service would start.
    const config = { ...readConfig({ ...environment, TASK_CONCURRENCY: "0" }), embedded: true };
    service = await startService(config, createLog("silent"));
    return async () => {
      await service.stop();
      await database.drop();
    };
  });

  const details = expect.objectContaining({
    advisor: expect.objectContaining({
      findings: expect.arrayContaining([expect.stringContaining("public.rates")]),
    }),
  });

  test("lists the advisor's findings to a program on this machine", async () => {
    await expect.poll(() => get(`${service.url}/health`)).toEqual({ status: 200, json: { status: "ok", details } });
  });

  test.each<[string, Record<string, string>]>([
    ["a page of another site", { origin: "https://evil.example" }],
    ["a page of another site, whose browser says so", { "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors" }],
    ["a name that resolves to this machine", { host: "evil.example" }],
    ["a proxy on this machine", { "x-forwarded-for": "203.0.113.7" }],
    ["a proxy that says where it got the request", { forwarded: "for=203.0.113.7" }],
    ["an unknown credential behind a proxy", { "x-forwarded-for": "203.0.113.7", apikey: "cs_service_unknown" }],
  ])("has the status only for %s", async (_, headers) => {
    expect(await get(`${service.url}/health`, headers)).toEqual(STATUS_ONLY);
  });

  test("lists them to an operator behind a proxy", async () => {
    const headers = { "x-forwarded-for": "203.0.113.7", apikey: service.tokens.issueKey("service_role") };
    expect((await get(`${service.url}/health`, headers)).json).toEqual({ status: "ok", details });
  });

  test("gives each caller as much as /config does", async () => {
    const requests: Record<string, string>[] = [{}, { host: "evil.example" }, { origin: "https://evil.example" }];
    for (const headers of requests) {
      const mayRead = (await get(`${service.url}/config`, headers)).status === 200;
      expect("details" in (await get(`${service.url}/health`, headers)).json).toBe(mayRead);
    }
  });
});

describe("/health of a service with DATABASE_URL", () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({ RATE_LIMIT: "3" });
  });
  afterAll(() => service.stop());

  test("has details for operators only, also for programs on the same machine", async () => {
    expect(await get(`${service.url}/health`)).toEqual(STATUS_ONLY);
    const authorization = `Bearer ${service.token("ada")}`;
    expect(await get(`${service.url}/health`, { authorization })).toEqual(STATUS_ONLY);
    expect((await service.health()).details).toMatchObject({ changes: {} });
  });

  test("is limited like other requests if it has a credential, which must be verified", async () => {
    const statuses = [];
    for (let i = 0; i < 4; i++)
      statuses.push((await get(`${service.url}/health`, { apikey: `cs_service_${i}` })).status);
    expect(statuses).toContain(429);
    expect(await get(`${service.url}/health`)).toEqual(STATUS_ONLY);
  });
});
