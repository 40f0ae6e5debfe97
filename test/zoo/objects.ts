import { expect, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { send } from "../support/http-client.ts";
import { namedIn, readTypes } from "./graphql.ts";
import type { Zoo } from "./zoo.ts";

/** A relation of the zoo. A `row` that is written is found by the filter `key`, and deleted. */
type Relation = {
  readonly name: string;
  /** Its list in GraphQL; none if it is not shown. */
  readonly list?: string;
  readonly row?: Readonly<Record<string, unknown>>;
  readonly key?: string;
  /** What is logged of a deleted row of a partition, and of one with a stored generated column. */
  readonly oldKey?: Readonly<Record<string, unknown>>;
  /** Changes of views and foreign tables are not sent. */
  readonly isSilent?: true;
  /** Whether a stream begins with fewer rows than it has: without those of tables that inherit from it. */
  readonly isInherited?: true;
  /** What reads get instead of rows. */
  readonly refusal?: string;
};

/** Parameters of URLs. A table and a column have the name of each. */
const WORDS = "select order limit offset columns on_conflict and or not apikey api_key rpc count id first filter".split(
  " ",
);
const LISTS: Readonly<Record<string, string>> = { columns: "columns", on_conflict: "onConflicts", api_key: "apiKeys" };

const RELATIONS: readonly Relation[] = [
  { name: "blanks", list: "blanks", row: { a: 9, b: null }, key: "a=eq.9" },
  { name: "recent_blanks", list: "recentBlanks", row: { b: "x", a: 8 }, key: "a=eq.8", isSilent: true },
  {
    name: "gauges",
    list: "gauges",
    row: { id: 9, spans: [{ x: null, label: null }, null], span: { x: 1, label: "NULL" } },
    key: "id=eq.9",
  },
  { name: "animals", list: "animals", row: { id: 9, name: null }, key: "id=eq.9", isInherited: true },
  { name: "dogs", list: "dogs", row: { id: 9, name: "", breed: " " }, key: "id=eq.9" },
  {
    name: "logs",
    list: "logs",
    row: { id: 9, region: "us", note: null },
    key: "id=eq.9",
    oldKey: { id: 9, region: "us" },
  },
  {
    name: "left_boards",
    list: "leftBoards",
    row: { id: 9, depot_id: null, city: null },
    key: "id=eq.9",
    isSilent: true,
  },
  { name: "right_boards", list: "rightBoards", isSilent: true },
  { name: "full_boards", list: "fullBoards", isSilent: true },
  { name: "nested_boards", list: "nestedBoards", isSilent: true },
  { name: "signs", list: "signs", row: { id: 9, label: "OWL" }, key: "id=eq.9", isSilent: true },
  { name: "twice", list: "twices", row: { id: 9, name: "owl" }, key: "nr=eq.9", isSilent: true },
  { name: "filled", list: "filleds", isSilent: true },
  { name: "unfilled", list: "unfilleds", isSilent: true, refusal: "55000" },
  { name: "foreign_depots", list: "foreignDepots", row: { id: 9, city: "Rome" }, key: "id=eq.9", isSilent: true },
  { name: "rejects", list: "rejects", row: { id: 9, note: "keep" }, key: "id=eq.9" },
  { name: "seats", list: "seats", row: { id: 9, pos: 9 }, key: "id=eq.9" },
  { name: "mades", list: "mades", row: { n: 9 }, key: "n=eq.9", oldKey: { id: 2 } },
  {
    name: `A "Very" long. name, it's (63) characters {é} of [all] & kind?`,
    list: "aVeryLongNameIts63CharactersEOfAllKindS",
    row: { 'Id "x".y': 9, " ": "a", "a,b": "b", "(c)": null, ü: "" },
    key: `${encodeURIComponent('"Id \\"x\\".y"')}=eq.9`,
  },
  {
    name: "__proto__",
    list: "_protoS",
    row: { constructor: 9, ["__proto__"]: "a", toString: "b" },
    key: "constructor=eq.9",
  },
  { name: "constructor", list: "constructors", row: { id: 9, prototype: "a" }, key: "id=eq.9" },
  ...WORDS.map(
    (word): Relation => ({
      name: word,
      list: LISTS[word] ?? `${word}s`,
      row: { key: 9, [word]: "a" },
      key: `key=eq.9&and=(${word}.eq.a)`,
    }),
  ),
];

/** Each relation is read, written and followed, with the same rows on each interface. */
export function testObjects(zoo: () => Zoo): void {
  test.each(RELATIONS)(
    "$name: all its rows are read, a row is written and deleted, and its changes arrive",
    async (relation) => {
      const { name, list, row, key, oldKey, isSilent, isInherited, refusal } = relation;
      const { rest, sql, service } = zoo();
      const path = encodeURIComponent(name);
      const table = `"${name.replaceAll('"', '""')}"`;
      if (refusal) return expect((await send(`${service.url}/rest/v1/${path}`)).json).toMatchObject({ code: refusal });
      const rowsIn = async (from: string) =>
        (await sql(`select row_to_json(t) as row from ${from} as t`)).map((each) => each.row);
      const stored = () => rowsIn(table);
      expect(inOrder((await rest(path)).json)).toEqual(inOrder(await stored()));
      expect(list && (await rowsOf(zoo(), list))).toEqual(list && textsOf(await stored()));

      const stream = new EventStreamClient(`${service.url}/rest/v1/${path}`);
      const client = await new ChannelClient(service, "127.0.0.1").open();
      const sent: any[] = [];
      client.socket.on("message", (data) => sent.push(JSON.parse(String(data))));
      const reply = await client.ask("zoo", "phx_join", {
        config: { postgres_changes: [{ event: "*", schema: "public", table: name }] },
      });
      expect([name, reply.status]).toEqual([name, isSilent ? "error" : "ok"]);
      await expect.poll(() => stream.isEnded || stream.events.length > 0).toBe(true);
      expect(stream.events.map(({ event, data }) => [event, inOrder(data)])).toEqual(
        isSilent ? [] : [["snapshot", inOrder(await rowsIn(isInherited ? `only ${table}` : table))]],
      );
      if (isSilent) expect(stream.status).toBe(400);
      if (!row) return;

      const before = await stored();
      expect((await rest(path, { method: "POST", body: row })).text).toBe("");
      const written = (await stored()).filter(
        (each) => !before.some((old) => JSON.stringify(old) === JSON.stringify(each)),
      );
      expect(written).toEqual([expect.objectContaining(row)]);
      expect((await rest(`${path}?${key}`)).json).toEqual(written);
      expect(list && (await rowsOf(zoo(), list))).toEqual(list && textsOf(await stored()));
      expect((await rest(`${path}?${key}`, { method: "DELETE", prefer: "return=representation" })).json).toEqual(
        written,
      );
      expect(inOrder(await stored())).toEqual(inOrder(before));
      if (isSilent) return;
      const events = (await stream.take(2, "INSERT", "DELETE")).map(({ event, data }) => [event, data.new ?? data.old]);
      const deleted = oldKey ?? written[0];
      expect(events).toEqual([
        ["INSERT", written[0]],
        ["DELETE", deleted],
      ]);
      const changes = () =>
        sent
          .filter((message) => message[3] === "postgres_changes")
          .map(([, , , , { data }]) => [data.type, data.record ?? data.old_record]);
      await expect.poll(changes).toEqual(events);
    },
  );
}

const inOrder = (rows: readonly any[]) => rows.map((row) => JSON.stringify(row)).sort();

/** The values of the columns of rows, as text: names, and the types of ids, differ in GraphQL. */
const textsOf = (rows: readonly any[]) => rows.map((row) => Object.values(row).map(textOf).join("|")).sort();
const textOf = (value: any): string =>
  typeof value !== "object" || value === null ? String(value) : `{${Object.values(value).map(textOf)}}`;

async function rowsOf(zoo: Zoo, list: string): Promise<string[]> {
  const { fieldIn, selectionOf, types } = await readTypes(zoo);
  const field = fieldIn("Query", list, "fields");
  if (!field)
    throw new Error(
      `no list ${list}: ${types
        .get("Query")
        .fields.map(({ name }: any) => name)
        .sort()
        .join(" ")}`,
    );
  const edge = namedIn(fieldIn(namedIn(field.type), "edges", "fields").type);
  const read = await zoo.graphql(
    `{ ${list} { edges { node ${selectionOf(namedIn(fieldIn(edge, "node", "fields").type))} } } }`,
  );
  if (read.errors) throw new Error(JSON.stringify(read.errors));
  return textsOf(JSON.parse(JSON.stringify(read.data[list].edges)).map(({ node }: any) => node));
}

const PART = { x: 1, z: "NaN" };
const NO_PART = { x: null, z: null };

/** The path of a function, the same in GraphQL if it is there, and the JSON of both. */
const FUNCTIONS: readonly (readonly [path: string, field: string | null, result: unknown])[] = [
  [
    "rpc/sample_blanks",
    "sampleBlanks { edges { node { a b } } }",
    [
      { a: 7, b: "x" },
      { a: null, b: null },
    ],
  ],
  ["rpc/again?order=a,b", "again { edges { node { a b } } }", "rows of blanks"],
  ["rpc/extremes", "extremes { low high }", { low: null, high: null }],
  ["rpc/no_blank", "noBlank { a b }", null],
  ["rpc/defaulted?a=1", "defaulted(a: 1)", "1-2-it's"],
  ["rpc/defaulted?a=1&c=x", 'defaulted(a: 1, c: "x")', "1-2-x"],
  ["rpc/listed?n=3", "listed(n: 3) { edges { node } }", [1, null, 3]],
  ["rpc/parts?select=x,z", "parts { edges { node { x z } } }", [PART, NO_PART]],
  [
    "rpc/pairs",
    "pairs { edges { node { n label } } }",
    [
      { n: 1, label: "a" },
      { n: null, label: null },
    ],
  ],
  ["rpc/turned?a=1&b=x", 'turned(a: 1, b: "x") { a b c }', { a: 2, b: "x!", c: null }],
  // In GraphQL, there is no function with arguments of any type, with a variable number of them, or with the name of another one.
  ["rpc/echo?value=1", null, expect.objectContaining({ code: "PGRST202" })],
  ["rpc/echoes?value={1,2}", null, expect.objectContaining({ code: "PGRST202" })],
  ["rpc/joined?words=a&words=b", null, "a-b"],
  ["rpc/shape_of?side=1", null, "square"],
  ["rpc/shape_of?width=1&height=2", null, "rectangle"],
  ["rpc/kind_of?value=1", null, expect.objectContaining({ code: "PGRST203" })],
  ["rpc/drop_row", null, expect.objectContaining({ code: "PGRST202" })],
  ["rpc/vacate?id=1", null, expect.objectContaining({ code: "PGRST202" })],
  ["rpc/total", null, expect.objectContaining({ code: "PGRST202" })],
  ["depots?select=label", "depots { edges { node { label } } }", [{ label: "depot 1" }]],
  ["trucks?select=label&order=id", "trucks { edges { node { label } } }", [{ label: "truck 1" }, { label: "truck 2" }]],
];

/** Functions return the same over REST and GraphQL. */
export function testFunctions(zoo: () => Zoo): void {
  test.each([0, 1, 3])("a set of void with %i rows is no body, and true in GraphQL", async (a) => {
    const reply = await zoo().rest("rpc/nothing", { method: "POST", body: { a } });
    expect([reply.status, reply.text]).toEqual([204, ""]);
    expect(await zoo().graphql(`mutation { nothing(a: ${a}) }`)).toEqual({ data: { nothing: true } });
  });

  test.each(FUNCTIONS)("%s is %s", async (path, field, result) => {
    const expected = result === "rows of blanks" ? await zoo().sql("select * from blanks order by a, b") : result;
    expect((await zoo().rest(path)).json).toEqual(expected);
    if (field === null) {
      const { fieldIn } = await readTypes(zoo());
      const name = /rpc\/(\w+)/.exec(path)![1]!.replace(/_(\w)/, (_, letter) => letter.toUpperCase());
      return expect(fieldIn("Query", name, "fields") ?? fieldIn("Mutation", name, "fields")).toBeUndefined();
    }
    const { data, errors } = await zoo().graphql(`{ result: ${field} }`);
    expect(errors).toBeUndefined();
    const read = data.result?.edges?.map(({ node }: any) => node) ?? data.result;
    expect(inOrder([JSON.parse(JSON.stringify(read))].flat())).toEqual(inOrder([expected].flat()));
  });
}
