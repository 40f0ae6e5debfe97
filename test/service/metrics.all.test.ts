import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { nodeStart } from "../support/command.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let service: TestService;
beforeAll(async () => {
  const settings = { METRICS: "on", metricsMaxOperations: 2 };
  // On a busy machine, a thousand requests may wait longer than by default.
  service = await startTestService({ ...settings, dbPoolTimeout: 60_000 }, undefined, undefined, undefined, {
    buildsGraphQL: true,
  });
  return () => service.stop();
});

const text = async () => (await fetch(`${service.url}/metrics`)).text();

/** `seriesOf("http_requests_total")` → `{ '{method="GET",route="/users",status="200"}': 3 }` */
async function seriesOf(name: string): Promise<Record<string, number>> {
  const lines = (await text()).split("\n").filter((line) => line.startsWith(`content_service_${name}`));
  return Object.fromEntries(
    lines.map((line) => {
      const [, labels = "", value] = /^\w+(\{.*\})? (\S+)$/.exec(line)!;
      return [labels, Number(value)];
    }),
  );
}

/** Sends the requests on a few connections, without waiting for each response, and resolves to their statuses. */
async function sendAll(paths: readonly string[], connections = 4): Promise<string[]> {
  const { hostname, port } = new URL(service.url);
  const apikey = service.service.tokens.issueKey("anon");
  const send = (mine: readonly string[]) =>
    new Promise<string[]>((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port) });
      let received = "";
      socket.setEncoding("latin1").on("data", (chunk) => {
        received += chunk;
      });
      socket
        .on("error", reject)
        .on("end", () => resolve([...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, code]) => code!)));
      const requests = mine.map((path, i) => {
        const last = i === mine.length - 1 ? "Connection: close\r\n" : "";
        return `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\napikey: ${apikey}\r\n${last}\r\n`;
      });
      socket.write(requests.join(""));
    });
  const parts = Array.from({ length: connections }, (_, i) => paths.filter((_, at) => at % connections === i));
  return (await Promise.all(parts.map(send))).flat();
}

test("promtool finds no fault in the metrics", async (context) => {
  context.skip(!existsSync("/usr/bin/promtool"), "promtool is not installed: apt-get install prometheus");
  await sendAll(["/users", "/rest/v1/articles", "/nothing"]);
  await service.gql("query Names { users { name } }");
  execFileSync("promtool", ["check", "metrics"], { input: await text(), stdio: ["pipe", "inherit", "inherit"] });
});

test("1,000 requests add 1,000", async () => {
  const label = '{method="GET",route="/users/{id}",status="200"}';
  const before = await seriesOf("http_requests_total");
  const count = async () =>
    (await seriesOf("http_request_duration_seconds_count"))['{method="GET",route="/users/{id}"}'] ?? 0;
  const counted = await count();
  const statuses = await sendAll(Array.from({ length: 1000 }, (_, i) => `/users/${1 + (i % 3)}`));
  expect(new Set(statuses)).toEqual(new Set(["200"]));
  await expect.poll(async () => (await seriesOf("http_requests_total"))[label], POLL).toBe((before[label] ?? 0) + 1000);
  expect(await count()).toBe(counted + 1000);
});

test("10,000 random URLs add no series", async () => {
  const kinds = "/rest/v1/ /rest/v1/rpc/ /users/ /articles/ /tasks/ /api/v2/users/ /auth/keys/ /docs/ /".split(" ");
  const random = (count: number) =>
    Array.from({ length: count }, (_, i) => `${kinds[i % kinds.length]}${crypto.randomUUID().replaceAll("-", "/")}`);
  await sendAll([
    ...random(kinds.length),
    ...kinds.map((kind) => kind + crypto.randomUUID()),
    "/users/7/x",
    "/articles/1/users/2",
  ]);
  const series = async () => (await text()).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const names = async () => (await series()).map((line) => line.replace(/ \S+$/, ""));
  // Its caches have series once it is built.
  await service.gql("{ __typename }");
  const before = await names();
  expect(await sendAll(random(10_000))).toHaveLength(10_000);
  expect(await names()).toEqual(before);
});

test("GraphQL operations are measured by name, and those above metricsMaxOperations as other", async () => {
  for (const name of ["Names", "Second", "Third", "Fourth"]) await service.gql(`query ${name} { users { name } }`);
  await service.gql("{ users { name } }");
  const counts = await seriesOf("graphql_operation_duration_seconds_count");
  expect(Object.keys(counts).sort()).toEqual(
    ["Names", "Second", "anonymous", "other"].map((name) => `{kind="query",operation="${name}"}`),
  );
  expect(counts['{kind="query",operation="other"}']).toBe(2);
});

test("queries that are not compiled to one SQL statement are counted by reason", async () => {
  const before = await seriesOf("graphql_uncompiled_queries_total");
  await service.gql("{ articles(last: 1) { edges { node { id } } } }");
  await service.gql('{ search(keyword: "title") { __typename } }');
  await service.gql("{ users { name } }");
  const after = await seriesOf("graphql_uncompiled_queries_total");
  const more = Object.entries(after).filter(([labels, count]) => count !== before[labels]);
  expect(more.map(([labels]) => labels).sort()).toEqual(['{reason="field"}', '{reason="page"}']);
});

test("errors are counted by code, limits by setting, and database waits by pool", async () => {
  const limited = await startTestService({ METRICS: "on", RATE_LIMIT: "2", GRAPHQL_DOCUMENTS: "none" });
  onTestFinished(() => limited.stop());
  for (const _ of [1, 2, 3]) await (await fetch(`${limited.url}/users/999999`)).text();
  const all = await (await fetch(`${limited.url}/metrics`)).text();
  expect(all).toContain('content_service_errors_total{code="USER_NOT_FOUND"} 2');
  expect(all).toContain('content_service_errors_total{code="RATE_LIMITED"} 1');
  expect(all).toContain('content_service_limits_hit_total{limit="RATE_LIMIT"} 1');
  expect(all).toContain('content_service_db_round_trips_total{pool="data"} 2');
  expect(all).toContain('content_service_db_transaction_duration_seconds_count{pool="data"} 2');
});

test("quick reads of tables, users, functions and GraphQL that arrive together share round trips, but not behind a pooler", async () => {
  const withFunctions = async (database: TestDatabase) => {
    await database.owner.query(`
      create function add(a int, b int) returns int language sql immutable return a + b;
      create function longest() returns text language sql stable begin atomic select max(title) from articles; end;
      create function latest() returns text language sql volatile begin atomic select max(title) from articles; end;
      create function with_setting() returns text language sql stable as $$ select set_config('app.left', 'behind', false) $$;
      grant execute on all functions in schema public to anon;`);
    return database;
  };
  const shares = await startTestService(
    { METRICS: "on", dbSharedReads: 100 },
    await withFunctions(await createTestDatabase()),
  );
  onTestFinished(() => shares.stop());
  const database = await withFunctions(await createTestDatabase());
  const pooled = { METRICS: "on", DATABASE_URL: database.url, DATABASE_DIRECT_URL: database.url };
  const separate = await startTestService(pooled, database);
  onTestFinished(() => separate.stop());

  const sharedBy = async ({ url }: TestService) => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return Number(/content_service_db_shared_reads_total\{pool="data"\} (\d+)/.exec(metrics)![1]);
  };
  const headers = { apikey: shares.service.tokens.issueKey("anon"), "content-type": "application/json" };
  const body = JSON.stringify({ query: "{ article(id: 1) { id title author { name } } }" });
  const requests: readonly [path: string, init: RequestInit][] = [
    ["/rest/v1/articles?id=eq.1", { headers }],
    ["/users/1", {}],
    ["/graphql", { method: "POST", headers, body }],
    ["/rest/v1/rpc/add", { method: "POST", headers, body: '{"a":1,"b":2}' }],
    ["/rest/v1/rpc/longest", { headers }],
  ];
  const burst = async (to: TestService, path: string, init: RequestInit) => {
    const before = await sharedBy(to);
    const responses = await Promise.all(Array.from({ length: 20 }, () => fetch(`${to.url}${path}`, init)));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
    for (const response of responses) expect(await response.text()).not.toContain('"errors"');
    return (await sharedBy(to)) - before;
  };
  for (const [path, init] of requests) {
    await expect.poll(() => burst(shares, path, init), POLL).toBeGreaterThan(1);
    for (let i = 0; i < 5; i++) expect(await burst(separate, path, init)).toBe(0);
  }
  for (const name of ["latest", "with_setting"]) {
    const init = { method: "POST", headers, body: "{}" };
    for (let i = 0; i < 5; i++) expect(await burst(shares, `/rest/v1/rpc/${name}`, init)).toBe(0);
  }
});

test("subscriptions to changes are counted, and the changes that were read by operation", async () => {
  const headers = { apikey: service.service.tokens.issueKey("anon") };
  const stream = new EventStreamClient(`${service.url}/rest/v1/articles?select=id`, { headers });
  await expect.poll(() => seriesOf("changes_subscriptions"), POLL).toEqual({ "": 1 });
  await stream.take(1, "snapshot");
  await service.database.owner.query("update articles set title = title || '.' where id = 1");
  await stream.take(1, "UPDATE");
  expect(await seriesOf("changes_received_total")).toMatchObject({ '{operation="UPDATE"}': 1 });
  expect(Object.keys(await seriesOf("changes_lag"))).toEqual([""]);
  stream.close();
  await expect.poll(() => seriesOf("changes_subscriptions"), POLL).toEqual({ "": 0 });
});

/** The metrics that exist, with their meaning. */
const described = async () =>
  new Map([...(await text()).matchAll(/^# HELP (\w+) (.*)$/gm)].map(([, name, about]) => [name!, about!]));

test("docs/operations.md lists every metric with its meaning, and those of PostgREST with another prefix", async () => {
  const documentation = readFileSync("docs/operations.md", "utf8");
  await sendAll(["/users"]);
  const rows = [...(await described())].map(([name, about]) => `| \`${name}\` | ${about} |`);
  expect(rows.filter((row) => !documentation.includes(row))).toEqual([]);
  expect(documentation).toMatch(/replace `pgrst_` with\s`content_service_`/);
  for (const name of POSTGREST) expect(documentation).toContain(`| \`content_service_${name}\` |`);
});

test("alerts and dashboard use only metrics that exist, and each alert has a section in docs/operations.md", async () => {
  const alerts = readFileSync("deploy/prometheus/alerts.yaml", "utf8");
  const dashboard = readFileSync("deploy/grafana/dashboard.json", "utf8");
  const known = new Set([...(await described()).keys(), "content_service_limits_hit_total"]);
  // Measured by the process, and not in the service of a test.
  const ofProcess = readFileSync("telemetry/process.ts", "utf8");
  const used = [...(alerts + dashboard).matchAll(/\b(content_service|process|nodejs)_\w+/g)].map(([name]) => name);
  const base = (name: string) => name.replace(/_(bucket|sum|count)$/, "");
  expect(used.filter((name) => !known.has(base(name)) && !ofProcess.includes(`"${name}"`))).toEqual([]);

  const documentation = readFileSync("docs/operations.md", "utf8");
  const names = [...alerts.matchAll(/alert: (\w+)/g)].map(([, name]) => name!);
  expect([...documentation.matchAll(/^### (ContentService\w+)$/gm)].map(([, name]) => name)).toEqual(names);
  for (const name of names) expect(alerts).toContain(`runbook: docs/operations.md#${name.toLowerCase()}`);
  expect(JSON.parse(dashboard).panels.length).toBeGreaterThan(10);
});

test("the query in docs/operations.md shows the replication slot of the service", async () => {
  const [, query] = /^```sql\n(select slot_name[\s\S]*?)^```$/m.exec(readFileSync("docs/operations.md", "utf8"))!;
  const slots = async () => (await service.database.owner.query(query!)).rows;
  await expect
    .poll(slots, POLL)
    .toEqual([
      expect.objectContaining({ slot_name: expect.stringMatching(/^content_\d+_t_/), wal_status: "reserved" }),
    ]);
});

test("promtool finds no fault in the alert rules", (context) => {
  context.skip(!existsSync("/usr/bin/promtool"), "promtool is not installed: apt-get install prometheus");
  const output = execFileSync("promtool", ["check", "rules", "deploy/prometheus/alerts.yaml"], { encoding: "utf8" });
  expect(output).toContain("SUCCESS");
  execFileSync("promtool", ["check", "config", "deploy/prometheus/prometheus.yaml"], { stdio: "pipe" });
  const [, documented] = /^```yaml\n(groups:[\s\S]*?)^```$/m.exec(readFileSync("docs/operations.md", "utf8"))!;
  const folder = mkdtempSync(join(tmpdir(), "rules-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "rules.yaml"), documented!);
  execFileSync("promtool", ["check", "rules", join(folder, "rules.yaml")], { stdio: "pipe" });
});

/** Source: PostgREST docs, "Observability", Metrics. */
const POSTGREST = [
  ...["schema_cache_query_time_seconds", "schema_cache_loads_total"],
  ...["db_pool_timeouts_total", "db_pool_available", "db_pool_waiting", "db_pool_max"],
  ...["jwt_cache_requests_total", "jwt_cache_hits_total", "jwt_cache_evictions_total"],
];

describe("ADMIN_PORT", () => {
  test("has probes, metrics, the masked settings and the schema, which are then not on PORT", async () => {
    const database = await createTestDatabase();
    const port = await findFreePort();
    const secret = new URL(database.url);
    secret.password = "scratch";
    const settings = {
      ADMIN_PORT: String(port),
      PARTS: "+console",
      GRAPHQL_DOCUMENTS: "none",
      DATABASE_URL: secret.href,
      MFA_KEY: "m".repeat(40),
      MAIL_URL: `https://example.com/mails#whsec_${"w".repeat(32)}`,
    };
    const admin = await startTestService(settings, database);
    onTestFinished(() => admin.stop());
    const url = `http://127.0.0.1:${port}`;
    const paths = ["/live", "/ready", "/health", "/metrics", "/config", "/schema_cache", "/console/sign-in"];
    for (const path of paths) {
      expect([path, (await fetch(url + path)).status, (await fetch(admin.url + path)).status]).toEqual([
        path,
        200,
        404,
      ]);
    }
    expect((await fetch(`${url}/users`)).status).toBe(404);
    const page = await (await fetch(`${url}/console/sign-in`)).text();
    expect(page).toContain('<a href="/console" aria-current="page">Console</a>');
    const config = await (await fetch(`${url}/config`)).text();
    for (const hidden of [JWT_SECRET, "scratch", "m".repeat(40), "w".repeat(32)]) expect(config).not.toContain(hidden);
    expect(JSON.parse(config)).toMatchObject({ JWT_SECRET: "********", ADMIN_PORT: port, DB_POOL: 10 });
    const { schemas } = (await (await fetch(`${url}/schema_cache`)).json()) as any;
    expect(schemas.public.tables.articles.primaryKey).toEqual(["id"]);
  });
});

test("a start with ADMIN_PORT prints the URLs of the health and the console there", async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const admin = `http://127.0.0.1:${await findFreePort()}`;
  const settings = { DATABASE_URL: database.url, JWT_SECRET, PARTS: "+console", ADMIN_PORT: new URL(admin).port };
  const command = nodeStart({ dataDir: join(tmpdir(), "unused", database.name), settings });
  await command.ready();
  const { banner } = command;
  expect([banner.get("Health"), banner.get("Console")]).toEqual([`${admin}/health`, `${admin}/console`]);
  for (const name of ["Health", "Console"]) expect((await fetch(banner.get(name)!)).status).toBe(200);
});

describe("with DATABASE_URL and without ADMIN_PORT", () => {
  test("/metrics is off, and settings and schema need the service key or an administrator", async () => {
    const other = await startTestService({ GRAPHQL_DOCUMENTS: "none" });
    onTestFinished(() => other.stop());
    const statuses = (headers: Record<string, string> = {}) =>
      Promise.all(
        ["/metrics", "/config", "/schema_cache"].map(
          async (path) => (await fetch(other.url + path, { headers })).status,
        ),
      );
    expect(await statuses()).toEqual([404, 401, 401]);
    expect(await statuses({ authorization: `Bearer ${other.token("ada")}` })).toEqual([404, 401, 401]);
    expect(await statuses({ authorization: `Bearer ${other.token("admin")}` })).toEqual([404, 200, 200]);
    const apikey = other.service.tokens.issueKey("service_role");
    expect(await statuses({ apikey })).toEqual([404, 200, 200]);
    expect(await statuses({ apikey, "sec-fetch-site": "cross-site" })).toEqual([404, 403, 403]);
    expect((await fetch(`${other.url}/ready`)).status).toBe(200);
  });
});
