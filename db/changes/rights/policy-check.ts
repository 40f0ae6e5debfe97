import type { Caller } from "../../caller.ts";
import type { Table } from "../../catalog/catalog.ts";
import { CheckError, type Checker } from "./checker.ts";
import { columnsOfExpression, hasColumns, NUMBER, type Row, rowSource, rowsText } from "./row-source.ts";
import type { SharedCheck, Terms } from "./shared-check.ts";

/** Which of some rows a caller sees, and for which the policy raises an error, by their indexes. */
export type Seen = { readonly rows: ReadonlySet<number>; readonly errors: ReadonlyMap<number, CheckError> };

/** The indexes of the rows that a caller sees. */
type Found = readonly number[] | CheckError;

/** Up to this many callers and rows, an error is attributed to single rows. */
const MAX_SEPARATE = 20;

export type PolicyCheckOptions = {
  /** The policy, as Postgres writes it. */
  readonly sql: string;
  readonly table: Table;
  readonly checker: Checker;
};

/** Decides a policy by queries over row images. */
export class PolicyCheck {
  /** The query for many callers; null if there is none. */
  shared: SharedCheck | null = null;
  readonly #options: PolicyCheckOptions;
  /** The columns that the policy may read. */
  readonly #columns: ReadonlySet<string>;
  readonly #alone: string;

  constructor(options: PolicyCheckOptions) {
    this.#options = options;
    this.#columns = columnsOfExpression(options.sql, options.table);
    this.#alone = writeAlone(options);
  }

  /** Which of the rows each caller sees. Those in `terms` are decided by one query. Rows without a column that the policy reads are not seen. */
  async run(
    callers: readonly Caller[],
    terms: ReadonlyMap<Caller, Terms>,
    all: readonly Row[],
  ): Promise<ReadonlyMap<Caller, Seen>> {
    const indexes = all.flatMap((row, i) => (hasColumns(row, this.#columns) ? [i] : []));
    const rows = indexes.map((i) => all[i]!);
    const found = await this.#find(callers, terms, rows);
    const failed = callers.filter((caller) => isSeparable(found.get(caller)));
    const separate = await this.#findSeparately(failed, rows);
    const seen = callers.map((caller) => {
      const result = found.get(caller) ?? [];
      return result instanceof CheckError
        ? failedOf(indexes, separate.get(caller) ?? result)
        : { rows: new Set(result.map((i) => indexes[i]!)), errors: NONE };
    });
    return new Map(callers.map((caller, i) => [caller, seen[i]!]));
  }

  async #find(
    callers: readonly Caller[],
    terms: ReadonlyMap<Caller, Terms>,
    rows: readonly Row[],
  ): Promise<ReadonlyMap<Caller, Found>> {
    if (rows.length === 0) return new Map();
    const text = rowsText(rows, this.#options.table);
    const alone = callers.filter((caller) => !terms.has(caller));
    const [one, other] = await Promise.all([this.#findTogether(terms, text), this.#findAlone(alone, text)]);
    return new Map([...one, ...other]);
  }

  /** The result for each row alone, if there are few. */
  async #findSeparately(
    callers: readonly Caller[],
    rows: readonly Row[],
  ): Promise<ReadonlyMap<Caller, readonly Found[]>> {
    const isFew = callers.length <= MAX_SEPARATE && rows.length <= MAX_SEPARATE && rows.length > 1;
    if (callers.length === 0 || !isFew) return new Map();
    const texts = rows.map((row) => rowsText([row], this.#options.table));
    const found = await Promise.all(texts.map((text) => this.#findAlone(callers, text)));
    return new Map(callers.map((caller) => [caller, found.map((ofRow) => ofRow.get(caller)!)]));
  }

  /** One query for callers with different terms; if it raises an error, one for each. */
  async #findTogether(terms: ReadonlyMap<Caller, Terms>, rows: string): Promise<ReadonlyMap<Caller, Found>> {
    const groups = [...Map.groupBy(terms, ([, values]) => JSON.stringify(values)).values()];
    if (groups.length === 0) return new Map();
    const firsts = groups.map(([first]) => first!);
    const lists = firsts.map(([, values]) => values);
    const found = await this.shared!.find(lists, rows).catch(async (error) => {
      if (!(error instanceof CheckError)) throw error;
      const callers = firsts.map(([caller]) => caller);
      const alone = await this.#findAlone(callers, rows);
      return callers.map((caller) => alone.get(caller)!);
    });
    return new Map(groups.flatMap((group, i) => group.map(([caller]) => [caller, found[i]!] as const)));
  }

  async #findAlone(callers: readonly Caller[], rows: string): Promise<ReadonlyMap<Caller, Found>> {
    const outcomes = await this.#options.checker.each(callers, { text: this.#alone, values: [rows] });
    const found = outcomes.map((outcome) =>
      outcome instanceof CheckError ? outcome : outcome.map(([number]) => Number(number) - 1),
    );
    return new Map(callers.map((caller, i) => [caller, found[i]!]));
  }
}

const isSeparable = (found: Found | undefined) => found instanceof CheckError && !found.isTimeout;

const NONE: ReadonlyMap<number, CheckError> = new Map();

/** `found` is an error for all rows, or the result for each. */
function failedOf(indexes: readonly number[], found: CheckError | readonly Found[]): Seen {
  const results = indexes.map((index, i) => [index, found instanceof CheckError ? found : found[i]!] as const);
  const seen = results.filter(([, result]) => !(result instanceof CheckError) && result.length > 0);
  const errors = results.filter((each): each is [number, CheckError] => each[1] instanceof CheckError);
  return { rows: new Set(seen.map(([index]) => index)), errors: new Map(errors) };
}

/** The numbers of the rows that the caller sees. */
function writeAlone({ table, sql }: PolicyCheckOptions): string {
  const { queries, from } = rowSource(table);
  return `with ${queries}\nselect ${NUMBER} from ${from}\nwhere (${sql})`;
}
