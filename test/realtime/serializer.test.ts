import { expect, test } from "vitest";
import { parseJoin } from "../../realtime/join.ts";
import { parseText, type Version } from "../../realtime/serializer.ts";

const parse = (value: unknown, version: Version) => parseText(Buffer.from(JSON.stringify(value)), version, 100);

test.each<[Version, unknown, string | null, string | null, unknown]>([
  [2, ["1", "2", "t", "e", { a: 1 }], "1", "2", { a: 1 }],
  [2, [null, 7, "t", "e", null], null, "7", {}],
  [1, { join_ref: 1.5, ref: "2", topic: "t", event: "e", payload: { a: [] }, more: 1 }, "1.5", "2", { a: [] }],
  [1, { topic: "t", event: "e" }, null, null, {}],
  [1, { topic: "t", event: "e", payload: [1] }, null, null, {}],
])("a message of version %i is read: %j", (version, value, joinRef, ref, payload) => {
  expect(parse(value, version)).toEqual({ joinRef, ref, topic: "t", event: "e", payload, body: null });
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
  [{ config: { presence: { key: 5 } } }, "config.presence.key must be a string"],
  [{ config: { postgres_changes_options: { since: 5 } } }, "config.postgres_changes_options.since must be a string"],
  [binding({}), "config.postgres_changes[0].event must be INSERT, UPDATE, DELETE or *"],
  [binding({ event: "*", table: 5 }), "config.postgres_changes[0].table must be a string"],
  [binding({ event: "*", select: "a" }), "config.postgres_changes[0].select must be an array of column names"],
  [binding({ event: "*", select: [5] }), "config.postgres_changes[0].select[0] must be the name of a column"],
])("a join with %j is refused", (payload, message) => {
  expect(() => parseJoin("realtime:a", payload, 100)).toThrow(message);
});

test("a binding keeps what the client sent, which the reply repeats", () => {
  const sent = { event: "insert", schema: "*", table: "a", select: [], sent: 1, more: { b: null } };
  expect(parseJoin("realtime:a", binding(sent), 100)).toMatchObject({
    isPrivate: false,
    presence: { isEnabled: false, key: "" },
    bindings: [{ sent, event: "INSERT", schema: null, table: null, filter: "", select: null, isPartial: false }],
  });
});
