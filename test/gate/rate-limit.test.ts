import type { IncomingMessage } from "node:http";
import { pino } from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import { addressReader } from "../../gate/pipeline/exchange.ts";
import { useService } from "../support/http-client.ts";
import { upgrade } from "../support/raw-socket.ts";
import { startTestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

describe("the IP address of a client", () => {
  const read = (remoteAddress: string, forwarded?: string) =>
    addressReader(["10.0.0.0/8"])({
      socket: { remoteAddress },
      headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
    } as unknown as IncomingMessage);

  test.each([
    ["10.0.0.1", "203.0.113.7", "203.0.113.7"],
    ["10.0.0.1", "198.51.100.1, 203.0.113.7", "203.0.113.7"], // the first may be forged
    ["10.0.0.1", "203.0.113.7, 10.0.0.2", "203.0.113.7"],
    ["10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"],
    ["10.0.0.1", "203.0.113.7:4711", "203.0.113.7"],
    ["10.0.0.1", "[2001:db8::7]:4711", "2001:db8::7"],
    ["10.0.0.1", "2001:db8::7", "2001:db8::7"],
    ["10.0.0.1", "unknown", "10.0.0.1"],
    ["10.0.0.1", "", "10.0.0.1"],
    ["10.0.0.1", undefined, "10.0.0.1"],
    ["203.0.113.9", "198.51.100.1", "203.0.113.9"], // no trusted proxy has added it
  ])("that connects from %s with X-Forwarded-For: %s is %s", (connection, forwarded, address) =>
    expect(read(connection, forwarded)).toBe(address),
  );
});

test("the log names a limit that is reached once, and not each request that it rejects", async () => {
  const lines: any[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const { url, stop } = await startTestService({ RATE_LIMIT: "1" }, undefined, log);
  onTestFinished(stop);
  const ask = async () => (await fetch(`${url}/nothing`)).status;
  expect([await ask(), await ask(), await ask()]).toEqual([404, 429, 429]);
  const ofRequests = () => lines.filter(({ msg }) => msg === "request").map(({ status }) => status);
  await expect.poll(ofRequests, POLL).toEqual([404]);
  expect(lines.filter(({ limit }) => limit === "RATE_LIMIT")).toMatchObject([{ level: 40, rejected: 1 }]);
});

const PRIVATE = { TRUST_PROXY: "loopback" };
const client = useService({ RATE_LIMIT: "3", ...PRIVATE });
const unlimited = useService();

let clients = 0;
/** A client with a new IP address. */
function newClient() {
  const from = { "x-forwarded-for": `203.0.113.${++clients}` };
  return {
    from,
    ask: (path: string, method = "GET", headers: Record<string, string> = {}) =>
      client.send(path, { method, headers: { ...from, ...headers } }),
  };
}

/** `["3", "2"]`: the limit and the remaining requests. */
const counters = ({ headers }: { headers: Headers }) => [
  headers.get("x-ratelimit-limit"),
  headers.get("x-ratelimit-remaining"),
];

/** What Retry-After says in the first seconds: 3 requests a minute are one in 20 seconds. */
const SECONDS = [17, 18, 19, 20];

describe("RATE_LIMIT", () => {
  test("adds the number of remaining requests to every response of every interface", async () => {
    for (const path of ["/graphql?query={__typename}", "/rest/v1/users", "/auth/login", "/nothing"]) {
      const { ask } = newClient();
      expect(counters(await ask(path))).toEqual(["3", "2"]);
      expect(counters(await ask(path))).toEqual(["3", "1"]);
    }
  });

  test("answers 429 with Retry-After above it, in the envelope of REST", async () => {
    const { ask } = newClient();
    for (let i = 0; i < 3; i++) expect((await ask("/nothing")).status).toBe(404);
    const { status, headers, json } = await ask("/nothing");
    const wait = Number(headers.get("retry-after"));
    expect(wait).toBeOneOf(SECONDS);
    expect([status, headers.get("cache-control")]).toEqual([429, "no-store"]);
    expect(headers.get("x-ratelimit-remaining")).toBe("0");
    expect(json).toEqual({
      error: {
        code: "RATE_LIMITED",
        message: `too many requests: try again in ${wait} s`,
        requestId: headers.get("x-request-id"),
        timestamp: expect.any(String),
        documentation: "/docs/errors",
      },
      timestamp: expect.any(String),
      status: 429,
    });
  });

  test("is reported by the tables and GraphQL in their envelopes when it is exceeded", async () => {
    const { ask } = newClient();
    for (let i = 0; i < 3; i++) await ask("/nothing");
    const waitOf = ({ headers }: { headers: Headers }) => {
      const wait = Number(headers.get("retry-after"));
      expect(wait).toBeOneOf(SECONDS);
      return `too many requests: try again in ${wait} s`;
    };

    const table = await ask("/rest/v1/users");
    expect(table.status).toBe(429);
    expect(table.json).toEqual({ code: "PT429", message: waitOf(table), details: null, hint: null });
    expect(table.headers.get("proxy-status")).toBe("content-service; error=PT429");

    const graphql = await ask("/graphql?query={__typename}");
    expect(graphql.status).toBe(429);
    expect(graphql.json).toEqual({ errors: [{ message: waitOf(graphql), extensions: { code: "RATE_LIMITED" } }] });
  });

  test("that HEAD exceeds returns no body", async () => {
    const { ask } = newClient();
    for (let i = 0; i < 3; i++) await ask("/nothing");
    expect(await ask("/nothing", "HEAD")).toMatchObject({ status: 429, text: "" });
  });

  test("does not count /live, /health and preflights, which are always answered", async () => {
    const { ask } = newClient();
    const preflight = { origin: "https://page.example", "access-control-request-method": "POST" };
    for (let i = 0; i < 4; i++) {
      expect((await ask("/live")).status).toBe(200);
      expect((await ask("/health?from=probe")).status).toBe(200);
      expect((await ask("/graphql", "OPTIONS", preflight)).status).toBe(204);
    }
    expect(counters(await ask("/live"))).toEqual(["3", "3"]);
    for (let i = 0; i < 4; i++) await ask("/nothing");
    expect((await ask("/live")).status).toBe(200);
    expect((await ask("/nothing")).status).toBe(429);
  });

  test("lets a page read the counters, also when the request is rejected", async () => {
    const { ask } = newClient();
    for (let i = 0; i < 3; i++) await ask("/nothing");
    const { status, headers } = await ask("/nothing", "GET", { origin: "https://page.example" });
    expect([status, headers.get("access-control-allow-origin")]).toEqual([429, "*"]);
    for (const name of ["X-RateLimit-Limit", "X-RateLimit-Remaining", "Retry-After"])
      expect(headers.get("access-control-expose-headers")!.split(",")).toContain(name);
  });

  test("counts upgrades to WebSocket too", async () => {
    const { from, ask } = newClient();
    const { url } = client.service();
    for (let i = 0; i < 2; i++) expect((await (await upgrade(url, { headers: from })).head()).status).toBe(101);
    expect(counters(await ask("/nothing"))).toEqual(["3", "0"]);
    const { status, headers } = await (await upgrade(url, { headers: from })).head();
    expect(status).toBe(429);
    expect(headers).toMatch(/\r\nX-RateLimit-Limit: 3\r\nX-RateLimit-Remaining: 0\r\nRetry-After: \d+$/);
  });

  test("counts clients of one IPv6 network together, and others separately", async () => {
    const ask = (address: string) => client.send("/nothing", { headers: { "x-forwarded-for": address } });
    for (let i = 1; i <= 3; i++) expect((await ask(`2001:db8:1:2::${i}`)).status).toBe(404);
    expect((await ask("2001:db8:1:2:ffff::1")).status).toBe(429);
    expect((await ask("2001:db8:1:3::1")).status).toBe(404);
  });

  test("of 0 disables the limit and its headers", async () => {
    const answer = await unlimited.send("/nothing");
    expect(counters(answer)).toEqual([null, null]);
  });
});

test("a link-local address is read without its zone, which Postgres does not accept", () => {
  const request = { headers: {}, socket: { remoteAddress: "fe80::1%eth0" } } as unknown as IncomingMessage;
  expect(addressReader([])(request)).toBe("fe80::1");
});
