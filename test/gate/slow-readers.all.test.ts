import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { openGraphQL, openRaw, type RawSocket } from "../support/raw-socket.ts";
import { startTestService, type TestService, type TestSettings } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const CONTENT_BYTES = 12_000_000;
/** More than the kernel buffers for a client that does not read. */
const CONTENT = `update public.articles set content = repeat('x', ${CONTENT_BYTES / 12}) where id = 1;
  insert into public.articles (author_id, title, content, status)
  select author_id, title, content, status from public.articles, generate_series(1, 11) where id = 1;`;
const SETTINGS = {
  // One connection for each client.
  DB_POOL: "4",
  dbPoolShare: 25,
  dbPoolTimeout: 2000,
  clientMemoryPerAddress: 1_000_000,
};

let service: TestService;
beforeAll(async () => {
  service = await start();
  return () => service.stop();
});

async function start(settings: TestSettings = {}): Promise<TestService> {
  const started = await startTestService({ ...SETTINGS, ...settings });
  await started.database.owner.query(CONTENT);
  // A client of a WebSocket has three seconds for its first message, and on a busy machine the schema takes longer.
  expect((await started.gql("{ __typename }")).status).toBe(200);
  return started;
}

/** Runs the test with a service of other settings. */
async function withService(settings: TestSettings, body: () => Promise<void>): Promise<void> {
  const usual = service;
  service = await start(settings);
  try {
    await body();
    await expect.poll(clientMemory, POLL).toBe(0);
  } finally {
    await service.stop();
    service = usual;
  }
}

const clientMemory = () => service.service.clientMemory();
afterEach(() => expect.poll(clientMemory, POLL).toBe(0));

type Sent = {
  /** The address of the client. */
  readonly from: string;
  readonly body?: string;
  readonly as?: "ada";
  /** Whether the client reads; otherwise only after `socket.resume()`. */
  readonly reads?: boolean;
};

/** Sends a request on a new socket. */
async function send(path: string, { from, body = "", as, reads = true }: Sent): Promise<RawSocket> {
  const raw = await openRaw(service.url, from);
  if (!reads) raw.socket.pause();
  const headers = [
    `Host: ${new URL(service.url).host}`,
    `apikey: ${service.service.tokens.issueKey("anon")}`,
    ...(as ? [`Authorization: Bearer ${service.token(as)}`] : []),
    ...(body === "" ? [] : ["Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`]),
  ];
  raw.write(`${[`${body === "" ? "GET" : "POST"} ${path} HTTP/1.1`, ...headers].join("\r\n")}\r\n\r\n${body}`);
  return raw;
}

/** A client at 127.0.0.2 that does not read; its response has been received from the database. */
async function slowReader(path = TABLE, body = ""): Promise<RawSocket> {
  const slow = await send(path, { from: "127.0.0.2", body, reads: false });
  await expect.poll(clientMemory, POLL).toBeGreaterThan(CONTENT_BYTES);
  return slow;
}

const headOf = async (path: string, sent: Sent) => (await send(path, sent)).head();

/** The body of the response, when it is complete. */
async function bodyOf(raw: RawSocket): Promise<string> {
  const { headers } = await raw.head();
  const length = Number(/content-length: (\d+)/i.exec(headers)![1]);
  await expect.poll(() => raw.size - headers.length - 4, POLL).toBe(length);
  return raw.text.slice(headers.length + 4);
}

const TABLE = "/rest/v1/articles?select=content";
const GRAPHQL = JSON.stringify({ query: "{ articles(first: 100) { edges { node { content } } } }" });

const INTERFACES: readonly (readonly [name: string, path: string, body: string])[] = [
  ["the tables", TABLE, ""],
  ["the resources", "/articles?limit=100", ""],
  ["GraphQL", "/graphql", GRAPHQL],
];

describe.each(INTERFACES)("a client of %s that does not read", (_name, path, body) => {
  test("keeps its address from the database, and gets the whole response when it reads", async () => {
    const before = service.service.databaseWaits();
    const slow = await slowReader(path, body);

    const others = await Promise.all([1, 2, 3].map(() => headOf("/rest/v1/users?select=id", { from: "127.0.0.2" })));
    expect(others.map(({ status }) => status)).toEqual([503, 503, 503]);
    expect(service.service.databaseWaits() - before).toBe(1);
    expect((await headOf("/rest/v1/users?select=id", { from: "127.0.0.3" })).status).toBe(200);
    for (const path of ["/health", "/live"]) expect((await headOf(path, { from: "127.0.0.2" })).status).toBe(200);

    slow.socket.resume();
    expect((await bodyOf(slow)).length).toBeGreaterThan(CONTENT_BYTES);
    expect((await headOf("/rest/v1/users?select=id", { from: "127.0.0.2" })).status).toBe(200);
  });

  test("is forgotten when it disconnects", async () => {
    const slow = await slowReader(path, body);
    slow.socket.destroy();
    await expect.poll(clientMemory, POLL).toBe(0);
    expect((await headOf("/rest/v1/users?select=id", { from: "127.0.0.2" })).status).toBe(200);
  });
});

test("of many sockets at one address that do not read, only the first reaches the database", async () => {
  const before = service.service.databaseWaits();
  const sockets = await Promise.all(Array.from({ length: 20 }, () => send(TABLE, { from: "127.0.0.2", reads: false })));
  await expect.poll(clientMemory, POLL).toBeGreaterThan(CONTENT_BYTES);
  // After the timeout of the others.
  expect((await headOf("/rest/v1/users?select=id", { from: "127.0.0.2" })).status).toBe(503);
  expect(service.service.databaseWaits() - before).toBe(1);
  for (const { socket } of sockets) socket.resume();
  const statuses = await Promise.all(sockets.map(async (raw) => (await raw.head()).status));
  expect(statuses.filter((status) => status === 200)).toHaveLength(1);
  // 504 for one whose time was over before the whole result of the first had arrived.
  expect(statuses.filter((status) => status === 503 || status === 504)).toHaveLength(19);
});

test("clients at one address that read at once are all served, although each result is over the limit", () =>
  withService({ dbPoolTimeout: 60_000 }, async () => {
    const sockets = await Promise.all(Array.from({ length: 8 }, () => send(TABLE, { from: "127.0.0.2" })));
    const bodies = await Promise.all(sockets.map(bodyOf));
    expect(bodies.map((body) => JSON.parse(body).length)).toEqual(Array(8).fill(15));
  }));

test("signed-in users at the address of a slow reader wait too", async () => {
  const slow = await slowReader();
  expect((await headOf("/rest/v1/users", { from: "127.0.0.2", as: "ada" })).status).toBe(503);
  expect((await headOf("/rest/v1/users", { from: "127.0.0.3", as: "ada" })).status).toBe(200);
  slow.socket.destroy();
});

describe("the refusal of an address with unread responses", () => {
  const message = "your IP address has too many unread responses: read them or close their connections, then try again";
  const tasks = "/tasks/00000000-0000-0000-0000-000000000000";

  test.each([
    ["the tables", "/rest/v1/users", "", { code: "53000", message }],
    ["the resources", "/users", "", { error: { code: "RATE_LIMITED", message }, status: 503 }],
    ["tasks", tasks, "", { error: { code: "RATE_LIMITED", message }, status: 503 }],
    ["GraphQL", "/graphql", GRAPHQL, { errors: [{ message, extensions: { code: "RATE_LIMITED" } }] }],
  ])("has the format of %s and Retry-After", async (_name, path, body, expected) => {
    const slow = await slowReader();
    const refused = await send(path, { from: "127.0.0.2", body });
    const { status, headers } = await refused.head();
    expect([status, /retry-after: (\d+)/i.exec(headers)?.[1]]).toEqual([503, "5"]);
    expect(JSON.parse(await bodyOf(refused))).toMatchObject(expected);
    slow.socket.destroy();
  });
});

describe("a WebSocket that does not read", () => {
  const operation = (id: string, query: string) => ({ id, type: "subscribe", payload: { query } });
  const { query } = JSON.parse(GRAPHQL);

  test("keeps its address from the database, and gets the whole message when it reads", async () => {
    const slow = await openGraphQL(service.url, { localAddress: "127.0.0.2" });
    const other = await openGraphQL(service.url, { localAddress: "127.0.0.2" });
    slow.send(operation("1", query));
    slow.socket.pause();
    await expect.poll(clientMemory, POLL).toBeGreaterThan(CONTENT_BYTES);
    expect((await headOf("/rest/v1/users", { from: "127.0.0.2" })).status).toBe(503);

    other.send(operation("1", "{ users { id } }"));
    const refused = () => other.messages().find(({ type }) => type === "next")?.payload.errors[0].extensions.code;
    await expect.poll(refused, POLL).toBe("RATE_LIMITED");

    slow.send({ type: "ping" });
    slow.socket.resume();
    const received = () => slow.messages().find(({ type }) => type === "next")?.payload.data.articles.edges.length;
    await expect.poll(received, POLL).toBe(15);
    expect((await headOf("/rest/v1/users", { from: "127.0.0.2" })).status).toBe(200);
    // The large message does not disconnect the client.
    await expect.poll(() => slow.messages().map(({ type }) => type), POLL).toContain("pong");
    slow.send(operation("2", "{ __typename }"));
    await expect.poll(() => slow.messages().at(-1), POLL).toEqual({ id: "2", type: "complete" });
  });
});

test("CLIENT_MEMORY is the limit of all addresses together", () =>
  withService({ CLIENT_MEMORY: "1000000" }, async () => {
    const slow = await slowReader();
    expect((await headOf("/rest/v1/users", { from: "127.0.0.3" })).status).toBe(503);
    expect((await headOf("/health", { from: "127.0.0.3" })).status).toBe(200);
    slow.socket.destroy();
    await expect.poll(clientMemory, POLL).toBe(0);
    expect((await headOf("/rest/v1/users", { from: "127.0.0.3" })).status).toBe(200);
  }));
