import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { Outbound } from "../../identity/outbound.ts";

const MEBIBYTE = 1_048_576;

let server: Server;
let port: number;
/** The paths that the server has received. */
let received: string[];

const ANSWERS: Readonly<Record<string, (request: IncomingMessage, response: ServerResponse) => void>> = {
  "/ok": (request, response) => response.end(JSON.stringify({ agent: request.headers["user-agent"] })),
  "/echo": (request, response) => request.pipe(response),
  "/list": (_request, response) => response.end("[]"),
  "/moved": (_request, response) => response.writeHead(302, { location: "/ok" }).end(),
  "/gzip": (_request, response) => response.writeHead(200, { "content-encoding": "gzip" }).end("x"),
  "/large": (_request, response) => response.end(Buffer.alloc(20 * MEBIBYTE, " ")),
  "/endless": (_request, response) => {
    const timer = setInterval(() => response.write(Buffer.alloc(MEBIBYTE / 4, " ")), 1);
    response.on("close", () => clearInterval(timer));
  },
  "/silent": () => {},
  "/slow": (_request, response) => {
    const timer = setInterval(() => response.write(" "), 5);
    response.on("close", () => clearInterval(timer));
  },
};

beforeAll(async () => {
  server = createServer((request, response) => {
    received.push(request.url!);
    ANSWERS[request.url!]!(request, response);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  received = [];
});

const strict = new Outbound({ allowsLoopback: false, networks: [] });
const loopback = new Outbound({ allowsLoopback: true, networks: [] });
const impatient = new Outbound({ allowsLoopback: true, networks: [], timeout: 200 });

const failure = (outbound: Outbound, url: string) =>
  outbound.json(url).then(
    () => "accepted",
    (error: Error) => `${error.constructor.name}: ${error.message}`,
  );

test("a response of at most a mebibyte with status 200 is accepted", async () => {
  expect(await loopback.json(`http://127.0.0.1:${port}/ok`)).toEqual({ agent: "content-service" });
  expect(await loopback.json(`http://localhost:${port}/ok`)).toEqual({ agent: "content-service" });
  const body = new URLSearchParams({ a: "b c" });
  const answer = await loopback.fetch(`http://127.0.0.1:${port}/echo`, { method: "POST", body });
  expect(await answer.text()).toBe("a=b+c");
});

/** Every way to write an address that is not public. */
const PRIVATE = [
  ...["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "localhost"],
  ...["[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]"],
  ...["169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"],
  ...["100.64.0.1", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "[ff02::1]", "[2002:7f00:1::]"],
  ...["[2001:db8::1]", "[fec0::1]", "[::ffff:10.0.0.1]"],
];

test.each(PRIVATE)("https://%s is not requested, because the address is not public", async (host) => {
  expect(await failure(strict, `https://${host}:${port}/ok`)).toMatch(/^OutboundError: .*public address/);
  expect(received).toEqual([]);
});

test("networks that the operator names are requested, and no others", async () => {
  const own = new Outbound({
    allowsLoopback: false,
    networks: ["127.0.0.0/8", "10.1.0.0/16", "fd00:1::/32"],
    timeout: 50,
  });
  // The connection is made, and TLS fails.
  for (const host of ["127.0.0.1", "localhost"])
    expect(await failure(own, `https://${host}:${port}/ok`)).not.toMatch(/public/);
  for (const host of ["10.2.0.1", "192.168.0.1", "[fd00:2::1]"])
    expect(await failure(own, `https://${host}/`)).toMatch(/public/);
});

test.each([
  ["http://192.0.2.1/", "must be an https URL"],
  ["http://example.com/", "must be an https URL"],
  ["ftp://example.com/", "must be an https URL"],
  ["file:///etc/passwd", "must be an https URL"],
  ["data:application/json,{}", "must be an https URL"],
  ["https://user:password@example.com/", "has a user or a password"],
])("%s is not requested: it %s", async (url, reason) => {
  const failed = await failure(url.includes("192.0.2.1") ? loopback : strict, url);
  expect(failed).toMatch(/^OutboundError/);
  if (!url.includes("192.0.2.1")) expect(failed).toContain(reason);
});

test("http is requested on loopback addresses only, and only where a test allows them", async () => {
  expect(await failure(strict, `http://127.0.0.1:${port}/ok`)).toContain("not a public address");
  expect(await failure(strict, `http://localhost:${port}/ok`)).toContain("must be an https URL");
  expect(await failure(loopback, "http://example.com/")).toContain("must be an https URL");
  expect(received).toEqual([]);
});

test.each([
  ["/moved", "redirects are not followed"],
  ["/gzip", "compressed"],
  ["/list", "did not return a JSON object"],
  ["/large", "more than 1048576 bytes"],
  ["/endless", "more than 1048576 bytes"],
])("the response of %s is an error: %s", async (path, reason) => {
  expect(await failure(loopback, `http://127.0.0.1:${port}${path}`)).toContain(reason);
  expect(received).toEqual([path]);
});

test.each(["/silent", "/slow"])("the response of %s is an error after the time limit", async (path) => {
  expect(await failure(impatient, `http://127.0.0.1:${port}${path}`)).toContain("no response within 200 ms");
});

test("a server that is not there is an error that names the URL", async () => {
  expect(await failure(loopback, "http://127.0.0.1:1/ok")).toMatch(
    /^OutboundError: http:\/\/127\.0\.0\.1:1\/ok: .*ECONNREFUSED/,
  );
});
