import { afterEach, beforeAll, expect, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const SHARE = 4_000_000;

let service: TestService;
beforeAll(async () => {
  service = await startTestService({
    CLIENT_MEMORY: String(4 * SHARE),
    clientMemoryPerAddress: SHARE,
    wsMessageRate: 1_000_000,
    wsMessageRatePerAddress: 1_000_000,
    // So that only the memory ends a socket.
    sendTimeout: 600_000,
  });
  return () => service.stop();
});

const held = () => service.service.clientMemory();
afterEach(() => expect.poll(held, POLL).toBe(0));

const ATTACKERS = "127.0.0.2";
const TEXT = "x".repeat(60_000);

/** A client that sends itself broadcasts and does not read them. */
async function openSlow(topic: string): Promise<ChannelClient> {
  const client = await new ChannelClient(service, ATTACKERS).open();
  await client.ask(topic, "phx_join", { config: { broadcast: { self: true } } });
  client.socket.pause();
  return client;
}

const send = (client: ChannelClient, topic: string, count: number) => {
  for (let n = 0; n < count; n++)
    client.tell(topic, "broadcast", { type: "broadcast", event: "e", payload: { text: TEXT } });
};

/** A request of another network. */
const statusOfOther = async () => {
  const apikey = service.service.tokens.issueKey("anon");
  const response = await fetch(`${service.url}/rest/v1/users?select=id`, { headers: { apikey } });
  await response.body?.cancel();
  return response.status;
};

test("broadcasts that one network does not read end its sockets, and others are served", async () => {
  const slow = await Promise.all(["a", "b", "c", "d", "e", "f"].map(openSlow));
  const other = await new ChannelClient(service, "127.0.0.3").open();
  await other.ask("room", "phx_join", { config: { broadcast: { self: true, ack: true } } });
  let most = 0;
  const observe = async () => {
    most = Math.max(most, held());
    expect(await statusOfOther()).toBe(200);
  };
  for (let round = 0; round < 12; round++) {
    for (const [i, client] of slow.entries()) if (client.closed === null) send(client, "abcdef"[i]!, 15);
    await observe();
  }
  const open = () => {
    most = Math.max(most, held());
    return service.service.open().sockets;
  };
  await expect.poll(open, POLL).toBeLessThanOrEqual(slow.length);
  expect(most).toBeLessThan(SHARE + 2 * TEXT.length);
  expect(await other.ask("room", "broadcast", { type: "broadcast", event: "e", payload: {} })).toMatchObject({
    status: "ok",
  });
  expect(other.closed).toBeNull();
  for (const { socket } of [...slow, other]) socket.terminate();
});
