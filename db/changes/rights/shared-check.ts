import { elementsOf, writeArray } from "../../array-text.ts";
import type { Table } from "../../catalog/catalog.ts";
import type { Checker } from "./checker.ts";
import { NUMBER, rowSource } from "./row-source.ts";

/** A condition on rows and terms as SQL. */
export type SharedCondition = {
  /** The condition with a reference in place of each term. */
  write(references: readonly string[]): string;
  /** The types of the terms as SQL text. */
  readonly types: readonly string[];
};

/** The values of the terms, as text. */
export type Terms = readonly (string | null)[];

const nameOf = (term: number) => `"§ term ${term}"`;

/** Decides a condition for many lists of terms and many rows with one query. */
export class SharedCheck {
  readonly #text: string;
  readonly #role: string;
  readonly #checker: Checker;

  constructor(condition: SharedCondition, table: Table, role: string, checker: Checker) {
    this.#text = writeQuery(condition, table);
    this.#role = role;
    this.#checker = checker;
  }

  /** The indexes of the rows that match, for each list of terms. Rejects with CheckError if it raises an error for one of them. */
  async find(lists: readonly Terms[], rows: string): Promise<readonly (readonly number[])[]> {
    const count = lists[0]?.length ?? 0;
    const terms = Array.from({ length: count }, (_, i) => writeArray(lists.map((values) => values[i]!)));
    const keys = writeArray(lists.map((_, i) => String(i)));
    const result = await this.#checker.once(this.#role, { text: this.#text, values: [rows, keys, ...terms] });
    const found: number[][] = lists.map(() => []);
    for (const [number, matching] of result)
      for (const key of elementsOf(String(matching))) found[Number(key)]!.push(Number(number) - 1);
    return found;
  }
}

/** The numbers of the rows, each with the keys of the terms that match it. */
function writeQuery({ write, types }: SharedCondition, table: Table): string {
  const { queries, from } = rowSource(table);
  const names = ["key", ...types.map((_, i) => nameOf(i))];
  const terms = types.map((type, i) => `, ${nameOf(i)}::${type} as ${nameOf(i)}`);
  const parameters = names.map((_, i) => `$${i + 2}::pg_catalog.text[]`);
  return `with ${queries},
"§ terms" as materialized (
  select key as "§ key"${terms.join("")}
  from unnest(${parameters.join(", ")}) as given (${names.join(", ")})
)
select ${NUMBER}, pg_catalog.array_agg("§ key") from ${from} cross join "§ terms"
where (${write(types.map((_, i) => `"§ terms".${nameOf(i)}`))})
group by ${NUMBER}`;
}
