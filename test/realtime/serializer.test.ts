import { expect, test } from "vitest";
import * as ws from "ws";
import { parseFilter } from "../../realtime/filter.ts";
import { type JoinRequest, parseJoin } from "../../realtime/join.ts";
import { parseText, type Version, writeBinary, writeText } from "../../realtime/serializer.ts";

const parse = (value: unknown, version: Version) => parseText(Buffer.from(JSON.stringify(value)), version, 100);

test.each<[Version, unknown, string | null, string | null, unknown]>([
  [2, ["1", "2", "t", "e", { a: 1 }], "1", "2", { a: 1 }],
  [2, [null, 7, "t", "e", null], null, "7", {}],
  [1, { join_ref: 1.5, ref: "2", topic: "t", event: "e", payload: { a: [] }, more: 1 }, "1.5", "2", { a: [] }],
  [1, { topic: "t", event: "e" }, null, null, {}],
])("a message of version %i is read: %j", (version, value, joinRef, ref, payload) => {
  expect(parse(value, version)).toEqual({ joinRef, ref, topic: "t", event: "e", payload, fault: null, body: null });
});

test.each([[[1]], ["text"], [5], [true]])("the payload %j is no object", (payload) => {
  expect(parse({ topic: "t", event: "e", payload }, 1)).toMatchObject({ fault: "the payload must be an object" });
});

test.each<[Version, unknown, string]>([
  [2, {}, "a message must be an array [join_ref, ref, topic, event, payload]"],
  [2, ["1", "2", "t", "e"], "a message must be an array [join_ref, ref, topic, event, payload]"],
  [2, ["1", "2", "t", "e", {}, {}], "a message must be an array [join_ref, ref, topic, event, payload]"],
  [2, [{}, "2", "t", "e", {}], "join_ref must be a short string"],
  [2, ["1", "x".repeat(256), "t", "e", {}], "ref must be a short string"],
  [2, ["1", "2", 5, "e", {}], "topic must be a string"],
  [1, [], "a message must be an object with topic, event, payload and ref"],
  [1, { topic: "t" }, "event must be a string"],
])("a message of version %i is refused: %j", (version, value, message) => {
  expect(() => parse(value, version)).toThrow(new Error(message));
});

const binding = (sent: unknown) => ({ config: { postgres_changes: [sent] } });

test.each([
  [{ config: { broadcast: [] } }, "config.broadcast must be an object"],
  [{ config: { presence: { key: true } } }, "config.presence.key must be a string"],
  [{ config: { broadcast: { replay: { since: 0 } } } }, "Replay is not allowed for public channels"],
  [{ access_token: 5 }, "access_token must be a string"],
  [{ config: { postgres_changes_options: { since: 5 } } }, "config.postgres_changes_options.since must be a string"],
  [binding({}), "config.postgres_changes[0].event must be INSERT, UPDATE, DELETE or *"],
  [binding({ event: "*", table: 5 }), "config.postgres_changes[0].table must be a string"],
  [binding({ event: "*", select: "a" }), "config.postgres_changes[0].select must be an array of column names"],
  [binding({ event: "*", select: [5] }), "config.postgres_changes[0].select[0] must be the name of a column"],
])("a join with %j is refused", (payload, message) => {
  expect(() => parseJoin("realtime:a", payload, 100)).toThrow(message);
});

test.each([
  [{ since: 0 }, { since: 0, limit: 25 }],
  [
    { since: -5, limit: null },
    { since: -5, limit: 25 },
  ],
  [
    { since: 1, limit: 7, more: 1 },
    { since: 1, limit: 7 },
  ],
  [
    { since: 1, limit: 1000 },
    { since: 1, limit: 25 },
  ],
  [
    { since: 1, limit: 0 },
    { since: 1, limit: 1 },
  ],
  [null, null],
  [false, null],
])("the replay %j of a private channel is read", (replay, read) => {
  expect(parseJoin("realtime:a", { config: { private: true, broadcast: { replay } } }, 100).replay).toEqual(read);
});

test.each([
  ...[{}, { limit: 5 }, { since: "not a number" }, { since: null }, { since: 1.5 }, { since: 1e17 }, { since: -1e17 }],
  ...[{ since: 0, limit: "not a number" }, { since: 0, limit: 1.5 }, true, "yes", 5, [0]],
])("the replay %j of a private channel is refused", (replay) => {
  const join = () => parseJoin("realtime:a", { config: { private: true, broadcast: { replay } } }, 100);
  expect(join).toThrow("Replay params are not valid");
});

/** Each flag of a join, and where it is in the request. */
const FLAGS: readonly [string, (flag: unknown) => object, (request: JoinRequest) => boolean][] = [
  ["private", (flag) => ({ private: flag }), ({ isPrivate }) => isPrivate],
  ["broadcast.ack", (flag) => ({ broadcast: { ack: flag } }), ({ broadcast }) => broadcast.ack],
  ["broadcast.self", (flag) => ({ broadcast: { self: flag } }), ({ broadcast }) => broadcast.self],
  ["broadcast.replication_ready", (flag) => ({ broadcast: { replication_ready: flag } }), ({ awaitsSql }) => awaitsSql],
  ["presence.enabled", (flag) => ({ presence: { enabled: flag } }), ({ presence }) => presence.isEnabled],
  ...(["leave", "positions"] as const).map((name): (typeof FLAGS)[number] => [
    `postgres_changes_options.${name}`,
    (flag) => ({ postgres_changes_options: { [name]: flag } }),
    ({ options }) => options[name],
  ]),
  [
    "postgres_changes_options.partial",
    (flag) => ({ postgres_changes: [{ event: "*" }], postgres_changes_options: { partial: flag } }),
    ({ bindings }) => bindings[0]!.isPartial,
  ],
];

test.each(FLAGS)("the flag %s of a join is a boolean or its name in any case", (name, configOf, read) => {
  const parsed = (flag: unknown) => read(parseJoin("realtime:a", { config: configOf(flag) }, 100));
  expect([true, "true", "True", "TRUE"].map(parsed)).toEqual([true, true, true, true]);
  expect([false, "false", "FALSE", null, undefined].map(parsed)).toEqual([false, false, false, false, false]);
  for (const flag of ["yes", "", "1", "on", 1, 0, {}, [], [true]])
    expect(() => parsed(flag)).toThrow(`config.${name} must be true or false`);
});

test.each([
  [7, "7"],
  [1.5, "1.5"],
  ["ada", "ada"],
  ["", ""],
  [null, ""],
])("the key %j of a presence is the text %j", (key, text) => {
  expect(parseJoin("realtime:a", { config: { presence: { key } } }, 100).presence.key).toBe(text);
});

test.each([
  ["name=eq.a(b,id=gt.1", "quote the value that has a single bracket"],
  ["name=eq.:),id=gt.1", "quote the value that has a single bracket"],
  ["name=eq.a, b", "a condition is column=operator.value"],
  ['name=eq."a', "a quote is not closed"],
])("the filter %s is refused: %s", (filter, message) => {
  expect(() => parseFilter(filter)).toThrow(message);
});

test("a binding keeps what the client sent, which the reply repeats", () => {
  const sent = { event: "insert", schema: "*", table: "a", select: [], sent: 1, more: { b: null } };
  expect(parseJoin("realtime:a", binding(sent), 100)).toMatchObject({
    isPrivate: false,
    presence: { isEnabled: false, key: "" },
    bindings: [{ sent, event: "INSERT", schema: null, table: null, filter: "", select: null, isPartial: false }],
  });
});

/** Missing in @types/ws. */
const { Receiver } = ws as any;

test.each([0, 2, 50, 60, 65_000, 65_500, 70_000, 1_000_000])(
  "a message with %i characters more is one frame",
  async (length) => {
    const payload = JSON.stringify({ text: "ä".repeat(length / 2) });
    const text = writeText(2, { topic: "realtime:room", event: "system" }, payload);
    const binary = writeBinary("realtime:room", "event", "", Buffer.alloc(length, 7));
    const receiver = new Receiver({ isServer: false });
    const messages: [data: Buffer, isBinary: boolean][] = [];
    receiver.on("message", (data: Buffer, isBinary: boolean) => messages.push([data, isBinary]));
    // In parts, as a socket has them.
    const sent = Buffer.concat([text, binary]);
    for (let at = 0; at < sent.length; at += 30_000) receiver.write(sent.subarray(at, at + 30_000));
    await expect.poll(() => messages.length).toBe(2);
    expect(messages[0]).toEqual([Buffer.from(`[null,null,"realtime:room","system",${payload}]`), false]);
    expect(messages[1]![1]).toBe(true);
    expect(messages[1]![0].subarray(-length || Number.POSITIVE_INFINITY)).toEqual(Buffer.alloc(length, 7));
  },
);
