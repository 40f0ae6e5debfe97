import { buildClientSchema, getIntrospectionQuery } from "postgraphile/graphql";
import { describe, expect, test } from "vitest";
import { asked } from "./graphql-values.ts";
import type { Zoo } from "./zoo.ts";

/** What only GraphQL has: cursors beside rows, types of columns, the spelling of times, and operators of filters. */
export function testGraphQL(zoo: () => Zoo): void {
  const { data, errors, nodes } = asked(zoo);

  test("clients can read the whole schema, and each default value is one of its type", async () => {
    const schema = buildClientSchema(await data(getIntrospectionQuery()));
    const { onConflict } = Object.fromEntries(
      schema
        .getMutationType()!
        .getFields()
        .upsertDog!.args.map((each) => [each.name, each]),
    );
    expect(onConflict).toMatchObject({ defaultValue: "PRIMARY_KEY" });
  });

  test.each([
    [
      "beside its cursor",
      "blanks",
      "a b __typename",
      [
        [1, "ok"],
        [2, null],
        [null, null],
        [null, null],
      ],
    ],
    ["of which a caller may read one column", "hiddenBlanks", "name", [["a"], [null]]],
  ])("a row of nothing but null is a row: %s", async (_, list, fields, rows) => {
    const found = nodes((await data(`{ ${list} { edges { cursor node { ${fields} } } } }`))[list]);
    expect(found.map(({ __typename: _, ...row }: any) => JSON.stringify(Object.values(row))).sort()).toEqual(
      rows.map((row) => JSON.stringify(row)).sort(),
    );
  });

  test("a row of nothing but null is a row, and NULL is null: in a list, and in a column of its own", async () => {
    const NULLS = { x: null, label: null };
    expect(
      nodes(
        (await data("{ gauges(orderBy: ID_ASC) { edges { node { spans { x label } span { x label } } } } }")).gauges,
      ),
    ).toEqual([
      { spans: [{ x: 1, label: "a" }, NULLS, null], span: NULLS },
      { spans: [], span: null },
    ]);
  });

  test("rows of a table in columns have its computed columns", async () => {
    expect(
      nodes(
        (await data("{ yards(orderBy: ID_ASC) { edges { node { main { id label } others { id label } } } } }")).yards,
      ),
    ).toEqual([
      { main: { id: "7", label: "depot 7" }, others: [{ id: "8", label: "depot 8" }, null] },
      { main: null, others: [] },
    ]);
  });

  test.each([
    ["LeftBoard", { id: true, depotId: false }],
    ["RightBoard", { id: true, depotId: false }],
    ["FullBoard", { id: false, depotId: false }],
    ["NestedBoard", { id: true, depotId: false }],
    ["SeenBoard", { id: true, depotId: false }],
    ["InnerBoard", { id: true, depotId: true }],
  ])("a column of a view is nullable if a join can leave it empty: %s: %j", async (name, isNonNull) => {
    const { fields } = (await data(`{ __type(name: "${name}") { fields { name type { kind } } } }`)).__type;
    const found = fields.filter(({ name }: any) => name in isNonNull);
    expect(Object.fromEntries(found.map(({ name, type }: any) => [name, type.kind === "NON_NULL"]))).toEqual(isNonNull);
  });

  test("a new row of a view does not need a column that a join can leave empty", async () => {
    expect(await data('mutation { createLeftBoard(input: { id: "10" }) { id depotId } }')).toEqual({
      createLeftBoard: { id: "10", depotId: null },
    });
    await zoo().sql("delete from trucks where id = 10");
  });

  test.each([
    [
      "timestamptz",
      "2026-11-20T05:05:49.123456Z 2024-01-01T00:00:00.000Z infinity -infinity 0044-03-15T12:00:00.000Z_BC 12026-01-01T00:00:00.000Z",
    ],
    [
      "timestamp",
      "2026-11-20T07:05:49.123456 2024-01-01T00:00:00.000 infinity -infinity 0044-03-15T12:00:00.500_BC 12026-01-01T00:00:00.000",
    ],
    ["date", "2026-11-20 infinity -infinity 0044-03-15_BC 12026-01-01"],
    ["time", "07:05:49.123456 24:00:00.000000 00:00:00.000000"],
  ])("a %s is what Postgres has", async (type, texts) => {
    const cells = zoo().cells.filter((cell) => cell.type === type);
    const [{ column }] = cells as [(typeof cells)[0]];
    const { cages } = await data(
      `{ cages(orderBy: ID_ASC, filter: { id: { in: [${cells.map(({ id }) => id)}] } }) { edges { node { ${column} } } } }`,
    );
    expect(
      nodes(cages)
        .map((row: any) => row[column].replace(" ", "_"))
        .join(" "),
    ).toBe(texts);
  });

  test.each(["infinite", "2024-13-01", "2024-01-01 AD", "yesterday"])("%s is no time", async (text) => {
    const { column } = zoo().cells.find(({ type }) => type === "timestamptz")!;
    expect(await errors(`{ cages(filter: { ${column}: { equalTo: "${text}" } }) { edges { node { id } } } }`)).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR: /),
    ]);
  });

  test("a column whose NOT NULL is not valid is nullable", async () => {
    expect(nodes((await data("{ looses { edges { node { id note } } } }")).looses)).toEqual([{ id: "1", note: null }]);
  });

  test("a foreign key over periods, which compares by overlap, is no relationship", async () => {
    const { fields } = (await data('{ __type(name: "Bill") { fields { name } } }')).__type;
    expect(fields.map(({ name }: any) => name)).toEqual(["id", "stay", "during"]);
  });

  test.each([
    ["jsonpath", "$[", "syntax error at end of jsonpath input"],
    ["tsquery", "a b", 'syntax error in tsquery: "a b"'],
    ["regclass", "a b", "invalid name syntax"],
  ])("a %s that has no such syntax is refused with the reason: %s", async (name, value, reason) => {
    const { column } = zoo().cells.find(({ type }) => type === name)!;
    expect(await errors(`mutation { createCage(input: { ${column}: "${value}" }) { id } }`)).toEqual([
      `VALIDATION_ERROR: ${reason}`,
    ]);
  });

  test("a char(n) has one value everywhere, as in the table interface", async () => {
    const query = `{ codes(orderBy: ID_ASC, first: 1) { edges { node { code cards(limit: 1) { codes code { code } } } } } }`;
    expect(nodes((await data(query)).codes)).toEqual([
      { code: "AB    ", cards: [{ codes: ["AB    ", "CD    "], code: { code: "AB    " } }] },
    ]);
    expect((await zoo().rest("codes?id=eq.1&select=code")).json).toEqual([{ code: "AB    " }]);
  });

  describe("a filter compares a column with the operators of its type", () => {
    test.each([
      ["codes", '{ code: { equalTo: "AB    " } }'],
      ["codes", '{ code: { equalTo: "AB" } }'],
      ["codes", '{ code: { in: ["AB    "] } }'],
      ["codes", '{ code: { notIn: ["CD  "] } }'],
      ["codes", '{ code: { notEqualTo: "CD  " } }'],
      ["codes", '{ code: { lessThan: "AC" } }'],
      ["codes", '{ code: { startsWith: "A" } }'],
      ["codes", '{ code: { equalToInsensitive: "ab    " } }'],
      ["codes", '{ code: { inInsensitive: ["ab    "] } }'],
      ["cards", '{ codes: { anyEqualTo: "AB" } }'],
      ["cards", '{ codes: { contains: ["CD   "] } }'],
      ["members", '{ mail: { equalTo: "ANN@x.ORG" } }'],
      ["members", '{ mail: { in: ["ann@x.org"] } }'],
      ["members", '{ mail: { startsWith: "ann" } }'],
      ["members", '{ mail: { endsWith: "ORG" } }'],
      ["members", '{ mail: { includes: "@x" } }'],
      ["members", '{ mail: { like: "ann@%" } }'],
      ["members", '{ mail: { matches: "^ann" } }'],
      ["members", '{ mail: { equalToInsensitive: "ann@x.org" } }'],
      ["members", '{ mail: { inInsensitive: ["ANN@x.org"] } }'],
      ["members", '{ mail: { lessThan: "ANO" } }'],
      ["members", '{ others: { anyEqualTo: "bob@x.org" } }'],
      ["members", '{ others: { contains: ["bob@x.org"] } }'],
      ["members", '{ others: { overlaps: ["bob@x.org"] } }'],
      ["members", '{ others: { equalTo: ["bob@x.org"] } }'],
    ])("%s(filter: %s)", async (list, filter) => {
      expect(nodes((await data(`{ ${list}(filter: ${filter}) { edges { node { id } } } }`))[list])).toEqual([
        { id: "1" },
      ]);
    });
  });

  test("JSON in a document keeps every digit, or is refused", async () => {
    const { column } = zoo().cells.find(({ type }) => type === "jsonb")!;
    const create = (json: string) => `mutation { createCage(input: { ${column}: ${json} }) { id } }`;
    expect(await errors(create("{ big: 9007199254740993 }"))).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR: .*send the JSON as a variable/),
    ]);
    const { createCage } = await data(create("9007199254740993"));
    expect(await zoo().sql(`delete from cages where id = $1 returning ${column}::text as text`, createCage.id)).toEqual(
      [{ text: "9007199254740993" }],
    );
    await data(create("{ n: 1.5 }"));
    await zoo().sql("delete from cages where id > $1", zoo().cells.length);
  });
}
