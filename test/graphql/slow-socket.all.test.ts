import { beforeAll, expect, test } from "vitest";
import { openGraphQL } from "../support/raw-socket.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const MAX_UNSENT = 8_000_000;

let service: TestService;
beforeAll(async () => {
  service = await startTestService({
    wsMaxBufferedBytes: 65_536,
    clientMemoryPerAddress: MAX_UNSENT,
    // So that only the limits of bytes close a socket.
    sendTimeout: 600_000,
  });
  // The content of all articles has more bytes than the kernel buffers, and twice as many bytes as characters.
  await service.database.owner.query(`
    insert into public.articles (author_id, title, content, status)
    select author_id, title, repeat('й', 500000), status from public.articles, generate_series(1, 12) where id = 1`);
  return () => service.stop();
});

const CONTENT = "{ articles(first: 100) { edges { node { content } } } }";
const operation = (id: number, query: string) => ({ id: String(id), type: "subscribe", payload: { query } });

test("results that need no database are limited for a client that does not read", async () => {
  const slow = await openGraphQL(service.url, { localAddress: "127.0.0.2" });
  slow.socket.pause();
  const schema = "__schema { types { name description fields { name description type { name } } } }";
  const query = `{ ${Array.from({ length: 20 }, (_, i) => `a${i}: ${schema}`).join(" ")} }`;

  let id = 0;
  let most = 0;
  const sockets = () => {
    if (id < 80) slow.send(operation(id++, query));
    most = Math.max(most, service.service.clientMemory());
    return service.service.open().sockets;
  };
  await expect.poll(sockets, POLL).toBe(0);
  expect(most).toBeGreaterThan(MAX_UNSENT / 2);
  expect(most).toBeLessThan(2 * MAX_UNSENT);
});

test("an unread result in another script leaves no more room for other messages", async () => {
  const slow = await openGraphQL(service.url, { localAddress: "127.0.0.2" });
  const begun = new Promise<void>((resolve) => {
    slow.socket.once("data", () => {
      slow.socket.pause();
      resolve();
    });
  });
  slow.send(operation(1, CONTENT));
  // From now on, the rest of the result is before all other messages.
  await begun;
  for (let i = 0; i < 5; i++) slow.send({ type: "ping", payload: { text: "x".repeat(60_000) } });
  await expect.poll(() => service.service.open().sockets, POLL).toBe(0);
});

test("several results of the database that are over the limit together arrive completely", async () => {
  const slow = await openGraphQL(service.url, { localAddress: "127.0.0.2" });
  slow.socket.pause();
  for (const id of [1, 2]) slow.send(operation(id, CONTENT));
  await expect.poll(() => service.service.clientMemory(), POLL).toBeGreaterThan(12_000_000);
  slow.send({ type: "ping" });
  slow.socket.resume();
  const complete = () => slow.messages().filter(({ type }) => type === "complete").length;
  await expect.poll(complete, { ...POLL, interval: 100 }).toBe(2);
  const results = slow.messages().filter(({ type }) => type === "next");
  for (const { payload } of results) expect(payload.data.articles.edges.length).toBeGreaterThan(12);
  slow.socket.destroy();
});
