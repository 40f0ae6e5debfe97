import { describe, expect, test } from "vitest";
import type {} from "../../db/exact-numbers.ts";
import { connect } from "../support/graphql-client.ts";
import { errorTexts, send } from "../support/http-client.ts";
import type { Zoo } from "./zoo.ts";

/** The data, or the errors, of what is asked in GraphQL. */
export function asked(zoo: () => Zoo) {
  return {
    async data(query: string, variables?: object): Promise<any> {
      const { data, errors } = JSON.parse(JSON.stringify(await zoo().graphql(query, variables)));
      if (errors) throw new Error(errorTexts({ errors }).join("; "));
      return data;
    },
    errors: async (query: string, variables?: object) => errorTexts(await zoo().graphql(query, variables)),
    nodes: (connection: any) => connection.edges.map(({ node }: any) => node),
  };
}

/** Values for which GraphQL, or JSON, has no type of its own: numbers that are not finite, or long, and arrays of several dimensions. */
export function testGraphQLValues(zoo: () => Zoo): void {
  const { data, errors, nodes } = asked(zoo);

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
        // With the key: the feed may still be at the changes of the test before.
        'subscription { onReadingChanged(filter: { value: { equalTo: "NaN" }, id: { equalTo: "20" } }) { new { value list } old { value } } }',
      );
      const created = { onReadingChanged: { new: { value: "NaN", list: ["Infinity"] }, old: null } };
      await zoo().sql("insert into readings values (20, 'NaN', '{Infinity}')");
      await changes.expect(created);
      await zoo().sql("delete from readings where id = 20");
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
}
