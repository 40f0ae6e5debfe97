import { buildSchema } from "postgraphile/graphql";
import { expect, test } from "vitest";
import { Documents } from "../../graphql/document.ts";

const LIMITS = { depth: 15, complexity: 10_000, tokens: 100_000, brackets: 64, suggestions: false };
const newDocuments = () => new Documents(buildSchema("type Query { a: Int }"), LIMITS);

/** A document of so many fields, unlike others of another name. */
const fields = (count: number, name = "a") =>
  `{ ${Array.from({ length: count }, (_, i) => `${name}${i}: a`).join(" ")} }`;

test("a document is parsed once, as long as it is used", () => {
  const documents = newDocuments();
  const first = documents.check("{ a }");
  expect(first).toHaveProperty("document");
  for (let i = 0; i < 1000; i++) {
    documents.check(fields(100, `x${i}_`));
    expect(documents.check("{ a }")).toBe(first);
  }
});

test("documents that were not used for long make way for others, by their weight", () => {
  const documents = newDocuments();
  const first = documents.check("{ a }");
  for (let i = 0; i < 4; i++) documents.check(fields(900, `x${i}_`));
  expect(documents.check("{ a }")).toBe(first);
  for (let i = 0; i < 6; i++) documents.check(fields(900, `y${i}_`));
  expect(documents.check("{ a }") === first).toBe(false);
});

test("a document that is heavier than all that are remembered makes none of them go", () => {
  const documents = newDocuments();
  const first = documents.check("{ a }");
  const heavy = documents.check(fields(9000));
  expect(documents.check(fields(9000)) === heavy).toBe(false);
  expect(documents.check("{ a }")).toBe(first);
});

test("what is refused is not remembered", () => {
  const documents = newDocuments();
  const refused = documents.check("{ b }");
  expect(refused).toHaveProperty("errors");
  expect(documents.check("{ b }") === refused).toBe(false);
});
