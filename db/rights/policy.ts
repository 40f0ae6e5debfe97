import { forObjects } from "../../cache/cache.ts";
import type { Caller } from "../caller.ts";
import type { Catalog, Table } from "../catalog/catalog.ts";
import type { RowCondition, Term } from "../filters/evaluate.ts";
import { elementsOf } from "../wire/array-text.ts";
import type { RawRow } from "../wire/connection.ts";
import { CheckError, type Checker, type Inquiry } from "./checker.ts";
import { PolicyText } from "./policy-text.ts";
import { hasColumns, type Row, rowsText } from "./row-source.ts";
import { SharedCheck, type Terms, writeQuery } from "./shared-check.ts";

/**
 * How a policy is decided for one caller. "in process": by its condition and these terms, without a query. "shared query": by one
 * query for all callers; callers with equal terms, which are text, see the same rows. "own query": by a query for each caller.
 */
export type PolicyDecision = {
  readonly kind: "in process" | "shared query" | "own query";
  readonly terms: readonly Term[];
};

const OWN_QUERY: PolicyDecision = { kind: "own query", terms: [] };

/** Who sees a row, and for whom the policy raises an error. */
export type RowVisibility = { readonly by: ReadonlySet<Caller>; readonly errors: ReadonlyMap<Caller, CheckError> };

/** A `RowVisibility` that is still being filled. */
type OpenRowVisibility = { readonly by: Set<Caller>; readonly errors: Map<Caller, CheckError> };

/** The callers to check: each of `own` by its own query, all of `shared` by one query with their `terms`. */
type CallersToCheck = {
  readonly own: readonly Caller[];
  readonly shared: readonly Caller[];
  readonly terms: readonly Terms[];
};

/** Up to this many callers and rows, an error is attributed to single rows. */
const MAX_SEPARATE = 20;

type PolicyOptions = {
  /** The condition of the policies for reading, as Postgres writes it. */
  readonly sql: string;
  readonly table: Table;
  readonly role: string;
  readonly catalog: Pick<Catalog, "dependence">;
  readonly checker: Checker;
};

/** The policies for reading a table, for one role. */
export class Policy {
  /** The condition for decisions "in process"; null if there are none. */
  condition: RowCondition | null = null;
  /** The columns that it may read. A row without one of them is not seen. */
  readonly columns: ReadonlySet<string>;
  readonly #options: PolicyOptions;
  readonly #text: PolicyText;
  /** The query for one caller: the numbers of the rows that it sees. */
  readonly #ownQuery: string;
  /** The query for many callers; null if there is none. */
  #shared: SharedCheck | null = null;
  #ready: Promise<void> | null = null;
  #kind: PolicyDecision["kind"] = "own query";
  /** SQL of the terms of a decision, and whether each is an array. */
  #terms: readonly string[] = [];
  #arrays: readonly boolean[] = [];
  readonly #decisions = new WeakMap<Caller, PolicyDecision>();
  /** `check` is usually called with the same list of callers. */
  readonly #callersToCheck = forObjects((callers: readonly Caller[]): CallersToCheck => {
    const byKind = Map.groupBy(callers, (caller) => this.decisionFor(caller)!.kind);
    const [own = [], shared = []] = [byKind.get("own query"), byKind.get("shared query")];
    return { own, shared, terms: shared.map((caller) => this.decisionFor(caller)!.terms as Terms) };
  });

  constructor(options: PolicyOptions) {
    const { sql, table, catalog } = options;
    this.#options = options;
    this.#text = new PolicyText(sql, table, catalog.dependence);
    this.columns = this.#text.columns;
    this.#ownQuery = writeQuery({ types: [], write: () => sql }, table);
  }

  /**
   * Prepares the decision for these callers. A caller for whom a term raises an error gets their own query; a shared inquiry leaves
   * such callers without a decision. Rejects with CheckError if none is prepared in time.
   */
  async prepare(callers: readonly Caller[], inquiry: Inquiry): Promise<void> {
    this.#ready ??= this.#classify().catch((error) => {
      // Postgres cannot read the policy without a row. Its own query has the same error, for each caller.
      if (!(error instanceof CheckError)) throw error;
    });
    await inquiry.wait(this.#ready);
    const unknown = callers.filter((caller) => !this.#decisions.has(caller));
    if (unknown.length === 0) return;
    const statement = { text: `select ${this.#terms.map((term) => `(${term})`).join(", ")}`, values: [] };
    const outcomes = this.#terms.length === 0 ? [] : await this.#options.checker.each(unknown, statement, inquiry);
    for (const [i, caller] of unknown.entries()) {
      const outcome = outcomes[i] ?? [[]];
      if (!(outcome instanceof CheckError)) this.#decisions.set(caller, this.#decisionOf(outcome[0]!));
      else if (!inquiry.isShared) this.#decisions.set(caller, OWN_QUERY);
    }
  }

  /** Undefined before `prepare`. */
  decisionFor(caller: Caller): PolicyDecision | undefined {
    return this.#decisions.get(caller);
  }

  /**
   * Which of these callers see each of the rows, by queries. Of callers with equal terms, only one is checked. Rows without a column
   * that the policy reads are not seen.
   */
  async check(callers: readonly Caller[], all: readonly Row[], inquiry: Inquiry): Promise<RowVisibility[]> {
    const found = all.map((): OpenRowVisibility => ({ by: new Set(), errors: new Map() }));
    const indexes = all.flatMap((row, i) => (hasColumns(row, this.columns) ? [i] : []));
    const [rows, among] = [indexes.map((i) => all[i]!), indexes.map((i) => found[i]!)];
    if (rows.length > 0) await this.#find(this.#callersToCheck(callers), rows, among, inquiry);
    return found;
  }

  async #classify(): Promise<void> {
    const { table, role, checker } = this.#options;
    if (checker.decidesAlone) return;
    const { terms } = this.#text;
    if (terms !== null) {
      const types = await this.#typesOf(terms);
      this.condition = this.#text.condition(types);
      if (this.condition !== null) return this.#use("in process", terms, types);
    }
    const shared = this.#text.share();
    if (shared === null) return;
    const types = await this.#typesOf(shared.terms);
    this.#shared = new SharedCheck({ ...shared, types }, table, role, checker);
    this.#use("shared query", shared.terms, types);
  }

  #use(kind: PolicyDecision["kind"], terms: readonly string[], types: readonly string[]): void {
    this.#kind = kind;
    this.#terms = terms;
    this.#arrays = types.map((type) => type.endsWith("[]"));
  }

  /**
   * The types of expressions as SQL text, without a maximum length. They are not evaluated, and an empty search path makes the names
   * complete.
   */
  async #typesOf(terms: readonly string[]): Promise<readonly string[]> {
    if (terms.length === 0) return [];
    const types = terms.map(
      (term) => `pg_catalog.format_type(pg_catalog.pg_typeof(case when false then (${term}) end), -1)`,
    );
    const { checker, role } = this.#options;
    const path = { text: "select pg_catalog.set_config('search_path', '', true)", values: [] };
    const [row] = await checker.once(role, [path, { text: `select ${types.join(", ")}`, values: [] }]);
    return row!.map(String);
  }

  #decisionOf(row: RawRow): PolicyDecision {
    const texts = row.map((field) => (field === null ? null : field.toString()));
    const isInProcess = this.#kind === "in process";
    return {
      kind: this.#kind,
      terms: texts.map((text, i) => (isInProcess && this.#arrays[i] && text !== null ? elementsOf(text) : text)),
    };
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
      const seen = await this.#shared!.find(terms, rows, inquiry);
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
