import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { healthInterface } from "../../gate/operations/health.ts";
import type { OperatorAccess } from "../../gate/operations/operator.ts";
import {
  type AlwaysOnInterface,
  type HttpEnvelope,
  type HttpInterface,
  Pipeline,
  type ServiceState,
} from "../../gate/pipeline/pipeline.ts";
import { GRAPHQL } from "../../graphql/transport/envelope.ts";
import { ExpressInterface, REST } from "../../rest-gateway/express-interface.ts";
import { TABLES } from "../../rest-gateway/table/send.ts";
import { httpRoutes } from "../../service/routes.ts";
import { anonymousCallers } from "../support/callers.ts";

/** The HTTP side of the service in this state, without a database. */
async function serve(
  state: ServiceState,
  ping: () => Promise<void> = async () => {},
  fault: string | null = null,
  openTo: OperatorAccess["openTo"] = "admin port",
): Promise<string> {
  const log = pino({ level: "silent" });
  const pages = new ExpressInterface({ routers: [], onInternalError: () => {} });
  const health = healthInterface(
    {
      state: () => state,
      ping,
      fault: () => fault,
      report: () => ({ isDegraded: false, details: { secret: "public.orders" } }),
      access: { openTo, adminHost: "127.0.0.1", isOperator: () => false },
    },
    REST.reject,
  );
  const pipeline = new Pipeline({
    log,
    corsOrigins: ["*"],
    limits: null,
    metrics: null,
    starting: httpRoutes<HttpEnvelope | AlwaysOnInterface>({ health, tables: TABLES, graphql: GRAPHQL }, REST),
  });
  const callers = anonymousCallers();
  if (state !== "starting") pipeline.open(httpRoutes<HttpInterface>({ health }, pages), { callers });
  pipeline.state = state;
  const server = createServer(pipeline.listener).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const get = async (url: string) => {
  const { status, headers, ...response } = await fetch(url).then(async (answer) => ({
    status: answer.status,
    headers: answer.headers,
    body: (await answer.json()) as any,
  }));
  return { status, retryAfter: headers.get("retry-after"), cacheControl: headers.get("cache-control"), ...response };
};

test("/health is 200 and ok when the service is ready", async () => {
  expect(await get(`${await serve("ready")}/health`)).toEqual({
    status: 200,
    retryAfter: null,
    cacheControl: "no-store",
    body: { status: "ok", details: { secret: "public.orders" } },
  });
});

test("/health and /ready give callers who are not operators the status only", async () => {
  const url = await serve("ready", async () => {}, null, "operators");
  expect((await get(`${url}/health`)).body).toEqual({ status: "ok" });
  expect((await get(`${url}/ready`)).body).toEqual({ status: "ok" });
});

test("while the service is starting, /health and every other URL are 503 with Retry-After, and /live is 200", async () => {
  const url = await serve("starting");
  await expectUnavailable(url, "starting");
  const message = "the service is starting: try again";
  for (const path of ["/auth/login", "/nothing"]) {
    expect(await get(url + path)).toEqual({
      status: 503,
      retryAfter: "5",
      cacheControl: "no-store",
      body: {
        error: {
          code: "INTERNAL_ERROR",
          message,
          requestId: expect.stringMatching(/^[\w-]{36}$/),
          timestamp: expect.any(String),
          documentation: "/docs/errors",
        },
        timestamp: expect.any(String),
        status: 503,
      },
    });
  }
  const errors = [{ message, extensions: { code: "INTERNAL_ERROR" } }];
  expect(await get(`${url}/graphql`)).toMatchObject({ status: 503, retryAfter: "5", body: { errors } });
  const tables = { code: "PGRST000", message, details: null, hint: null };
  expect(await get(`${url}/rest/v1/users`)).toMatchObject({ status: 503, retryAfter: "5", body: tables });
});

test("while the service is draining, /health is 503, and other requests are answered with Connection: close", async () => {
  const url = await serve("draining");
  await expectUnavailable(url, "draining");
  const { status, headers } = await fetch(`${url}/nothing`);
  expect([status, headers.get("connection")]).toEqual([404, "close"]);
});

async function expectUnavailable(url: string, reason: string): Promise<void> {
  const unavailable = { status: 503, retryAfter: "5" };
  expect(await get(`${url}/health`)).toMatchObject({ ...unavailable, body: { status: "unavailable", reason } });
  expect(await get(`${url}/ready`)).toMatchObject({ ...unavailable, body: { reason } });
  expect(await get(`${url}/live`)).toMatchObject({ status: 200, body: { status: "ok" } });
}

test.each([
  ["refuses connections", () => Promise.reject(new Error("connection refused to owner:secret@db"))],
  ["does not respond", () => new Promise<void>(() => {})],
])("a database that %s makes /health 503, without details of the reason, and /live stays 200", async (_what, ping) => {
  const url = await serve("ready", ping);
  expect(await get(`${url}/health`)).toMatchObject({
    status: 503,
    retryAfter: "5",
    body: { status: "unavailable", reason: "the database does not answer" },
  });
  expect(await get(`${url}/ready`)).toMatchObject({ status: 503, body: { reason: "the database does not answer" } });
  expect(await get(`${url}/live`)).toMatchObject({ status: 200 });
});

test("/ready is 200 when the service is ready, and 503 while the first schema is built, while /health stays 200", async () => {
  expect(await get(`${await serve("ready")}/ready`)).toMatchObject({ status: 200, body: { status: "ok" } });
  const url = await serve("ready", async () => {}, "the GraphQL schema is being built");
  expect(await get(`${url}/ready`)).toMatchObject({
    status: 503,
    body: { reason: "the GraphQL schema is being built" },
  });
  expect(await get(`${url}/health`)).toMatchObject({ status: 200 });
});
