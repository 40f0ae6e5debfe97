import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { openGraphQL, type RawSocket, upgrade } from "../support/raw-socket.ts";
import { POLL } from "../support/until.ts";

// One request in 20 seconds becomes available again.
const client = useService({
  ...{ RATE_LIMIT: "3", TRUST_PROXY: "loopback", wsMessageRate: 10_000, changesMaxBytes: 1_048_576 },
});
const url = () => client.service().url;

let count = 0;
/** The headers of a client with a network of its own. */
const newClient = () => ({ "x-forwarded-for": `2001:db8:${++count}:1::1` });
const neighbourOf = (from: { "x-forwarded-for": string }) => ({
  "x-forwarded-for": from["x-forwarded-for"].replace(/1$/, "2"),
});
const RATE_LIMITED = expect.stringMatching(/^too many requests: try again in \d+ s$/);

describe("RATE_LIMIT counts operations of GraphQL over WebSocket:", () => {
  /** What the socket answers to an operation: `next`, or the code of the error. */
  async function run(raw: RawSocket, query: string): Promise<string> {
    const id = `operation ${++count}`;
    const answer = () => raw.messages().find((message) => message.id === id && message.type !== "complete");
    raw.send({ id, type: "subscribe", payload: { query } });
    await expect.poll(answer, POLL).toBeDefined();
    const { type, payload } = answer()!;
    if (type === "error") expect(payload).toEqual([{ message: RATE_LIMITED, extensions: { code: "RATE_LIMITED" } }]);
    return type === "error" ? payload[0].extensions.code : type;
  }

  test("those of an anonymous client count for its network, like its requests, and the socket stays open", async () => {
    const headers = newClient();
    const raw = await openGraphQL(url(), { headers }); // the first request
    expect([await run(raw, "{ __typename }"), await run(raw, "{ users { id } }")]).toEqual(["next", "next"]);
    for (const query of [
      "{ __typename }",
      'mutation { createUser(input: {name: "Eve"}) { id } }',
      "subscription { articleChanged(id: 1) { id } }",
    ])
      expect(await run(raw, query)).toBe("RATE_LIMITED");
    expect(await client.sql("select from users where name = 'Eve'")).toEqual([]);
    expect((await client.send("/nothing", { headers: neighbourOf(headers) })).status).toBe(429);
    expect((await client.send("/nothing", { headers: newClient() })).status).toBe(404);
    raw.send({ type: "ping" });
    await expect.poll(() => raw.messages().at(-1), POLL).toEqual({ type: "pong" });
  });

  test("a long one counts again for each 1,000 characters, before it is read, and never more than all", async () => {
    const long = (characters: number) => "{ __typename }".padEnd(characters);
    const open = () => openGraphQL(url(), { headers: newClient() }); // the first request
    const short = await open();
    expect([await run(short, long(999)), await run(short, long(999))]).toEqual(["next", "next"]);
    const longer = await open();
    expect([await run(longer, long(1000)), await run(longer, long(10))]).toEqual(["next", "RATE_LIMITED"]);
    expect(await run(await open(), long(50_000))).toBe("next");
  });

  test("those of a signed-in user count for the user, on all sockets and from every address", async () => {
    const payload = { authorization: `Bearer ${client.token("ada")}` };
    const [one, other] = [
      await openGraphQL(url(), { headers: newClient(), payload }),
      await openGraphQL(url(), { headers: newClient(), payload }),
    ];
    const answers = [
      ...[await run(one, "{ __typename }"), await run(other, "{ __typename }")],
      ...[await run(one, "{ __typename }"), await run(other, "{ __typename }")],
    ];
    expect(answers).toEqual(["next", "next", "next", "RATE_LIMITED"]);
    expect((await client.send("/users", { headers: { ...payload, ...newClient() } })).status).toBe(429);
    const bob = await openGraphQL(url(), { payload: { authorization: `Bearer ${client.token("bob")}` } });
    expect(await run(bob, "{ __typename }")).toBe("next");
  });

  test("a client that goes on after 100 refusals is disconnected with 4429", async () => {
    const raw = await openGraphQL(url(), { headers: newClient() });
    for (let i = 0; i < 110; i++)
      raw.send({ id: `flood ${i}`, type: "subscribe", payload: { query: "{ __typename }" } });
    expect(await raw.closed()).toEqual({ code: 4429, reason: "too many operations" });
  });
});

describe("RATE_LIMIT counts joins and pushes of realtime channels:", () => {
  const path = () => `/realtime/v1/websocket?vsn=2.0.0&apikey=${client.service().service.tokens.issueKey("anon")}`;
  const open = (headers: Readonly<Record<string, string>>) => upgrade(url(), { path: path(), protocol: null, headers });

  /** The reply to a message: `ok`, or the reason of the error. */
  async function push(raw: RawSocket, topic: string, event: string, payload: object = {}): Promise<string> {
    const ref = String(++count);
    const reply = () => raw.messages().find(([, replied, , name]: any) => replied === ref && name === "phx_reply");
    raw.send([null, ref, topic, event, payload]);
    await expect.poll(reply, POLL).toBeDefined();
    const { status, response } = (reply() as any)[4];
    return status === "error" ? response.reason : status;
  }
  const refusal = expect.stringMatching(/^RATE_LIMITED: too many requests: try again in \d+ s$/);
  const broadcast = { type: "broadcast", event: "message", payload: {} };
  const acknowledged = { config: { broadcast: { ack: true } } };

  test("those of an anonymous client count for its network; heartbeats and leaving are never refused", async () => {
    const headers = newClient();
    const raw = await open(headers); // the first request
    expect(await push(raw, "realtime:a", "phx_join", acknowledged)).toBe("ok");
    expect(await push(raw, "realtime:a", "broadcast", broadcast)).toBe("ok");
    expect(await push(raw, "realtime:b", "phx_join")).toEqual(refusal);
    expect(await push(raw, "realtime:a", "broadcast", broadcast)).toEqual(refusal);
    expect(await push(raw, "realtime:a", "presence", { event: "track", payload: {} })).toEqual(refusal);
    expect(await push(raw, "realtime:a", "access_token", { access_token: client.token("ada") })).toEqual(refusal);
    expect((await client.send("/nothing", { headers: neighbourOf(headers) })).status).toBe(429);
    expect(await push(raw, "phoenix", "heartbeat")).toBe("ok");
    expect(await push(raw, "realtime:a", "phx_leave")).toBe("ok");
  });

  test("those of a known user count for the user, whatever the network", async () => {
    const token = { access_token: client.token("admin") };
    // The first join with a token counts for the network: the user is not known yet.
    const [one, other] = [await open(newClient()), await open(newClient())];
    expect(await push(one, "realtime:c", "phx_join", { ...acknowledged, ...token })).toBe("ok");
    expect(await push(one, "realtime:c", "broadcast", broadcast)).toBe("ok");
    expect(await push(other, "realtime:c", "phx_join", { ...acknowledged, ...token })).toBe("ok");
    expect(await push(other, "realtime:c", "broadcast", broadcast)).toBe("ok");
    expect(await push(one, "realtime:c", "broadcast", broadcast)).toEqual(refusal);
    expect(await push(other, "realtime:d", "phx_join", token)).toEqual(refusal);
    // Without the token, the networks have requests left.
    expect(await push(other, "realtime:e", "phx_join")).toBe("ok");
  });

  test("a join counts again for each 1,000 characters of its filters", async () => {
    const join = (values: number) => {
      const filter = `id=in.(${Array.from({ length: values }, (_, i) => 1000 + i).join(",")})`;
      return { config: { postgres_changes: [{ event: "*", schema: "public", table: "articles", filter }] } };
    };
    const raw = await open(newClient()); // the first request
    expect(await push(raw, "realtime:long", "phx_join", join(250))).toBe("ok");
    expect(await push(raw, "realtime:a", "phx_join")).toEqual(refusal);
  });

  test("a client that goes on after 100 refusals is disconnected with 4429", async () => {
    const raw = await open(newClient());
    for (let i = 0; i < 110; i++) raw.send([null, String(i), `realtime:${i}`, "phx_join", {}]);
    expect(await raw.closed()).toEqual({ code: 4429, reason: "too many operations" });
  });
});
