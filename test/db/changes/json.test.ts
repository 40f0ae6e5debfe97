import { beforeAll, describe, expect, test } from "vitest";
import { imageJson, parseRow, valueJson } from "../../../db/changes/json.ts";
import { startFeed, subscribe } from "../../support/changes.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  await database.owner.query(TYPES);
  return () => database.drop();
});

const TYPES = `
  create type mood as enum ('sad', 'happy "ish"');
  create domain positive as int check (value > 0);
  create domain labels as text[];
  create type point3 as (x int, y numeric, label text, tags text[]);
  create type nested as (at timestamptz, inner_point point3, flags bool[]);`;

/** Each column has one of these values, in rows of their own. */
const VALUES: readonly (readonly [type: string, ...values: string[]])[] = [
  ["bool", "true", "false", "null"],
  ["int2", "-32768"],
  ["int8", "9007199254740993", "-1"],
  ["float4", "1.5e-30", "'NaN'", "'-Infinity'"],
  ["float8", "1e300", "0.1", "'Infinity'"],
  ["numeric", "12.50", "-0.00000000000000000000000000000001", "'NaN'", "'Infinity'"],
  ["numeric(10, 2)[]", "'{1.50,NULL,NaN}'"],
  ["oid", "42"],
  ["text", "''", "'NULL'", `E'a "quoted" \\\\ back\\nslash\\t\\u0001 ünï 😀'`],
  ["varchar(10)", "'(a,b)'"],
  ["char(5)", "'ab'"],
  ["name", "'a name'"],
  ["bytea", `'\\x00ff'`],
  ["uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
  ["date", "'2026-11-20'", "'infinity'", "'0044-03-15 BC'"],
  ["time", "'07:05:49.5'"],
  ["timetz", "'07:05:49+02'"],
  ["timestamp", "'2026-11-20 07:05:49.559'", "'-infinity'", "'0044-03-15 12:00 BC'", "'12026-01-01'"],
  ["timestamptz", "'2026-11-20 07:05:49.5+02'", "'infinity'", "'0044-03-15 12:00+00 BC'"],
  ["timestamptz[]", `'{"2026-11-20 07:05:49+00",NULL}'`],
  ["interval", "'1 year 2 days 03:04:05.6'"],
  ["json", `'{"b": 1,\n "a": [1, 2]}'`, "'null'", `'"text"'`],
  ["jsonb", `'{"b": 1, "a": [1, 2.50]}'`],
  ["jsonb[]", `array['{"a": "x,y}"}', 'null']::jsonb[]`],
  ["text[]", "'{}'", `array['', 'NULL', null, 'a"b', 'a\\b', '{x}', 'a,b', ' ']`, "'[2:3]={a,b}'"],
  ["int[]", "'{{1,2},{3,NULL}}'", "'[0:1][1:1]={{1},{2}}'"],
  ["bool[]", "'{t,f,NULL}'"],
  ["box[]", "'{(1,1),(0,0);(3,3),(2,2)}'"],
  ["int4range", "'[1,5)'", "'empty'"],
  ["int4multirange", "'{[1,5),[7,9)}'"],
  ["inet", "'10.0.0.1/8'"],
  ["bit(3)", "B'101'"],
  ["tsvector", `'a:1 b:2'`],
  ["mood", `'happy "ish"'`],
  ["mood[]", `array['sad', 'happy "ish"']::mood[]`],
  ["positive", "7"],
  ["positive[]", "'{7,8}'"],
  ["labels", `array['a', 'b c']`],
  [
    "point3",
    `row(1, 2.50, 'a "b" \\ ,c)', array['x,y', null])`,
    "row(null, null, '', '{}')",
    "row(null, null, null, null)",
  ],
  ["point3[]", "array[row(1, 2, 'x', null)::point3, null]"],
  ["nested", "row('2026-11-20 07:05:49+00', row(1, 2, E'multi\\nline', '{a}'), '{t,f}')"],
  ["int2vector", "'1 2'", "''"],
  ["oidvector", "'1 2'"],
];

describe("values", () => {
  test("of every type become the JSON of the table interface", async () => {
    const { owner } = database;
    const columns = VALUES.map(([type], i) => `c${i} ${type}`);
    await owner.query(`drop table if exists everything; create table everything (id int primary key, ${columns})`);
    await owner.query("alter publication content_changes add table everything");
    const feed = await startFeed(database, "logical");
    const inserted = await subscribe(feed, { table: "everything" });
    const rows = Math.max(...VALUES.map(([, ...values]) => values.length));
    for (let row = 0; row < rows; row++) {
      const values = VALUES.map(([type, ...given]) => `(${given[row] ?? "null"})::${type}`);
      await owner.query(`insert into everything values (${row}, ${values})`);
    }
    const changes = await inserted.take(rows);
    await owner.query("set timezone = 'UTC'");
    const { rows: expected } = await owner.query(
      "select row_to_json(e)::text as json from everything as e order by id",
    );
    for (const [row, { table, new: image }] of changes.entries()) {
      const json = imageJson(table, image!, [...image!.keys()]);
      expect(json).toBe(expected[row].json);
    }
    const names = Object.fromEntries(changes[0]!.table.columns.map(({ name, typeName }) => [name, typeName]));
    expect(names).toMatchObject({ id: "int4", c0: "bool", c6: "_numeric", c35: "positive", c37: "labels" });
  });

  test("of a composite type that DDL changes are read with its fields", async () => {
    const { owner } = database;
    await owner.query("create type pair as (a int, b int); create table pairs (id int primary key, value pair)");
    await owner.query("alter publication content_changes add table pairs");
    const feed = await startFeed(database, "logical");
    const inserted = await subscribe(feed, { table: "pairs" });
    await owner.query("insert into pairs values (1, row(1, 2))");
    const [before] = await inserted.take(1);
    await owner.query("alter table pairs add note text");
    await owner.query("alter type pair rename attribute b to renamed cascade");
    await owner.query("insert into pairs values (2, row(3, 4), 'new')");
    const [after] = await inserted.take(1);
    const jsonOf = ({ table, new: image }: typeof before & {}) => imageJson(table, image!, [1]);
    expect([jsonOf(before!), jsonOf(after!)]).toEqual(['{"value":{"a":1,"b":2}}', '{"value":{"a":3,"renamed":4}}']);
    await owner.query("drop table pairs; drop type pair");
  });
});

test("only the chosen columns are written, and those without a value are left out", () => {
  const text = { typeName: "text", type: 25, shape: { kind: "text" } } as const;
  const table = { oid: 1, schema: "public", name: "t", columns: ["a", "b", "c"].map((name) => ({ name, ...text })) };
  expect(imageJson(table, ["x", undefined, null], [0, 1, 2])).toBe('{"a":"x","c":null}');
  expect(imageJson(table, ["x", "y", "z"], [1])).toBe('{"b":"y"}');
});

test.each([
  ['(1,"a ""b""",,"")', ["1", 'a "b"', null, ""]],
  ['("a\\\\b","(x,y)")', ["a\\b", "(x,y)"]],
  ["(,)", [null, null]],
  ["()", [null]],
])("the row %s has the values %j", (row, values) => {
  expect(parseRow(row)).toEqual(values);
});

test("an array that lacks its end does not hang", () => {
  const shape = { kind: "array", element: { kind: "text" }, delimiter: "," } as const;
  expect(() => valueJson('{a,"b', shape)).not.toThrow();
});
