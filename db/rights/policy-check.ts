import type { Caller } from "../caller.ts";
import type { Table } from "../catalog/catalog.ts";
import { CheckError, type Checker, type Inquiry } from "./checker.ts";
import { columnsOfExpression, hasColumns, NUMBER, type Row, rowSource, rowsText } from "./row-source.ts";
import type { SharedCheck, Terms } from "./shared-check.ts";

/** The callers to check: each of `own` by its own query, all of `shared` by one query with their `terms`. */
export type CallersToCheck = {
  readonly own: readonly Caller[];
  readonly shared: readonly Caller[];
  readonly terms: readonly Terms[];
};

/** Who sees a row, and for whom the policy raises an error. */
export type RowVisibility = { readonly by: ReadonlySet<Caller>; readonly errors: ReadonlyMap<Caller, CheckError> };

/** A `RowVisibility` that is still being filled. */
type OpenRowVisibility = { readonly by: Set<Caller>; readonly errors: Map<Caller, CheckError> };

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
  /** The columns that the policy may read. */
  readonly columns: ReadonlySet<string>;
  readonly #options: PolicyCheckOptions;
  readonly #ownQuery: string;

  constructor(options: PolicyCheckOptions) {
    this.#options = options;
    this.columns = columnsOfExpression(options.sql, options.table);
    this.#ownQuery = writeOwnQuery(options);
  }

  /** Who sees each of the rows. Rows without a column that the policy reads are not seen. */
  async run(callers: CallersToCheck, all: readonly Row[], inquiry: Inquiry): Promise<RowVisibility[]> {
    const found = all.map((): OpenRowVisibility => ({ by: new Set(), errors: new Map() }));
    const indexes = all.flatMap((row, i) => (hasColumns(row, this.columns) ? [i] : []));
    const [rows, among] = [indexes.map((i) => all[i]!), indexes.map((i) => found[i]!)];
    if (rows.length > 0) await this.#find(callers, rows, among, inquiry);
    return found;
  }

  async #find(
    callers: CallersToCheck,
    rows: readonly Row[],
    found: readonly OpenRowVisibility[],
    inquiry: Inquiry,
  ): Promise<void> {
    const text = rowsText(rows, this.#options.table);
    await Promise.all([
      this.#findShared(callers, text, found, inquiry),
      this.#findOwn(callers.own, text, found, inquiry),
    ]);
    if (inquiry.isShared) return;
    const failed = [...found[0]!.errors].filter(([, { isTimeout }]) => !isTimeout).map(([caller]) => caller);
    const isFew = failed.length <= MAX_SEPARATE && rows.length <= MAX_SEPARATE && rows.length > 1;
    if (failed.length > 0 && isFew) await this.#findSeparately(failed, rows, found, inquiry);
  }

  /** For callers with an error for all rows: whether each row alone raises it. */
  async #findSeparately(
    callers: readonly Caller[],
    rows: readonly Row[],
    found: readonly OpenRowVisibility[],
    inquiry: Inquiry,
  ): Promise<void> {
    const finding = rows.map((row, i) => {
      for (const caller of callers) found[i]!.errors.delete(caller);
      return this.#findOwn(callers, rowsText([row], this.#options.table), [found[i]!], inquiry);
    });
    await Promise.all(finding);
  }

  /** One query for all callers. After an error, all are undecided, or one query for each decides. */
  async #findShared(
    { shared, terms }: CallersToCheck,
    rows: string,
    found: readonly OpenRowVisibility[],
    inquiry: Inquiry,
  ): Promise<void> {
    if (shared.length === 0) return;
    try {
      const seen = await this.shared!.find(terms, rows, inquiry);
      for (const [row, places] of seen) for (const place of places) found[row]!.by.add(shared[place]!);
    } catch (error) {
      if (!(error instanceof CheckError)) throw error;
      // A slow policy is not asked twice about one caller.
      const isDecided = inquiry.isShared || (error.isTimeout && shared.length === 1);
      if (!isDecided) return this.#findOwn(shared, rows, found, inquiry);
      for (const { errors } of found) for (const caller of shared) errors.set(caller, error);
    }
  }

  async #findOwn(
    callers: readonly Caller[],
    rows: string,
    found: readonly OpenRowVisibility[],
    inquiry: Inquiry,
  ): Promise<void> {
    const outcomes = await this.#options.checker.each(callers, { text: this.#ownQuery, values: [rows] }, inquiry);
    for (const [i, caller] of callers.entries()) {
      const outcome = outcomes[i]!;
      if (outcome instanceof CheckError) for (const { errors } of found) errors.set(caller, outcome);
      else for (const [number] of outcome) found[Number(number) - 1]!.by.add(caller);
    }
  }
}

/** The numbers of the rows that the caller sees. */
function writeOwnQuery({ table, sql }: PolicyCheckOptions): string {
  const { queries, from } = rowSource(table);
  return `with ${queries}\nselect ${NUMBER} from ${from}\nwhere (${sql})`;
}
