import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { errorTexts, expectNoTrace, useService } from "../support/http-client.ts";
import { RoundTrips } from "../support/round-trips.ts";
import type { GqlOptions } from "../support/service.ts";

const trips = new RoundTrips();
const client = useService({}, undefined, trips);
const { data, errors, gql, post } = client;
expectNoTrace(client);

/** Sends a request that must not reach the database. */
async function withoutDatabase<T>(
  sendRequest: (sent: Required<Pick<GqlOptions, "headers">>) => Promise<T>,
): Promise<T> {
  const id = randomUUID();
  const result = await sendRequest({ headers: { "x-request-id": id } });
  expect(trips.of(id)).toBe(0);
  return result;
}

test("a request that reaches the database is counted", async () => {
  const id = randomUUID();
  await data("{ me { id } }", { as: "ada", headers: { "x-request-id": id } });
  expect(trips.of(id)).toBeGreaterThan(0);
});

describe("a document", () => {
  test.each([
    ["lists", (n: number) => `{ user(id: ${"[".repeat(n)}1${"]".repeat(n)}) { id } }`],
    ["lists without end", (n: number) => `{ user(id: ${"[".repeat(n)}`],
    ["objects", (n: number) => `{ articles(filter: ${"{a:".repeat(n)}1${"}".repeat(n)}) { totalCount } }`],
    ["selection sets", (n: number) => `${"{a".repeat(n)}${"}".repeat(n)}`],
    ["selection sets without end", (n: number) => "{a".repeat(n)],
    ["inline fragments", (n: number) => `{ ${"... {".repeat(n)} id ${"}".repeat(n)} }`],
    ["types of variables", (n: number) => `query ($a: ${"[".repeat(n)}Int${"]".repeat(n)}) { __typename }`],
  ])("with 5,000 or 40,000 levels of %s is refused", async (_, write) => {
    for (const levels of [5_000, 40_000]) {
      expect(await withoutDatabase((sent) => errors(write(levels), sent))).toEqual([
        "VALIDATION_ERROR: the document nests brackets more than 64 levels deep",
      ]);
    }
  });

  test("with 1,001 aliases is refused", async () => {
    const query = `{ ${Array.from({ length: 1001 }, (_, i) => `a${i}: __typename`).join(" ")} }`;
    expect(await errors(query)).toEqual(["VALIDATION_ERROR: the operation has complexity 1001; the maximum is 1000"]);
  });

  const bomb = (levels: number) =>
    `{ ...F0 } ${Array.from({ length: levels }, (_, i) => `fragment F${i} on Query { ...F${i + 1} ...F${i + 1} }`).join(" ")} fragment F${levels} on Query { __typename }`;

  test.each([
    [22, "the operation has complexity 4194304; the maximum is 1000"],
    [100, expect.stringMatching(/complexity .*; the maximum is 1000/)],
    [1000, "the document nests selection sets more than 200 levels deep"],
  ])("whose nested fragments expand to 2 to the power of %i fields is refused", async (levels, message) => {
    const answer = await withoutDatabase((sent) => gql(bomb(levels), sent));
    expect(answer.errors).toEqual([{ message, extensions: { code: "VALIDATION_ERROR" } }]);
  });

  test.each([
    ["{ ...A } fragment A on Query { ...A }"],
    ["{ ...A } fragment A on Query { ...B } fragment B on Query { ...A __typename }"],
    ["{ user(id: 1) { ...A } } fragment A on User { articles { author { ...A } } }"],
    [
      `{ ...F0 } ${Array.from({ length: 130 }, (_, i) => `fragment F${i} on Query { ${Array.from({ length: 60 }, (_, j) => `...F${(i + j + 1) % 130}`).join(" ")} }`).join(" ")}`,
    ],
  ])("with a cycle of fragments is refused: %.80s", async (query) => {
    const answer = await withoutDatabase((sent) => gql(query, sent));
    expect(answer.status).toBe(200);
    expect(errorTexts(answer)[0]).toMatch(
      /^VALIDATION_ERROR: (Cannot spread fragment "\w+" within itself|the document nests)/,
    );
  });

  test.each([
    [
      "2,400 fragments in a chain",
      `{ ...F0 } ${Array.from({ length: 2400 }, (_, i) => `fragment F${i} on Query { ...F${i + 1} }`).join(" ")} fragment F2400 on Query { __typename }`,
    ],
    [
      "2,400 unused fragments in a chain",
      `{ __typename } ${Array.from({ length: 2400 }, (_, i) => `fragment F${i} on Query { ...F${i + 1} }`).join(" ")} fragment F2400 on Query { __typename }`,
    ],
    [
      "an unused fragment of 19,000 equal fields",
      `{ __typename } fragment F on Query { ${"__typename ".repeat(19_000)} }`,
    ],
    ["19,000 equal fields of introspection", `{ __schema { ${"__typename ".repeat(19_000)} } }`],
    [
      "900 aliases of all types",
      `{ __schema { ${Array.from({ length: 900 }, (_, i) => `a${i}: types { fields { type { fields { name } } } }`).join(" ")} } }`,
    ],
    [
      "recursive introspection",
      "{ __schema { types { fields { type { fields { type { fields { type { fields { type { name } } } } } } } } } } }",
    ],
    ["an unclosed string of 260 kB of escaped quotes", `{ user(id: "${'\\"'.repeat(130_000)}`],
    ["an unclosed block string of escaped quotes", `{ user(id: """${'\\"""'.repeat(60_000)}`],
    ["one string of 500 kB", `{ user(id: "${"x".repeat(500_000)}`],
    ["one block string of 500 kB", `{ user(id: """${"x\n".repeat(250_000)}`],
    ["500 kB of a comment", `# ${"[".repeat(500_000)}`],
    ["500 kB of commas", `{ __typename ${",".repeat(500_000)} nowhere }`],
    ["20,000 directives", `{ __typename ${"@skip(if: false) ".repeat(3000)} }`],
    ["20,000 operations", "query A { __typename } ".repeat(4000)],
    ["20,000 variables", `query (${Array.from({ length: 4000 }, (_, i) => `$a${i}: Int`).join(" ")}) { __typename }`],
    ["a type definition", "type Query { a: Int }"],
    ["an extension", "{ __typename } extend type Query { a: Int }"],
    ["only a byte order mark", "\ufeff"],
    ["NUL", "{ __typename \0 }"],
  ])("with %s is refused", async (_, query) => {
    const answer = await withoutDatabase((sent) => gql(query, sent));
    expect(answer.status).toBe(200);
    expect(answer).not.toHaveProperty("data");
    expect(answer.errors![0]!.extensions).toEqual({ code: "VALIDATION_ERROR" });
  });

  test("may have an operation name of 100 kB, which errors shorten", async () => {
    const name = "x".repeat(100_000);
    expect(
      await withoutDatabase((sent) => data(`query ${name} { __typename }`, { operationName: name, ...sent })),
    ).toEqual({
      __typename: "Query",
    });
    const answer = await withoutDatabase((sent) => gql("{ __typename }", { operationName: name, ...sent }));
    expect(answer.errors![0]!.extensions.code).toBe("VALIDATION_ERROR");
    expect(JSON.stringify(answer.errors).length).toBeLessThan(1000);
  });

  test("with half of a surrogate pair as an escape is a syntax error", async () => {
    for (const sequence of ["\\ud800", "\\udc00", "\\u{d800}", "\\u{110000}"]) {
      expect(await errors(`{ search(keyword: "${sequence}") { id } }`)).toEqual([
        expect.stringMatching(/^VALIDATION_ERROR: Syntax Error: Invalid Unicode escape sequence/),
      ]);
    }
  });

  test("may have aliases that are names of JavaScript object properties", async () => {
    const answer = await post({ query: "{ __proto__: user(id: 1) { constructor: id __proto__: name } }" });
    expect(answer.text).toBe('{"data":{"__proto__":{"constructor":"1","__proto__":"Ada Lovelace"}}}');
  });
});
