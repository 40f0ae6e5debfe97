import { expect, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { useRealtime } from "../support/realtime.ts";

const { service } = useRealtime({ RATE_LIMIT: "40" });

/** A socket from an address of its own. */
const open = (address: string) => new ChannelClient(service(), address).open();

const CHANNEL = { config: { broadcast: { self: true } } };

/** The messages of a socket: `["broadcast", { … }]` */
function messagesOf({ socket }: ChannelClient): (readonly [event: string, payload: any])[] {
  const received: (readonly [string, any])[] = [];
  socket.on("message", (data) => {
    const [, , , event, payload] = JSON.parse(String(data));
    received.push([event, payload]);
  });
  return received;
}

async function post(count: number, user: "ada" | "bob") {
  const messages = Array.from({ length: count }, (_, n) => ({ topic: "room", event: "e", payload: { n } }));
  const response = await fetch(`${service().url}/realtime/v1/api/broadcast`, {
    method: "POST",
    headers: {
      apikey: service().service.tokens.issueKey("anon"),
      authorization: `Bearer ${service().token(user)}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ messages }),
  });
  return { status: response.status, retry: response.headers.get("retry-after"), body: await response.text() };
}

test("each message of a broadcast over HTTP counts for RATE_LIMIT, and nothing is sent beyond it", async () => {
  const member = await open("127.0.0.21");
  const received = messagesOf(member);
  await member.ask("room", "phx_join", CHANNEL);
  expect(await post(30, "ada")).toMatchObject({ status: 202 });
  const refused = await post(30, "ada");
  expect(refused).toMatchObject({ status: 429, retry: expect.stringMatching(/^\d+$/) });
  expect(JSON.parse(refused.body)).toMatchObject({ code: "RATE_LIMITED" });
  // More than the limit at once is possible for a caller who has sent nothing before.
  expect(await post(100, "bob")).toMatchObject({ status: 202 });
  member.tell("room", "broadcast", { type: "broadcast", event: "last", payload: {} });
  const numbers = () => received.flatMap(([event, { payload }]) => (event === "broadcast" ? [payload.n] : []));
  const upTo = (count: number) => Array.from({ length: count }, (_, n) => n);
  await expect.poll(() => numbers().length).toBe(131);
  expect(numbers()).toEqual([...upTo(30), ...upTo(100), undefined]);
});

test("a long query string of the table interface counts again for each 10,000 characters", async () => {
  const query = async (characters: number) => {
    const response = await fetch(`${service().url}/rest/v1/users`, {
      method: "QUERY",
      headers: {
        apikey: service().service.tokens.issueKey("anon"),
        authorization: `Bearer ${service().token("admin")}`,
        "content-type": "application/x-www-form-urlencoded",
      },
      body: `select=id&name=eq.${"x".repeat(characters)}`,
    });
    await response.text();
    return response.status;
  };
  // Without the characters, these would be few.
  const statuses = [];
  for (let n = 0; n < 4; n++) statuses.push(await query(190_000));
  expect(statuses.slice(0, 1)).toEqual([200]);
  expect(statuses.at(-1)).toBe(429);
});
