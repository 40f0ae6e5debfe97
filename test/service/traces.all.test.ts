import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "graphql-ws";
import { afterAll, beforeAll, expect, test } from "vitest";
import WebSocket from "ws";
import { type Command, nodeRun, nodeStart } from "../support/command.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type ReceivedSpan, type Receiver, startReceiver } from "../support/otlp-receiver.ts";
import { JWT_SECRET } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

let receiver: Receiver;
let database: TestDatabase;
let folder: string;
let service: Command;
beforeAll(async () => {
  receiver = await startReceiver();
  database = await createTestDatabase();
  folder = mkdtempSync(join(tmpdir(), "content-service-traces-"));
  service = nodeStart({
    dataDir: join(folder, "data"),
    shared: true,
    settings: {
      DATABASE_URL: database.url,
      JWT_SECRET,
      API_KEY_REQUIRED: "off",
      LOG_LEVEL: "debug",
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_BSP_SCHEDULE_DELAY: "50",
      OTEL_SERVICE_NAME: "content-of-the-test",
    },
  });
  await service.ready();
});
afterAll(async () => {
  await service.end();
  receiver.close();
  await database.drop();
  rmSync(folder, { recursive: true });
});

/** Sends a request as a part of a trace, and resolves to the spans of that trace when its root has arrived. */
async function trace(path: string, traceId: string, init: RequestInit = {}): Promise<ReceivedSpan[]> {
  const headers = { traceparent: `00-${traceId}-${PARENT}-01`, "x-request-id": `of-${traceId.slice(0, 8)}` };
  const response = await fetch(service.url + path, { ...init, headers: { ...headers, ...init.headers } });
  await response.text();
  const ofTrace = () => receiver.spans.filter((span) => span.traceId === traceId);
  await expect.poll(() => ofTrace().some(({ parent }) => parent === PARENT), POLL).toBe(true);
  return ofTrace();
}

/** The names of the spans, each below that of its parent: `request > transaction`. */
const pathsOf = (spans: readonly ReceivedSpan[]) => {
  const byId = new Map(spans.map((span) => [span.id, span]));
  const pathOf = (span: ReceivedSpan): string => {
    const parent = byId.get(span.parent);
    return parent ? `${pathOf(parent)} > ${span.name}` : span.name;
  };
  return spans.map(pathOf).sort();
};

test("a table request is one trace: the request, its stages, the wait for a connection and the round trip", async () => {
  const spans = await trace("/rest/v1/articles?select=title&id=eq.1", TRACE);
  const request = "GET /rest/v1/{table}";
  expect(pathsOf(spans)).toEqual(
    [
      request,
      ...["jwt", "parse", "plan", "response", "transaction", "wait"].map((name) => `${request} > ${name}`),
    ].sort(),
  );
  const root = spans.find(({ name }) => name === request)!;
  expect(root).toMatchObject({ parent: PARENT, service: "content-of-the-test", failed: false });
  expect(root.attributes).toMatchObject({
    "http.request.method": "GET",
    "http.route": "/rest/v1/{table}",
    "http.response.status_code": "200",
    "url.path": "/rest/v1/articles",
    "request.id": `of-${TRACE.slice(0, 8)}`,
  });
  const { attributes } = spans.find(({ name }) => name === "transaction")!;
  expect(attributes).toMatchObject({ "db.system.name": "postgresql", "db.role": "anon" });
  expect(attributes["db.query.text"]).toContain('from "public"."articles"');
});

test("GraphQL operations and resources are traced too", async () => {
  const body = JSON.stringify({ query: "{ users { id } }" });
  const graphql = await trace("/graphql", `1${TRACE.slice(1)}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  expect(pathsOf(graphql)).toEqual(
    ["", " > compile", " > parse", " > transaction", " > wait"].map((name) => `POST /graphql${name}`),
  );
  const [parse, compile, wait] = ["parse", "compile", "wait"].map(
    (stage) => graphql.find(({ name }) => name === stage)!,
  );
  expect(parse!.start <= compile!.start && compile!.start <= wait!.start).toBe(true);
  const user = await trace("/users/1", `2${TRACE.slice(1)}`);
  expect(pathsOf(user)).toEqual(["", " > parse", " > transaction", " > wait"].map((name) => `GET /users/{id}${name}`));
});

test("a sign-in is traced with each of its round trips", async () => {
  const body = JSON.stringify({ username: "ada", password: "wrong" });
  const headers = { "content-type": "application/json" };
  const spans = await trace("/auth/login", `7${TRACE.slice(1)}`, { method: "POST", headers, body });
  expect(new Set(pathsOf(spans))).toEqual(
    new Set(["", " > transaction", " > wait"].map((name) => `POST /auth/login${name}`)),
  );
  const { attributes } = spans.find(({ name }) => name === "transaction")!;
  expect(attributes["db.query.text"]).toContain("auth_api.");
});

test("a sign-in takes two round trips and a refresh one, on both wires", async () => {
  const headers = { "content-type": "application/json" };
  const post = async (path: string, id: string, body: object) => {
    const traceId = `${id}${TRACE.slice(2)}`;
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    const spans = await trace(path, traceId, init);
    expect(spans.find(({ parent }) => parent === PARENT)!.attributes["http.response.status_code"]).toBe("200");
    return spans.filter(({ name }) => name === "transaction").length;
  };
  const password = "Correct-Horse-7!";
  const tokens = async (path: string, body: object): Promise<any> =>
    (await fetch(service.url + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
  const { refreshToken } = await tokens("/auth/login", { username: "ada", password });
  const { refresh_token } = await tokens("/auth/v1/token?grant_type=password", { email: "ada@example.com", password });
  expect([
    await post("/auth/login", "a1", { username: "ada", password }),
    await post("/auth/refresh", "a2", { refreshToken }),
    await post("/auth/v1/token?grant_type=password", "a3", { email: "ada@example.com", password }),
    await post("/auth/v1/token?grant_type=refresh_token", "a4", { refresh_token }),
  ]).toEqual([2, 1, 2, 1]);
});

test("GraphQL operations on a WebSocket are traced, and of a subscription its start", async () => {
  const traceId = `8${TRACE.slice(1)}`;
  class TracedSocket extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { headers: { traceparent: `00-${traceId}-${PARENT}-01` } });
    }
  }
  const client = createClient({ url: `${service.url.replace("http", "ws")}/graphql`, webSocketImpl: TracedSocket });
  const names = () => pathsOf(receiver.spans.filter((span) => span.traceId === traceId));
  try {
    const { value } = await client.iterate({ query: "query Names { users { id } }" }).next();
    expect(value.errors).toBeUndefined();
    const operation = "query Names";
    const parts = ["compile", "transaction", "wait"].map((name) => `${operation} > ${name}`);
    await expect.poll(names, POLL).toEqual([operation, ...parts]);
    const events = client.iterate({ query: "subscription { onArticleCreated { id } }" });
    void events.next();
    await expect.poll(names, POLL).toEqual([operation, ...parts, "subscription"]);
  } finally {
    await client.dispose();
  }
});

test("the response continues the trace, and log and pg_stat_activity have its id", async () => {
  await database.owner.query(
    "create function public.whoami() returns text language sql volatile as $$ select current_setting('application_name') $$; grant execute on function public.whoami() to anon",
  );
  const traceId = `3${TRACE.slice(1)}`;
  const headers = { traceparent: `00-${traceId}-${PARENT}-01`, "x-request-id": "request-4711" };
  const call = () => fetch(`${service.url}/rest/v1/rpc/whoami`, { method: "POST", headers });
  await expect.poll(async () => (await call()).status, POLL).toBe(200);
  const response = await call();
  expect(response.headers.get("traceresponse")).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  expect(await response.json()).toBe(`${traceId} request-4711`);
  const logged = () =>
    service.logged.filter(({ requestId }) => requestId === "request-4711").map((line) => line.traceId);
  await expect.poll(logged, POLL).toContain(traceId);
});

test("an error fails its span, and a trace that the client does not record is not sent", async () => {
  const traceId = `4${TRACE.slice(1)}`;
  const spans = await trace("/rest/v1/articles?id=eq.x", traceId);
  expect(spans.find(({ name }) => name === "transaction")!.failed).toBe(true);
  expect(spans.find(({ parent }) => parent === PARENT)!.attributes).toMatchObject({ "error.type": "22P02" });
  const unsampled = `5${TRACE.slice(1)}`;
  await fetch(`${service.url}/users/1`, { headers: { traceparent: `00-${unsampled}-${PARENT}-00` } });
  await trace("/users/2", `6${TRACE.slice(1)}`);
  expect(receiver.spans.filter((span) => span.traceId === unsampled)).toEqual([]);
});

test("a variable of OpenTelemetry with a value that is not supported is one clear line and exit code 1", async () => {
  const settings = { DATABASE_URL: database.url, JWT_SECRET, OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url };
  const command = nodeRun("start", {
    dataDir: join(folder, "data"),
    settings: { ...settings, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
  });
  expect(await command.exited()).toBe(1);
  expect(command.logged.map(({ msg }) => msg)).toEqual([
    'the service cannot start: OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf (is "grpc")',
  ]);
});
