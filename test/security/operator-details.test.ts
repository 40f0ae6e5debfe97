import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { createLog } from "../../gate/pipeline/log.ts";
import { type Service, startService } from "../../server.ts";
import { readConfig } from "../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

type Headers = Readonly<Record<string, string>>;

/** Sends these headers as they are; `fetch` would replace Host and refuse Sec-Fetch-Site. */
async function getText(url: string, headers: Headers) {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, { headers }, resolve).on("error", reject).end();
  });
  return { status: response.statusCode!, text: await text(response) };
}

async function get(url: string, headers: Headers = {}) {
  const response = await getText(url, headers);
  return { status: response.status, json: JSON.parse(response.text) };
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

describe("ADMIN_PORT", () => {
  let service: TestService;
  let url: string;
  beforeAll(async () => {
    const port = await findFreePort();
    url = `http://127.0.0.1:${port}`;
    service = await startTestService({ ADMIN_PORT: String(port), ADMIN_HOST: "127.0.0.1", GRAPHQL_DOCUMENTS: "none" });
  });
  afterAll(() => service.stop());

  /** Of /config and /schema_cache, and whether /health has details. */
  async function readable(headers: Headers) {
    const [config, schema, health] = await Promise.all(
      ["/config", "/schema_cache", "/health"].map((path) => get(url + path, headers)),
    );
    return [config!.status, schema!.status, "details" in health!.json];
  }

  test.each(["127.0.0.1:3001", "10.1.2.3", "[::1]:3001", "localhost", "LOCALHOST:3001", "service:3001"])(
    "describes the service to requests for %s, which no other site can be",
    async (host) => expect(await readable({ host })).toEqual([200, 200, true]),
  );

  test("describes it to requests for another name only with the service key, so that a site cannot read it under a name of its own", async () => {
    const host = "evil.example:3001";
    expect(await readable({ host })).toEqual([401, 401, false]);
    expect(JSON.stringify(await get(`${url}/config`, { host }))).toContain("IP address, localhost");
    expect(await readable({ host, apikey: service.service.tokens.issueKey("service_role") })).toEqual([200, 200, true]);
  });

  test("answers probes, and Prometheus at /metrics, for any name", async () => {
    for (const path of ["/live", "/ready", "/health"])
      expect((await get(url + path, { host: "content.monitoring.svc.cluster.local" })).status).toBe(200);
    const metrics = await getText(`${url}/metrics`, { host: "content.monitoring.svc.cluster.local" });
    expect(metrics).toEqual({ status: 200, text: expect.stringContaining("content_service_errors_total") });
  });
});
