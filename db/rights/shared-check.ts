import { forObjects } from "../../cache/cache.ts";
import type { Table } from "../catalog/catalog.ts";
import { writeArray } from "../wire/array-text.ts";
import type { Checker, Inquiry } from "./checker.ts";
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

  /**
   * The indexes of the lists of terms for which a row matches, by the index of the row; rows without any are left out. Rejects with
   * CheckError if the condition raises an error for one of them.
   */
  async find(lists: readonly Terms[], rows: string, inquiry: Inquiry): Promise<ReadonlyMap<number, readonly number[]>> {
    const statement = { text: this.#text, values: [rows, ...parametersOf(lists)] };
    const result = await this.#checker.once(this.#role, [statement], inquiry);
    const all = lists.map((_, i) => i);
    return new Map(result.map(([number, matching]) => [Number(number) - 1, matching ? placesIn(matching) : all]));
  }
}

/** An array for each term. */
const parametersOf = forObjects((lists: readonly Terms[]): readonly string[] =>
  lists[0]!.map((_, term) => writeArray(lists.map((values) => values[term]!))),
);

/** `"{1,3}"` → `[0, 2]` */
const placesIn = (array: Buffer): number[] =>
  array
    .toString("latin1", 1, array.length - 1)
    .split(",")
    .map((text) => Number(text) - 1);

/** The numbers of the rows that match, each with those of the lists of terms; without terms, only the numbers of the rows. */
export function writeQuery(condition: SharedCondition, table: Table): string {
  const { queries, from } = rowSource(table);
  const { types } = condition;
  const where = condition.write(types.map((_, i) => `"§ terms".${nameOf(i)}`));
  if (types.length === 0) return `with ${queries}\nselect ${NUMBER} from ${from}\nwhere (${where})`;
  const names = types.map((_, i) => nameOf(i));
  return `with ${queries},
"§ terms" as ${types.some(isText) ? "materialized" : "not materialized"} (
  select "§ list"${types.map((type, i) => `, ${nameOf(i)}${isText(type) ? `::${type}` : ""} as ${nameOf(i)}`).join("")}
  from unnest(${types.map(parameterOf).join(", ")}) with ordinality as given (${names.join(", ")}, "§ list")
)
select ${NUMBER}, pg_catalog.array_agg("§ list") from ${from} cross join "§ terms"
where (${where})
group by ${NUMBER}`;
}

/** Whether the terms are sent as text: there are no arrays of arrays with different lengths, and `unnest` takes rows apart. */
const isText = (type: string) => type.endsWith("[]") || (type.startsWith('"') && !type.startsWith('"pg_catalog".'));

const parameterOf = (type: string, i: number) => `$${i + 2}::${isText(type) ? "pg_catalog.text" : type}[]`;
