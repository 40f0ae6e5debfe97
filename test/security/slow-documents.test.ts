import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { data, errors } = useService();

const times = (count: number, write: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => write(i)).join(" ");
const values = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`v${i}`, true]));

const withVariables = (count: number) =>
  `query (${times(count, (i) => `$v${i}: Boolean!`)}) { ${times(count, (i) => `a${i}: __typename @include(if: $v${i})`)} }`;
const withDirectives = (count: number) => `{ ${times(count, (i) => `a${i}: __typename @skip(if: false)`)} }`;
/** Each fragment is used in a selection set of its own. */
const withDefinitions = (count: number) =>
  `{ ${times(count - 1, (i) => `a${i}: user(id: 1) { ...F${i} }`)} } ${times(count - 1, (i) => `fragment F${i} on User { id }`)}`;
/** Operations that share a fragment of 499 fields. */
const withSelections = (count: number) =>
  `query Q { ...F } ${times(count / 500 - 1, (i) => `query Q${i} { ...F }`)} fragment F on Query { ${times(499, (i) => `a${i}: __typename`)} }`;
const withFragments = (count: number) =>
  `{ user(id: 1) { ${times(count, (i) => `...F${i}`)} } } ${times(count, (i) => `fragment F${i} on User { a${i}: id }`)}`;
const withEqualFields = (count: number) => `{ ${times(count, () => "user(id: 1) { name }")} }`;

const pairs = (count: number) => (count * (count - 1)) / 2;
const PAIRS = "pairs of merged fragments, and of merged fields with the same name";

describe("a document that is slow to validate or to plan is refused, although it has few fields:", () => {
  test.each([
    ["200 variables", withVariables(200), withVariables(201), "201 variables; the maximum is 200"],
    ["500 directives", withDirectives(500), withDirectives(501), "501 directives; the maximum is 500"],
    [
      "500 operations and fragments",
      withDefinitions(500),
      withDefinitions(501),
      "501 operations and fragments; the maximum is 500",
    ],
    [
      "10000 fields and fragments of all operations",
      withSelections(10_000),
      withSelections(10_500),
      "10001 fields and fragments, with fragments expanded; the maximum is 10000",
    ],
    [
      "224 fragments in one selection set",
      withFragments(224),
      withFragments(225),
      `${pairs(225)} ${PAIRS}; the maximum is 25000`,
    ],
    [
      "158 equal fields with a field each",
      withEqualFields(158),
      withEqualFields(159),
      `${2 * pairs(159)} ${PAIRS}; the maximum is 25000`,
    ],
  ])("it may have %s", async (_, accepted, refused, message) => {
    const options = { variables: values(201), operationName: accepted.startsWith("query Q ") ? "Q" : undefined };
    expect(await errors(accepted, options)).toEqual([]);
    expect(await errors(refused, options)).toEqual([`VALIDATION_ERROR: the document has ${message}: split it`]);
  });

  test("what no operation uses counts too", async () => {
    const unused = withFragments(225).replace("{ user(id: 1) {", "{ __typename } fragment U on Query { user(id: 1) {");
    expect(await errors(unused)).toEqual([expect.stringContaining(`${pairs(225)} ${PAIRS}`)]);
  });

  test("fragments that spread each other many times are not expanded again and again", async () => {
    const exploding = `{ __typename } ${times(20, (i) => `fragment F${i} on User { articles { ...G${i} } a: articles { ...G${i} } } fragment G${i} on Article { author { ...F${i + 1} } }`)} fragment F20 on User { id }`;
    expect(await errors(exploding)).toEqual([expect.stringMatching(/10001 fields and fragments|pairs/)]);
    const cycle =
      "{ users { ...F } } fragment F on User { articles { author { ...F } } a: articles { author { ...F } } }";
    expect(await errors(cycle)).toEqual([expect.stringMatching(/maximum|Cannot spread fragment/)]);
    expect(await errors("{ users { ...F } } fragment F on User { id ...F }")).toEqual([
      'VALIDATION_ERROR: Cannot spread fragment "F" within itself.',
    ]);
  });
});

describe("the arguments of an operation may have 25000 values", () => {
  const many = (count: number) => Array.from({ length: count }, (_, i) => `${i}`);
  /** Each field has one value more. */
  const listed = (uses: number, list = "$ids") =>
    `query ($ids: [ID!]) { ${times(uses, (i) => `a${i}: articles(first: 1, filter: { id: { in: ${list} } }) { totalCount }`)} }`;
  const refused = (count: number) => [
    `VALIDATION_ERROR: the arguments have ${count} values, each use of a variable counted; the maximum is 25000: split the operation`,
  ];

  test.each<[string, string, number, number, number]>([
    ["in a variable", listed(1), 24_999, 25_000, 25_001],
    ["in a variable that is used ten times", listed(10), 2499, 2500, 25_010],
  ])("%s", async (_, query, most, more, count) => {
    expect(await errors(query, { variables: { ids: many(most) } })).toEqual([]);
    expect(await errors(query, { variables: { ids: many(more) } })).toEqual(refused(count));
  });

  test("in the default of a variable that is used many times", async () => {
    const query = listed(10).replace("[ID!]", `[ID!] = ${JSON.stringify(many(2500))}`);
    expect(await errors(query)).toEqual(refused(25_010));
    expect(await errors(query, { variables: { ids: many(1) } })).toEqual([]);
  });

  test("in the document, with fragments expanded", async () => {
    const fragment = (uses: number) =>
      `{ ${times(uses, (i) => `a${i}: article(id: 1) { ...F }`)} }
       fragment F on Article { comments(limit: 1, filter: { id: { in: ${JSON.stringify(many(500))} } }) { id } }`;
    expect(await errors(fragment(51))).toEqual(refused(25_101));
  });
});

test("a document of components that have a fragment each, as of Relay, is accepted", async () => {
  const component = (i: number) =>
    `fragment Row${i} on Article { __typename id title author { __typename id ...Person${i} } comments(limit: 2) { __typename ...Comment${i} } }
    fragment Person${i} on User { __typename id name }
    fragment Comment${i} on Comment { __typename id content author { __typename ...Person${i} } }`;
  const page = `query Page($first: Int!) { __typename ${times(20, (i) => `part${i}: articles(first: $first) { edges { node { ...Row${i} ...Row${(i + 1) % 20} } } }`)} }
    ${times(20, component)}`;
  const { part19 } = await data(page, { variables: { first: 1 } });
  expect(part19.edges).toHaveLength(1);
  // Forty components of one record.
  const record = `{ article(id: 1) { ${times(40, (i) => `...Row${i}`)} } } ${times(40, component)}`;
  expect((await data(record)).article.author.name).toBe("Ada Lovelace");
});
