import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import pino from "pino";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { Clients, RateLimit } from "../../gate/limits/clients.ts";
import { Turns } from "../../gate/limits/turns.ts";
import type { Exchange } from "../../gate/pipeline/exchange.ts";
import { Pipeline } from "../../gate/pipeline/pipeline.ts";
import { GRAPHQL } from "../../graphql/transport/envelope.ts";
import { ExpressInterface, REST } from "../../rest-gateway/express-interface.ts";
import { TABLES } from "../../rest-gateway/table/send.ts";
import { httpRoutes } from "../../service/routes.ts";
import { anonymousCallers } from "../support/callers.ts";
import { openRaw } from "../support/raw-socket.ts";
import { startTestService, type TestService } from "../support/service.ts";

type Line = { readonly level: number; readonly msg: string; readonly path?: string; readonly status?: number };

const logged: Line[] = [];
const log = pino({ level: "debug" }, { write: (line: string) => void logged.push(JSON.parse(line)) });

let started: TestService;
beforeAll(async () => {
  started = await startTestService({ API_KEY_REQUIRED: "false" }, undefined, log);
  return () => started.stop();
});

const { error: ERROR } = pino.levels.values;

test.each([
  ["/users", { error: { code: "VALIDATION_ERROR" } }],
  ["/rest/v1/users", { code: "22000", hint: null }],
  ["/graphql?query={__typename}", { errors: [{ extensions: { code: "VALIDATION_ERROR" } }] }],
])(
  "GET %s with two Authorization headers is rejected in the format of the interface, with CORS headers",
  async (path, body) => {
    const raw = await openRaw(started.url);
    const lines = [
      "Host: localhost",
      "Authorization: Bearer one",
      "Authorization: Bearer two",
      "Origin: https://app.example",
    ];
    raw.write(`GET ${path} HTTP/1.1\r\n${[...lines, "Connection: close"].join("\r\n")}\r\n\r\n`);
    const { headers } = await raw.head();
    await expect.poll(() => raw.ended).toBe(true);
    // GraphQL rejects requests with 200, unless the client accepts its own media type.
    expect(headers).toMatch(path.startsWith("/graphql") ? /^HTTP\/1.1 [24]00 / : /^HTTP\/1.1 400 /);
    expect(headers).toContain("Access-Control-Allow-Origin: *");
    expect(JSON.parse(raw.text.slice(raw.text.indexOf("{")))).toMatchObject(body);
  },
);

test.each(["/auth/login", "/users", "/graphql", "/rest/v1/comments"])(
  "an upload to %s that the client aborts is logged with status 499, and not as an error",
  async (path) => {
    logged.length = 0;
    const raw = await openRaw(started.url);
    const lines = ["Host: localhost", "Content-Type: application/json", "Content-Length: 1000", "Expect: 100-continue"];
    raw.write(`POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
    await raw.head();
    raw.write('{"a":');
    raw.socket.destroy();
    await expect.poll(() => logged.find((line) => line.msg === "request")).toMatchObject({ path, status: 499 });
    expect(logged.filter(({ level }) => level >= ERROR!)).toEqual([]);
  },
);

test.each([
  ["/users", { error: { code: "RATE_LIMITED", message: expect.stringContaining("more requests than it can handle") } }],
  ["/rest/v1/users", { code: "53000", message: expect.stringContaining("more requests than it can handle") }],
  ["/graphql?query={__typename}", { errors: [{ extensions: { code: "RATE_LIMITED" } }] }],
])(
  "when more requests come than the process can handle, GET %s is 503 with Retry-After at once",
  async (path, body) => {
    const limits: string[] = [];
    let now = 0;
    const pipeline = new Pipeline({
      log,
      corsOrigins: ["*"],
      limits: {
        // So slow that each request takes longer than a turn.
        turns: new Turns({ time: 1, running: 2, now: () => (now += 100) }),
        rateLimit: new RateLimit({ limit: 0, clients: new Clients() }),
        addressOf: () => "203.0.113.7",
      },
      onLimit: (setting) => limits.push(setting),
      metrics: null,
      starting: httpRoutes({}, REST),
    });
    const pages = new ExpressInterface({ routers: [], onInternalError: () => {} });
    const handle = (exchange: Exchange) => pages.handle(exchange);
    const routes = httpRoutes({ tables: { ...TABLES, handle }, graphql: { ...GRAPHQL, handle } }, { ...REST, handle });
    pipeline.open(routes, { callers: anonymousCallers() });
    const server = createServer(pipeline.listener).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    const raw = await openRaw(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const lines = ["Host: localhost", "Origin: https://app.example"];
    const requestOf = (last: boolean) =>
      `GET ${path} HTTP/1.1\r\n${[...lines, last ? "Connection: close" : "X-More: 1"].join("\r\n")}\r\n\r\n`;
    raw.write(Array.from({ length: 300 }, (_, i) => requestOf(i === 299)).join(""));
    await expect.poll(() => limits.length).toBeGreaterThan(10);
    expect(new Set(limits)).toEqual(new Set(["process_queue"]));
    const refusal = () =>
      raw.text.split(/(?=HTTP\/1\.1 )/).find((response) => response.includes("more requests than")) ?? "";
    await expect.poll(() => refusal().trimEnd().endsWith("}")).toBe(true);
    expect(refusal()).toMatch(/^HTTP\/1\.1 503 /);
    expect(refusal()).toMatch(/^Retry-After: 5\r$/m);
    expect(refusal()).toMatch(/^Access-Control-Allow-Origin: \*\r$/m);
    expect(JSON.parse(refusal().slice(refusal().indexOf("{")))).toMatchObject(body);
  },
);
