import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { changeFaults } from "./changes.ts";
import { descriptionFaults } from "./descriptions.ts";
import { graphqlFaults, type Spelling } from "./graphql.ts";
import { testGraphQL } from "./graphql-cases.ts";
import { testGraphQLValues } from "./graphql-values.ts";
import { testFunctions, testObjects } from "./objects.ts";
import { restFaults } from "./rest.ts";
import { testWrites } from "./writes.ts";
import { byType, type Cell, type Fault, isSame, parseExactly, type Zoo } from "./zoo.ts";

const DOCS = "docs/types.md";
const code = (text: string) => `\`${text.replaceAll("|", "\\|").replaceAll("\n", "\\n")}\``;

/** `GraphQL read, write of NaN; REST order`: what is different, and for which values unless for all. */
function differencesOf(cells: readonly Cell[], faults: readonly Fault[]): string {
  const literalsOf = (what: string) =>
    new Set(faults.filter(([each]) => each === what).map(([, { literal }]) => code(literal)));
  const whats = [...new Set(faults.map(([what]) => what))].sort();
  const groups = Map.groupBy(whats, (what) => {
    const literals = literalsOf(what);
    return literals.size === cells.length
      ? ""
      : ` of ${cells
          .map(({ literal }) => code(literal))
          .filter((each) => literals.has(each))
          .join(" ")}`;
  });
  return [...groups].map(([values, names]) => names.join(", ") + values).join("; ");
}

/** The lines of the table of types. */
function tableOf({ cells }: Zoo, faults: readonly Fault[], spellings: ReadonlyMap<string, Spelling>): string {
  const rows = byType(cells).map((group) => {
    const [cell] = group as [Cell];
    const [type, json] = spellings.get(cell.type) ?? ["", cell.json];
    const spelling =
      type === "" ? "no field" : code(type) + (isSame(parseExactly(json), cell.json) ? "" : `: ${code(json)}`);
    const found = faults.filter(([, { type }]) => type === cell.type);
    return `| ${code(cell.type)} | ${code(JSON.stringify(parseExactly(cell.json)))} | ${spelling} | ${differencesOf(group, found)} |\n`;
  });
  return rows.join("");
}

const ADVICE = `The table of types in ${DOCS} is not what the interfaces do. A difference is a fault of the product, unless there is a
reason for it, which belongs below the table. Then renew it: npx vitest run test/zoo -u\n`;

/** What every interface does with each type and object is as docs/types.md and the tests have it. */
export function testZoo(zoo: () => Zoo): void {
  test("docs/types.md has what each interface does with each type, and every difference", {
    timeout: 900_000,
  }, async () => {
    const spellings = new Map<string, Spelling>();
    const faults: Fault[] = [];
    for (const driver of [
      restFaults(zoo()),
      graphqlFaults(zoo(), spellings),
      descriptionFaults(zoo()),
      changeFaults(zoo()),
    ])
      for await (const fault of driver) faults.push(fault);
    const written = readFileSync(DOCS, "utf8").replace(
      /(\| Type \|.*\n\|---.*\n)(\|.*\n)*/,
      (_, head) => head + tableOf(zoo(), faults, spellings),
    );
    const seen = faults.map(
      ([what, { type, literal }, saw]) => `${type} ${literal}: ${what}: ${JSON.stringify(saw)?.slice(0, 300)}`,
    );
    await expect(written, ADVICE + seen.join("\n")).toMatchFileSnapshot(`../../${DOCS}`);
  });

  describe("objects", () => testObjects(zoo));
  describe("functions", () => testFunctions(zoo));
  describe("writes", () => testWrites(zoo));
  describe("only in GraphQL", () => {
    testGraphQL(zoo);
    testGraphQLValues(zoo);
  });
}
