import jwt from "jsonwebtoken";
import { afterEach, beforeAll, expect, test } from "vitest";
import { MAX_FILTER_VALUES } from "../../db/rights/filter.ts";
import { ChannelClient } from "../support/channel-socket.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { openGraphQL, openRaw, type RawSocket } from "../support/raw-socket.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const SHARE = 4_000_000;
const ATTACKER = "127.0.0.2";
const OTHER = "127.0.0.3";
const GOING_AWAY = 1001;

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ CLIENT_MEMORY: String(10 * SHARE), clientMemoryPerAddress: SHARE });
  return () => service.stop();
});

const held = () => service.service.clientMemory();
afterEach(() => expect.poll(held, POLL).toBe(0));

let value = 1_000_000;
/** `1000001,1000002,…`: never the same values. */
const values = (count: number) => Array.from({ length: count }, () => ++value).join(",");

const joinOf = (...filters: string[]) => ({
  config: { postgres_changes: filters.map((filter) => ({ event: "*", schema: "public", table: "articles", filter })) },
});
/** Filters with as many values as each may have. */
const longFilters = (count: number) => Array.from({ length: count }, () => `id=in.(${values(MAX_FILTER_VALUES)})`);

test("channels with long filters are refused beyond the share of their network, and others can join", async () => {
  const attacker = await new ChannelClient(service, ATTACKER).open();
  const join = (topic: string) => attacker.ask(topic, "phx_join", joinOf(...longFilters(6)));
  const replies = [];
  for (let n = 0; n < 8; n++) replies.push(await join(`room ${n}`));
  const joined = replies.filter(({ status }) => status === "ok").length;
  expect(joined).toBeGreaterThan(2);
  expect(joined).toBeLessThan(6);
  expect(replies.at(-1).response.reason).toMatch(/^ChannelRateLimitReached: the channels of your IP address/);
  expect(held()).toBeLessThanOrEqual(SHARE);

  const other = await new ChannelClient(service, OTHER).open();
  expect(await other.ask("room", "phx_join", joinOf(`id=in.(${values(100)})`))).toMatchObject({ status: "ok" });
  await attacker.ask("room 0", "phx_leave");
  expect(await join("room 9")).toMatchObject({ status: "ok" });
  // A client that goes away for good cannot resume, so nothing is kept for it.
  for (const { socket } of [attacker, other]) socket.close(GOING_AWAY);
});

test("a channel that is joined again, refused or begun in vain leaves nothing behind", async () => {
  const client = await new ChannelClient(service, ATTACKER).open();
  const filters = longFilters(4);
  for (let n = 0; n < 10; n++)
    expect(await client.ask("room", "phx_join", joinOf(...filters))).toMatchObject({ status: "ok" });
  const before = held();
  const { config } = joinOf(...filters);
  const since = { config: { ...config, postgres_changes_options: { since: "00000001-00000001" } } };
  expect((await client.ask("other room", "phx_join", since)).status).toBe("error");
  expect((await client.ask("third room", "phx_join", joinOf("id=in.(x)"))).status).toBe("error");
  expect(held()).toBe(before);
  client.socket.close(GOING_AWAY);
});

const subscribe = (socket: RawSocket, id: string, query: string, variables?: object) =>
  socket.send({ id, type: "subscribe", payload: { query, variables } });
const aliases = (name: string) =>
  `subscription ${name} { onArticleCreated { ${Array.from({ length: 150 }, (_, i) => `a${i}: title`).join(" ")} } }`;
const RATE_LIMITED = { extensions: { code: "RATE_LIMITED" } };
const refused = (socket: RawSocket) => socket.messages().filter(({ payload }) => payload?.errors !== undefined);
const running = () => service.service.open().subscriptions;

test("GraphQL subscriptions with large documents are refused beyond the share of their network", async () => {
  const attacker = await openGraphQL(service.url, { localAddress: ATTACKER });
  for (let n = 0; n < 10; n++) subscribe(attacker, String(n), aliases(`S${n}`));
  await expect.poll(() => running() + refused(attacker).length, POLL).toBe(10);
  const count = running();
  expect([1, 2, 3, 4]).toContain(count);
  expect(refused(attacker)[0].payload.errors[0]).toMatchObject(RATE_LIMITED);
  expect(held()).toBeLessThanOrEqual(SHARE);

  const other = await openGraphQL(service.url, { localAddress: OTHER });
  subscribe(other, "1", aliases("Other"));
  await expect.poll(running, POLL).toBe(count + 1);
  // One that ends makes room for another.
  attacker.send({ id: "0", type: "complete" });
  await expect.poll(running, POLL).toBe(count);
  subscribe(attacker, "again", aliases("Again"));
  await expect.poll(running, POLL).toBe(count + 1);
  for (const { socket } of [attacker, other]) socket.destroy();
});

test("subscriptions of a network with the same document share it, and their variables count", async () => {
  const client = await openGraphQL(service.url, { localAddress: ATTACKER });
  const query = "subscription S($id: ID) { onArticleUpdated(id: $id) { id title } }";
  for (let n = 0; n < 50; n++) subscribe(client, String(n), query, { id: "1" });
  await expect.poll(running, POLL).toBe(50);
  expect(refused(client)).toEqual([]);
  const before = held();
  subscribe(client, "long", query, { id: "1", more: "x".repeat(50_000) });
  await expect.poll(running, POLL).toBe(51);
  expect(held() - before).toBeGreaterThan(400_000);
  client.socket.destroy();
});

test("the values of the filter of a GraphQL subscription count", async () => {
  const client = await openGraphQL(service.url, { localAddress: ATTACKER });
  const query = "subscription S($filter: ChangedArticleFilter) { onArticleDeleted(filter: $filter) { id } }";
  const filter = () => ({ id: { in: values(MAX_FILTER_VALUES).split(",") } });
  for (let n = 0; n < 30; n++) subscribe(client, String(n), query, { filter: filter() });
  const ended = () => client.messages().filter(({ type }) => type === "error" || type === "next");
  await expect.poll(() => running() + ended().length, POLL).toBe(30);
  // Without their filters, the variables of all of them would have room.
  expect(ended().length).toBeGreaterThan(2);
  expect(JSON.stringify(ended()[0])).toContain("RATE_LIMITED");
  expect(held()).toBeLessThanOrEqual(SHARE);
  client.socket.destroy();
});

test("GraphQL subscriptions over Server-Sent Events count in the same way", async () => {
  const clients = Array.from({ length: 5 }, (_, n) => {
    const body = { query: aliases(`Stream${n}`) };
    return new EventStreamClient(`${service.url}/graphql`, { method: "POST", body });
  });
  const next = () => clients.flatMap(({ events }) => events.filter(({ event }) => event === "next"));
  await expect.poll(() => next().length, POLL).toBeGreaterThan(2);
  expect(next()[0]!.data.errors[0]).toMatchObject(RATE_LIMITED);
  for (const client of clients) client.close();
});

async function openTableStream(from: string, count: number): Promise<RawSocket> {
  return queryStream(from, `id=in.(${values(count)})&select=id`);
}

async function queryStream(from: string, body: string): Promise<RawSocket> {
  const raw = await openRaw(service.url, from);
  const headers = [
    "QUERY /rest/v1/articles HTTP/1.1",
    `Host: ${new URL(service.url).host}`,
    `apikey: ${service.service.tokens.issueKey("anon")}`,
    "Accept: text/event-stream",
    "Content-Type: application/x-www-form-urlencoded",
    `Content-Length: ${body.length}`,
  ];
  raw.write(`${headers.join("\r\n")}\r\n\r\n${body}`);
  return raw;
}

test("streams of a table with long filters are refused beyond the share of their network", async () => {
  const streams: RawSocket[] = [];
  const statuses: number[] = [];
  for (let n = 0; n < 40; n++) {
    streams.push(await openTableStream(ATTACKER, MAX_FILTER_VALUES));
    statuses.push((await streams.at(-1)!.head()).status);
  }
  expect(statuses.slice(0, 10)).toEqual(Array(10).fill(200));
  expect(statuses.at(-1)).toBe(429);
  const other = await openTableStream(OTHER, MAX_FILTER_VALUES);
  expect((await other.head()).status).toBe(200);
  for (const { socket } of [...streams, other]) socket.destroy();
});

test("the lists of one filter on changes have at most 1,000 values, over a channel and as a stream", async () => {
  expect(MAX_FILTER_VALUES).toBe(1000);
  const tooMany = `id=in.(${values(600)}),id=in.(${values(401)})`;
  const client = await new ChannelClient(service, OTHER).open();
  const { status, response } = await client.ask("room", "phx_join", joinOf(tooMany));
  expect([status, response.reason]).toEqual(["error", expect.stringContaining("at most 1000 values")]);
  client.socket.close(GOING_AWAY);
  const stream = await openTableStream(OTHER, 1001);
  expect((await stream.head()).status).toBe(400);
  stream.socket.destroy();
});

test("the query of a stream has at most 65,536 characters, and that of a read may have more", async () => {
  const long = `id=in.(${"1,".repeat(40_000)}1)`;
  const stream = await queryStream(OTHER, long);
  expect((await stream.head()).status).toBe(413);
  stream.socket.destroy();
  const read = await fetch(`${service.url}/rest/v1/articles`, {
    method: "QUERY",
    headers: {
      apikey: service.service.tokens.issueKey("anon"),
      "Content-Type": "application/x-www-form-urlencoded",
    },
    body: long,
  });
  expect(read.status).toBe(200);
});

test("the lists in the claims of a token count for each subscription", async () => {
  const exp = Math.floor(Date.now() / 1000) + 600;
  const token = (groups: number) =>
    jwt.sign(
      { sub: "1", role: "authenticated", type: "access", iss: "content-service", exp, groups: numbers(groups) },
      JWT_SECRET,
    );
  const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
  const client = await new ChannelClient(service, OTHER).open();
  const heldFor = async (topic: string, groups: number) => {
    const before = held();
    const join = { ...joinOf("id=eq.1"), access_token: token(groups) };
    expect(await client.ask(topic, "phx_join", join)).toMatchObject({ status: "ok" });
    return held() - before;
  };
  const without = await heldFor("without", 0);
  expect((await heldFor("with", 2000)) - without).toBeGreaterThan(200_000);
  client.socket.close(GOING_AWAY);
});
