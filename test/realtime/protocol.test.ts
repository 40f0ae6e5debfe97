import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { get } from "node:http";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { useRealtime } from "../support/realtime.ts";

const { service, sql, url } = useRealtime({
  realtimeMaxChannels: 3,
  realtimeJoinRate: 6,
  CORS_ORIGINS: "https://app.example",
});

/** A WebSocket that records the messages of the service. */
class Raw {
  readonly socket: WebSocket;
  readonly messages: any[] = [];

  constructor(address: string, options: object = {}) {
    this.socket = new WebSocket(address, options);
    this.socket.on("message", (data, isBinary) =>
      this.messages.push(isBinary ? (data as Buffer) : JSON.parse(String(data))),
    );
    this.socket.on("error", () => {});
    onTestFinished(() => this.socket.terminate());
  }

  send(...message: unknown[]): void {
    this.socket.send(JSON.stringify(message.length === 1 ? message[0] : message));
  }

  /** The reply to the message with this reference. */
  async reply(ref: string): Promise<any> {
    const find = () =>
      this.messages.find((message) => Array.isArray(message) && message[1] === ref && message[3] === "phx_reply");
    await expect.poll(find).toBeDefined();
    return find();
  }

  async closed(): Promise<number> {
    const [code] = this.socket.readyState === WebSocket.CLOSED ? [0] : await once(this.socket, "close");
    return code;
  }
}

async function open(parameters?: Readonly<Record<string, string>>, options?: object): Promise<Raw> {
  const raw = new Raw(url(parameters), options);
  await once(raw.socket, "open");
  return raw;
}

/** The status with which an upgrade is rejected, and the body. */
async function rejection(address: string, headers: Readonly<Record<string, string>> = {}): Promise<[number, any]> {
  const request = get(address.replace("ws", "http"), {
    headers: {
      ...{ connection: "upgrade", upgrade: "websocket", "sec-websocket-version": "13" },
      "sec-websocket-key": randomBytes(16).toString("base64"),
      ...headers,
    },
  });
  const [response] = await once(request, "response");
  return [response.statusCode, JSON.parse((await text(response)) || "null")];
}

const NOTES = { event: "INSERT", schema: "public", table: "notes" };
const join = (changes: readonly object[] = [], more: object = {}) => ({
  config: { postgres_changes: changes },
  ...more,
});

test("a join is answered with the bindings in order and their ids, and then a system message with the position", async () => {
  const raw = await open();
  const bindings = [{ ...NOTES, filter: "id=gt.0", own: 1 }, NOTES, { ...NOTES, filter: "id=gt.0", own: 1 }];
  raw.send("6", "6", "realtime:room", "phx_join", join(bindings));
  const [joinRef, ref, topic, event, payload] = await raw.reply("6");
  expect([joinRef, ref, topic, event, payload.status]).toEqual(["6", "6", "realtime:room", "phx_reply", "ok"]);
  const ids = payload.response.postgres_changes.map(({ id, ...binding }: any) => {
    expect(bindings).toContainEqual(binding);
    return id;
  });
  expect(ids[0]).toBe(ids[2]);
  expect(ids[0]).not.toBe(ids[1]);
  await expect.poll(() => raw.messages.length).toBe(3);
  expect(raw.messages[1]).toEqual([
    null,
    null,
    "realtime:room",
    "system",
    {
      ...{ extension: "postgres_changes", status: "ok", message: "Subscribed to PostgreSQL", channel: "room" },
      position: expect.stringMatching(/^[\w-]+$/),
      resumed: false,
    },
  ]);
  expect(raw.messages[2][4].message).toBe("the channel has no access token: it has the rights of the role anon");
  await sql("insert into notes (id) values (1)");
  await expect.poll(() => raw.messages.length).toBe(4);
  expect(raw.messages[3].slice(0, 4)).toEqual([null, null, "realtime:room", "postgres_changes"]);
  expect(raw.messages[3][4]).toEqual({
    ids: [ids[0], ids[1]].sort((a, b) => a - b),
    data: {
      ...{ schema: "public", table: "notes", type: "INSERT", errors: null },
      commit_timestamp: expect.stringMatching(/Z$/),
      columns: [
        { name: "id", type: "int8" },
        { name: "room", type: "text" },
        { name: "body", type: "text" },
      ],
      record: { id: 1, room: null, body: null },
    },
  });
});

test.each([{ vsn: "1.0.0" }, { vsn: "" }])(
  "messages of version 1.0.0 are objects, also without it: %j",
  async (vsn) => {
    const raw = await open(vsn);
    raw.send({ topic: "realtime:old", event: "phx_join", payload: join(), ref: "1", join_ref: "1" });
    raw.send({ topic: "phoenix", event: "heartbeat", payload: {}, ref: "2" });
    await expect
      .poll(() => raw.messages.toSorted((a, b) => a.ref - b.ref))
      .toEqual([
        {
          topic: "realtime:old",
          event: "phx_reply",
          payload: { status: "ok", response: { postgres_changes: [] } },
          ref: "1",
          join_ref: "1",
        },
        { topic: "phoenix", event: "phx_reply", payload: { status: "ok", response: {} }, ref: "2", join_ref: null },
      ]);
  },
);

test("a join of a topic that is already joined closes the older channel, and leaving closes the channel", async () => {
  const raw = await open();
  raw.send("1", "1", "realtime:a", "phx_join", join());
  raw.send("2", "2", "realtime:a", "phx_join", join());
  await raw.reply("2");
  expect(raw.messages).toContainEqual(["1", "1", "realtime:a", "phx_close", {}]);
  raw.send("2", "3", "realtime:a", "phx_leave", {});
  expect((await raw.reply("3"))[4].status).toBe("ok");
  await expect.poll(() => raw.messages.at(-1)).toEqual(["2", "2", "realtime:a", "phx_close", {}]);
  // A message of a channel that is closed.
  raw.send("2", "4", "realtime:a", "broadcast", { event: "x", payload: {} });
  expect((await raw.reply("4"))[4]).toEqual({ status: "error", response: { reason: "unmatched topic" } });
});

test.each([
  ['TopicNameRequired: the topic of a channel must be "realtime:" and a name', "phoenix:room", join()],
  ['TopicNameRequired: the topic of a channel must be "realtime:" and a name', "realtime:", join()],
  ["MalformedJoin: config must be an object", "realtime:a", { config: 5 }],
  ["MalformedJoin: config.postgres_changes must be an array", "realtime:a", { config: { postgres_changes: {} } }],
  ["MalformedJoin: config.postgres_changes[0] must be an object", "realtime:a", join([5 as never])],
  [
    "MalformedJoin: a channel can have at most 100 bindings of postgres_changes",
    "realtime:a",
    join(Array.from({ length: 101 }, () => NOTES)),
  ],
  [
    "InvalidJWTToken: the access token is not valid: sign in again",
    "realtime:a",
    join([], { access_token: "ey.no.token" }),
  ],
  [
    "MalformedJoin: postgres_changes_options.since is not a position",
    "realtime:a",
    { config: { postgres_changes: [NOTES], postgres_changes_options: { since: "?" } } },
  ],
])("a join that is not valid is refused with the reason: %s", async (reason, topic, payload) => {
  const raw = await open();
  raw.send("1", "1", topic, "phx_join", payload);
  expect((await raw.reply("1"))[4]).toEqual({ status: "error", response: { reason } });
});

test("channels on a socket and joins per second are limited, and the reason arrives", async () => {
  const raw = await open();
  for (let ref = 1; ref <= 4; ref++) raw.send(`${ref}`, `${ref}`, `realtime:${ref}`, "phx_join", join());
  expect((await raw.reply("4"))[4].response.reason).toBe(
    "ChannelRateLimitReached: too many channels: the maximum for each socket is 3",
  );
  for (let ref = 5; ref <= 20; ref++) raw.send(`${ref}`, `${ref}`, "realtime:1", "phx_join", join());
  await raw.reply("20");
  const reasons = raw.messages.map((message) => message[4].response?.reason);
  expect(reasons).toContain("ClientJoinRateLimitReached: too many joins per second: try again");
});

const NO_OBJECT = "the payload must be an object";

test.each([
  ["phx_join", [], `MalformedJoin: ${NO_OBJECT}`],
  ["phx_join", '{"config":{"private":true}}', `MalformedJoin: ${NO_OBJECT}`],
  ["phx_join", { access_token: 5 }, "MalformedJoin: access_token must be a string"],
  [
    "phx_join",
    { config: { broadcast: { replay: { since: 1 } } } },
    "UnableToReplayMessages: Replay is not allowed for public channels",
  ],
  ["access_token", "ey.", NO_OBJECT],
  ["access_token", { access_token: 5 }, "access_token must be a string"],
  ["broadcast", "text", NO_OBJECT],
  ["broadcast", { event: 5, payload: {} }, "the event of a broadcast must be a string"],
  ["broadcast", { event: "e", payload: {}, persist: true }, /because broadcasts of clients are not stored/],
  ["presence", 5, NO_OBJECT],
  ...["text", 5, [1], null, true].map((payload): [string, object, string] => [
    "presence",
    { event: "track", payload },
    "the payload of a presence must be an object",
  ]),
])(
  "%s with the payload %j is answered with an error, and the channel stays as it was",
  async (event, payload, reason) => {
    const raw = await open();
    raw.send("1", "1", "realtime:a", "phx_join", { config: { presence: { key: 7, enabled: true } } });
    raw.send("1", "2", "realtime:a", "presence", { event: "track", payload: { a: "b" } });
    await expect.poll(() => raw.messages.at(-1)[3]).toBe("presence_diff");
    raw.send("1", "3", "realtime:a", event, payload);
    const [, , , , { status, response }] = await raw.reply("3");
    expect([status, response]).toEqual(["error", { reason: expect.stringMatching(reason) }]);
    raw.send("1", "4", "realtime:a", "presence", { event: "track", payload: { a: "c" } });
    await expect.poll(() => raw.messages.at(-1)[3]).toBe("presence_diff");
    const diffs = raw.messages.filter((message) => message[3] === "presence_diff").map((message) => message[4]);
    const meta = (a: string) => ({ 7: { metas: [{ a, phx_ref: expect.any(String) }] } });
    expect(diffs).toEqual([
      { joins: meta("b"), leaves: {} },
      { joins: meta("c"), leaves: meta("b") },
    ]);
  },
);

test("with replication_ready, a system message says that broadcasts from SQL reach the channel", async () => {
  const raw = await open();
  raw.send("1", "1", "realtime:sql", "phx_join", { config: { broadcast: { replication_ready: "true" } } });
  await expect.poll(() => raw.messages.length).toBe(2);
  expect(raw.messages[1].slice(3)).toEqual([
    "system",
    { extension: "system", status: "ok", message: "Replication connection established", channel: "sql" },
  ]);
  await sql("select realtime.send('{}', 'x', 'sql', false)");
  const meta = { id: expect.stringMatching(/^[0-9a-f-]{36}$/) };
  await expect.poll(() => raw.messages.at(-1)[4]).toEqual({ type: "broadcast", event: "x", payload: {}, meta });
});

test.each([
  ["text that is not JSON", "{"],
  ["an object instead of an array", "{}"],
  ["an array that is too short", '["1","1","realtime:a","phx_join"]'],
  ["a topic that is a number", '["1","1",5,"phx_join",{}]'],
  ["a reference that is an object", '["1",{},"realtime:a","phx_join",{}]'],
  ["brackets that are nested too deeply", `["1","1","realtime:a","phx_join",${"[".repeat(1000)}${"]".repeat(1000)}]`],
  ["a binary message of another kind", Buffer.from([9, 0, 0, 0, 0, 0, 0])],
  ["a binary message that is too short", Buffer.from([3, 200, 1, 1, 1, 0, 1, 49])],
])("%s closes its own socket only", async (_name, message) => {
  const [bad, good] = [await open(), await open()];
  bad.socket.send(message);
  expect(await bad.closed()).toBe(4400);
  good.send(null, "1", "phoenix", "heartbeat", {});
  expect((await good.reply("1"))[4].status).toBe("ok");
});

test("an upgrade without a key, with a bad key, or with a service key from a browser is rejected with the reason", async () => {
  const { url: own, service: running } = service();
  const path = `${own.replace("http", "ws")}/realtime/v1/websocket`;
  const noKey = "an API key is required: send it in the header apikey or X-API-Key";
  expect(await rejection(path)).toMatchObject([401, { error: { message: noKey } }]);
  expect((await rejection(`${path}?apikey=wrong`))[0]).toBe(401);
  const key = running.tokens.issueKey("service_role");
  const fromBrowser = await rejection(`${path}?apikey=${key}`, { origin: "https://app.example" });
  expect(fromBrowser).toMatchObject([403, { error: { message: "the service key must not be used in browsers" } }]);
  const code = "PERMISSION_DENIED";
  expect(await rejection(url(), { origin: "https://evil.example" })).toMatchObject([403, { error: { code } }]);
});
