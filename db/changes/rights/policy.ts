import { elementsOf } from "../../array-text.ts";
import type { Caller } from "../../caller.ts";
import type { Catalog, Table } from "../../catalog/catalog.ts";
import type { RawRow } from "../../connection.ts";
import { CheckError, type Checker } from "./checker.ts";
import type { Condition, Term } from "./condition.ts";
import { type Asked, PolicyCheck, type Seen } from "./policy-check.ts";
import { type PolicyContext, readPolicy, termsOf } from "./policy-condition.ts";
import { sharePolicy } from "./policy-query.ts";
import type { Row } from "./row-source.ts";
import { SharedCheck, type Terms } from "./shared-check.ts";

/**
 * How a policy is decided for one caller. "here": by its condition and these terms. "together": by one query for all callers;
 * callers with equal terms see the same rows. "alone": by a query for each caller.
 */
export type Standing =
  | { readonly way: "here"; readonly terms: readonly Term[] }
  | { readonly way: "together"; readonly terms: Terms }
  | { readonly way: "alone" };

const ALONE: Standing = { way: "alone" };

export type PolicyOptions = {
  /** The condition of the policies for reading, as Postgres writes it. */
  readonly sql: string;
  readonly table: Table;
  readonly role: string;
  readonly catalog: Catalog;
  readonly checker: Checker;
};

/** The policies for reading a table, for one role. */
export class Policy {
  /** The condition for standings "here"; null if there are none. */
  condition: Condition | null = null;
  readonly #options: PolicyOptions;
  readonly #check: PolicyCheck;
  #ready: Promise<void> | null = null;
  #way: Standing["way"] = "alone";
  /** SQL of the terms of a standing, and whether each is an array. */
  #terms: readonly string[] = [];
  #arrays: readonly boolean[] = [];
  readonly #standings = new WeakMap<Caller, Standing>();
  /** Usually the same callers are decided again. */
  readonly #asked = new WeakMap<readonly Caller[], Asked>();

  constructor(options: PolicyOptions) {
    this.#options = options;
    this.#check = new PolicyCheck(options);
  }

  /** Prepares the decision for these callers. A caller for whom a term raises an error is decided alone. */
  async prepare(callers: readonly Caller[]): Promise<void> {
    this.#ready ??= this.#classify();
    await this.#ready;
    const unknown = callers.filter((caller) => !this.#standings.has(caller));
    if (unknown.length === 0) return;
    const statement = { text: `select ${this.#terms.map((term) => `(${term})`).join(", ")}`, values: [] };
    const outcomes = this.#terms.length === 0 ? [] : await this.#options.checker.each(unknown, statement);
    for (const [i, caller] of unknown.entries()) {
      const outcome = outcomes[i] ?? [[]];
      this.#standings.set(caller, outcome instanceof CheckError ? ALONE : this.#standingOf(outcome[0]!));
    }
  }

  /** After `prepare`. */
  standingOf(caller: Caller): Standing {
    return this.#standings.get(caller)!;
  }

  /**
   * Which of these callers see each of the rows, by queries. Of callers with equal terms, only one is checked. Rows without a column
   * that the policy reads are not seen.
   */
  check(callers: readonly Caller[], rows: readonly Row[]): Promise<Seen[]> {
    const asked = this.#asked.get(callers) ?? this.#askedOf(callers);
    this.#asked.set(callers, asked);
    return this.#check.run(asked, rows);
  }

  #askedOf(callers: readonly Caller[]): Asked {
    const alone = callers.filter((caller) => this.standingOf(caller).way === "alone");
    const together = callers.map((caller) => [caller, this.standingOf(caller)] as const).filter(isTogether);
    return { alone, together: together.map(([caller]) => caller), terms: together.map(([, { terms }]) => terms) };
  }

  async #classify(): Promise<void> {
    const { sql, table, role, catalog, checker } = this.#options;
    const context: PolicyContext = { columns: table.columns, dependence: catalog.dependence };
    const terms = termsOf(sql, context);
    if (terms !== null) {
      const types = await this.#typesOf(terms);
      this.condition = readPolicy(sql, types, context);
      if (this.condition !== null) return this.#use("here", terms, types);
    }
    const shared = sharePolicy(sql, table.name, catalog.dependence);
    if (shared === null) return;
    const types = await this.#typesOf(shared.terms);
    this.#check.shared = new SharedCheck({ ...shared, types }, table, role, checker);
    this.#use("together", shared.terms, types);
  }

  #use(way: Standing["way"], terms: readonly string[], types: readonly string[]): void {
    this.#way = way;
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
    const [row] = await checker.once(role, path, { text: `select ${types.join(", ")}`, values: [] });
    return row!.map(String);
  }

  #standingOf(row: RawRow): Standing {
    const texts = row.map((field) => (field === null ? null : field.toString()));
    if (this.#way === "alone") return ALONE;
    if (this.#way === "together") return { way: "together", terms: texts };
    return { way: "here", terms: texts.map((text, i) => (this.#arrays[i] && text !== null ? elementsOf(text) : text)) };
  }
}

const isTogether = (each: readonly [Caller, Standing]): each is [Caller, Extract<Standing, { way: "together" }>] =>
  each[1].way === "together";
