import { describe, expect, test } from "vitest";
import { connect } from "../support/graphql-client.ts";
import { errorTexts, send } from "../support/http-client.ts";
import type { Zoo } from "./zoo.ts";

/** What only GraphQL has: cursors beside rows, types of columns, the spelling of times, and operators of filters. */
export function testGraphQL(zoo: () => Zoo): void {
  const data = async (query: string, variables?: object) => {
    const { data, errors } = JSON.parse(JSON.stringify(await zoo().graphql(query, variables)));
    if (errors) throw new Error(errorTexts({ errors }).join("; "));
    return data;
  };
  const errors = async (query: string, variables?: object) => errorTexts(await zoo().graphql(query, variables));
  const nodes = (connection: any) => connection.edges.map(({ node }: any) => node);

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

  describe("a number that is not finite is a text of Float", () => {
    const SELECTION = "value list";
    const ROWS = [
      { value: "-Infinity", list: ["-Infinity"] },
      { value: 1.5, list: ["NaN", 0, null] },
      { value: "Infinity", list: [] },
      { value: "NaN", list: ["Infinity"] },
    ];

    test.each(["first: 4", "last: 4"])("in rows, in order and on pages: %s", async (page) => {
      const query = `{ readings(orderBy: VALUE_ASC, ${page}) { edges { cursor node { ${SELECTION} } } } }`;
      const { edges } = (await data(query)).readings;
      expect(nodes({ edges })).toEqual(ROWS);
      const after = `{ readings(orderBy: VALUE_ASC, after: "${edges[2].cursor}") { edges { node { value } } } }`;
      expect(nodes((await data(after)).readings)).toEqual([{ value: "NaN" }]);
    });

    test("in aggregates and groups", async () => {
      const fields = "min { value } max { value } sum { value } average { value }";
      const { aggregates, groupedAggregates } = (
        await data(
          `{ readings { aggregates { ${fields} } groupedAggregates(groupBy: [VALUE], having: { max: { value: { equalTo: "Infinity" } } }) { keys { value } } } }`,
        )
      ).readings;
      expect(aggregates).toEqual({
        min: { value: "-Infinity" },
        max: { value: "NaN" },
        sum: { value: "NaN" },
        average: { value: "NaN" },
      });
      expect(groupedAggregates).toEqual([{ keys: { value: "Infinity" } }]);
    });

    test.each([
      ['value: { equalTo: "NaN" }', ["NaN"]],
      ['value: { in: ["Infinity", "-Infinity", 1.5] }', ["-Infinity", 1.5, "Infinity"]],
      ['value: { greaterThan: 1.5, lessThan: "NaN" }', ["Infinity"]],
      ['list: { contains: ["NaN"] }', [1.5]],
      ['list: { anyEqualTo: "Infinity" }', ["NaN"]],
    ])("in a filter: { %s }", async (filter, values) => {
      const query = `{ readings(orderBy: VALUE_ASC, filter: { ${filter} }) { edges { node { value } } } }`;
      expect(nodes((await data(query)).readings)).toEqual(values.map((value) => ({ value })));
    });

    test("as the argument and the result of a function, and in rows that are written", async () => {
      expect(await data('{ a: halved(n: "-Infinity") b: halved(n: 3) }')).toEqual({ a: "-Infinity", b: 1.5 });
      const row = { value: "NaN", list: [null, "Infinity", 2] };
      const write = `mutation ($row: CreateReadingInput!, $patch: UpdateReadingInput!) {
        createReading(input: $row) { value list }
        updateReading(id: 9, input: $patch) { value list }
        createReadings(input: [{ id: 10, value: "-Infinity", list: ["NaN"] }]) { readings { value list } }
      }`;
      expect(await data(write, { row: { id: "9", ...row }, patch: { value: "Infinity" } })).toEqual({
        createReading: row,
        updateReading: { ...row, value: "Infinity" },
        createReadings: { readings: [{ value: "-Infinity", list: ["NaN"] }] },
      });
      const stored = "delete from readings where id > 4 returning value::text, list::text";
      expect(await zoo().sql(stored)).toEqual([
        { value: "Infinity", list: "{NULL,Infinity,2}" },
        { value: "-Infinity", list: "{NaN}" },
      ]);
    });

    test("in a change", async () => {
      const client = connect(zoo().service);
      const changes = await client.subscribe(
        'subscription { onReadingChanged(filter: { value: { equalTo: "NaN" } }) { new { value list } old { value } } }',
      );
      const created = { onReadingChanged: { new: { value: "NaN", list: ["Infinity"] }, old: null } };
      await zoo().sql("insert into readings values (9, 'NaN', '{Infinity}')");
      await changes.expect(created);
      await zoo().sql("delete from readings where id = 9");
      await changes.expect(created, { onReadingChanged: { new: null, old: { value: "NaN" } } });
    });

    test.each(['"nan"', '"1.5"', '"infinity"', '""', "true"])("%s is none", async (value) => {
      expect(await errors(`{ readings(filter: { value: { equalTo: ${value} } }) { edges { node { id } } } }`)).toEqual([
        expect.stringMatching(/^VALIDATION_ERROR: Float cannot represent non numeric value/),
      ]);
    });
  });

  describe("an array of several dimensions", () => {
    const SELECTION = "words days docs spans { x } ranges { isEmpty } moods labels ids lasts { days } keys";
    const FIELDS = SELECTION.replaceAll(/ \{.*?\}/g, "").split(" ");

    test("is an error of its field, beside which all others are there", async () => {
      const { data: found, errors: faults } = await zoo().graphql(
        `{ grids(orderBy: ID_ASC) { edges { node { id ${SELECTION} } } } }`,
      );
      const [one, two] = nodes(found.grids);
      expect(two).toEqual({ id: "2", ...Object.fromEntries(FIELDS.map((field) => [field, null])) });
      for (const field of FIELDS) expect([field, one[field]?.length]).toEqual([field, 1]);
      const fault = (field: string) => ({
        path: ["grids", "edges", JSON.rawJSON("1"), "node", field],
        message: expect.stringMatching(/^the array has several dimensions, and a list one: read it at /),
        extensions: { code: "VALIDATION_ERROR" },
      });
      const byField = faults.toSorted((a: any, b: any) => a.path[4].localeCompare(b.path[4]));
      expect(byField).toEqual(FIELDS.toSorted().map((field) => expect.objectContaining(fault(field))));
    });

    test.each(
      FIELDS.filter((field) => !["spans", "docs", "keys"].includes(field)).flatMap((field) => [
        [field, "equalTo"],
        [field, "contains"],
      ]),
    )("is refused in a filter: %s.%s", async (field, operator) => {
      const type = (
        await data('{ __type(name: "GridFilter") { inputFields { name type { name } } } }')
      ).__type.inputFields.find(({ name }: any) => name === field).type.name;
      const { inputFields } = (
        await data(
          `{ __type(name: "${type}") { inputFields { name type { kind name ofType { kind name ofType { name } } } } } }`,
        )
      ).__type;
      const { kind, name, ofType } = inputFields.find((each: any) => each.name === operator).type;
      const written = kind === "LIST" ? `[${ofType.name ?? `${ofType.ofType.name}!`}]` : name;
      for (const value of [[["a"]], [["1"], ["2"]], [[1]]]) {
        const asked = `query ($value: ${written}) { grids(filter: { ${field}: { ${operator}: $value } }) { edges { node { id } } } }`;
        for (const error of await errors(asked, { value })) expect(error).toMatch(/^VALIDATION_ERROR: /);
        const literal = `{ grids(filter: { ${field}: { ${operator}: ${JSON.stringify(value)} } }) { edges { node { id } } } }`;
        expect(await errors(literal)).toEqual(expect.arrayContaining([expect.stringMatching(/^VALIDATION_ERROR: /)]));
      }
    });
  });

  test.each([
    ["infinity", "Infinity"],
    ["-infinity", "-Infinity"],
  ])("an interval of %s has infinitely many seconds: %s", async (text, seconds) => {
    const { column, id } = zoo().cells.find(({ type, literal }) => type === "interval" && literal === `'${text}'`)!;
    const query = `{ cages(filter: { ${column}: { equalTo: { seconds: "${seconds}" } } }) { edges { node { id ${column} { years months days hours minutes seconds } } } } }`;
    expect(nodes((await data(query)).cages)).toEqual([
      { id: String(id), [column]: { years: 0, months: 0, days: 0, hours: 0, minutes: 0, seconds } },
    ]);
  });

  test.each(['{ seconds: "NaN" }'])("%s is no interval", async (interval) => {
    const { column } = zoo().cells.find(({ type }) => type === "interval")!;
    expect(
      await errors(`{ cages(filter: { ${column}: { equalTo: ${interval} } }) { edges { node { id } } } }`),
    ).toEqual([expect.stringMatching(/^VALIDATION_ERROR: /)]);
  });

  describe("a number in a variable", () => {
    const FIELDS = {
      BigInt: "sameBig(n: $n)",
      "[BigInt]": "sameBigs(n: $n)",
      ID: "sameText(id: $n)",
      BigFloat: "sameNumeric(n: $n)",
      JSON: "sameJson(n: $n)",
      Float: "sameFloat(n: $n)",
      Int: "sameInt(n: $n)",
    } as const;
    const ask = async (type: keyof typeof FIELDS, number: string, more = "") => {
      const query = `query ($n: ${type}!) { found: ${FIELDS[type]} }`;
      const body = `{"query":${JSON.stringify(query)},"variables":{"n":${number}}${more}}`;
      const headers = { "content-type": "application/json" };
      return (await send(`${zoo().service.url}/graphql`, { method: "POST", headers, body })).text;
    };

    test.each([
      ["BigInt", "9007199254740993", '"9007199254740993"'],
      ["BigInt", "-9223372036854775808", '"-9223372036854775808"'],
      ["[BigInt]", "[1,9007199254740993]", '["1","9007199254740993"]'],
      ["ID", "9007199254740993", '"9007199254740993"'],
      ["ID", "1e3", '"1000"'],
      ["BigFloat", "9007199254740993.10", '"9007199254740993.10"'],
      ["BigFloat", "0.30000000000000001", '"0.30000000000000001"'],
      ["BigFloat", "1e-30", '"0.000000000000000000000000000001"'],
      ["BigFloat", "3.141592653589793", '"3.141592653589793"'],
      ["JSON", "9007199254740993", "9007199254740993"],
      ["JSON", '{"a":[9007199254740993]}', '{"a":[9007199254740993]}'],
      ["Float", "0.1000000000000000055", "0.1"],
      ["Float", "1e3", "1000"],
      ["Int", "1e3", "1000"],
    ] as const)("%s: keeps its digits: %s", async (type, number, found) => {
      expect(await ask(type, number)).toBe(`{"data":{"found":${found}}}`);
    });

    test.each([
      ["BigInt", "1e30"],
      ["BigInt", "1.5"],
      ["BigInt", "true"],
      ["BigFloat", "{}"],
      ["BigFloat", "[1]"],
      ["ID", "1.5"],
      ["ID", "1e30"],
      ["Float", "1e400"],
      ["Int", "2147483648.0000000001"],
    ] as const)("%s: %s is refused", async (type, number) => {
      expect(errorTexts(JSON.parse(await ask(type, number)))).toEqual([expect.stringMatching(/^VALIDATION_ERROR: /)]);
    });

    // Digits are not looked for in long texts.
    test.each(["BigInt", "ID", "BigFloat"] as const)(
      "%s: is refused in a long body, in place of rounded",
      async (type) => {
        const long = `,"extensions":{"text":"${"x".repeat(65_536)}"}`;
        const answer = await ask(type, "9007199254740993", long);
        expect(errorTexts(JSON.parse(answer))).toEqual([expect.stringMatching(/^VALIDATION_ERROR: .*string/)]);
      },
    );
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
