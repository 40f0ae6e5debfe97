import type pg from "pg";
import type { Caller } from "../db/caller.ts";
import { quoteIdentifier } from "../db/sql.ts";
import { claimsText } from "../db/transaction/identity.ts";
import type { Privileges, Row, Table } from "./access-tables.ts";

type Identity = Pick<Caller, "role" | "claims">;

/** What a caller may do with the rows of a table. Null: there is no grant. */
export type Access = {
  readonly select: Reach | null;
  /** Rows that the caller may add with the values of an existing row. */
  readonly insert: Reach | null;
  readonly update: (Reach & { readonly values: readonly ColumnValues[] }) | null;
  readonly delete: Reach | null;
};

export type Reach = {
  readonly labels: readonly string[];
  /**
   * The number of further rows: rows after those that are tried, rows of a view that only the caller sees, and rows that only a statement
   * without a condition reaches.
   */
  readonly others: number;
  /** SQLSTATEs of errors other than a refusal, sorted. */
  readonly errors: readonly string[];
};

/** Into how many of the values that were tried an update may change a column. */
export type ColumnValues = { readonly column: string; readonly allowed: number; readonly tried: number };

/** The rows of a caller whose columns are changed. */
const CHANGED_ROWS = 3;
/** The other values that a column is changed into: of the column, and of the column that it references. */
const CHANGED_VALUES = 5;

/** SQLSTATEs. Policies are checked before constraints: a row that violates one has passed the policies. */
const isRefused = (outcome: string) => outcome === "42501";
const isAllowed = (outcome: string) => outcome.startsWith("23") || (outcome.startsWith("=") && outcome !== "=0");
const isError = (outcome: string) => !outcome.startsWith("=") && !isAllowed(outcome) && !isRefused(outcome);

/** The codes of views and of their columns that cannot be changed, and of generated columns. */
const NOT_UPDATABLE = ["55000", "0A000", "428C9"];

/** Tries everything as one caller. */
export class Attempts {
  readonly #owner: pg.Client;
  readonly #table: Table;
  readonly #rows: readonly Row[];
  readonly #identity: Identity;
  readonly #privileges: Privileges;

  constructor(owner: pg.Client, table: Table, rows: readonly Row[], identity: Identity, privileges: Privileges) {
    this.#owner = owner;
    this.#table = table;
    this.#rows = rows;
    this.#identity = identity;
    this.#privileges = privileges;
  }

  async access(): Promise<Access> {
    const visible = await this.#visible();
    const { rows } = visible ?? { rows: [] };
    return {
      select: visible && reachOf(rows, { others: visible.others, errors: visible.errors }),
      insert: await this.#insert(),
      update: await this.#update(rows),
      delete: await this.#delete(rows),
    };
  }

  /** The rows that the caller sees; null without a grant. */
  async #visible(): Promise<{ rows: readonly Row[]; others: number; errors: readonly string[] } | null> {
    if (this.#privileges.select.length === 0) return null;
    const { sql, hasPlaces } = this.#table;
    const value = hasPlaces ? "format('tableoid = %s and ctid = %L', t.tableoid::oid, t.ctid)" : "to_jsonb(t)";
    const { rows } = await this.#owner.query<{ values: string[] | null; code: string | null }>(
      `select "values", code from pg_temp.read_as($1, $2, $3, $4)`,
      [...this.#caller(), this.#reading(), `select ${value} from ${sql} as t`],
    );
    const { values: found, code } = rows[0]!;
    if (found === null) return isRefused(code!) ? null : { rows: [], others: 0, errors: [code!] };
    const texts = new Set(found);
    const seen = this.#rows.filter(({ place, text }) => texts.has(hasPlaces ? place : text));
    return { rows: seen, others: found.length - seen.length, errors: [] };
  }

  async #insert(): Promise<Reach | null> {
    const { insert } = this.#privileges;
    if (insert.length === 0) return null;
    const { sql } = this.#table;
    const names = this.#writable(insert).map(quoteIdentifier).join(", ");
    const statements = this.#rows.map(
      ({ text }) => `insert into ${sql} (${names}) select ${names} from ${this.#record(text)}`,
    );
    if (statements.length > 0 && names !== "") return reached(this.#rows, await this.#attempt("select", statements));
    const [outcome = ""] = await this.#attempt("select", [`insert into ${sql} default values`]);
    return { labels: [], others: isAllowed(outcome) ? 1 : 0, errors: isError(outcome) ? [outcome] : [] };
  }

  async #update(visible: readonly Row[]): Promise<Access["update"]> {
    if (this.#privileges.update.length === 0) return null;
    const { sql, hasPlaces } = this.#table;
    const columns = this.#writable(this.#privileges.update);
    const kept = columns
      .map(quoteIdentifier)
      .map((name) => `${name} = ${name}`)
      .join(", ");
    const found = hasPlaces && kept !== "" ? visible : [];
    const outcomes = await this.#attempt(
      this.#reading(),
      found.map(({ place }) => `update ${sql} set ${kept} where ${place}`),
    );
    const reach = reached(found, outcomes);
    const changed = found.filter((_, i) => isAllowed(outcomes[i]!)).slice(0, CHANGED_ROWS);
    const values: ColumnValues[] = [];
    // Without a column that can be written, the error of the table or view is the answer.
    const [first] = this.#privileges.update.map(quoteIdentifier);
    const everywhere = columns.length === 0 ? [`update ${sql} set ${first} = ${first}`] : [];
    for (const column of columns) {
      const candidates = await this.#candidates(column);
      values.push(await this.#change(column, candidates, changed));
      everywhere.push(...candidates.map((value) => `update ${sql} set ${this.#assignment(column, value)}`));
    }
    return { ...(await this.#withOthers(reach, everywhere)), values };
  }

  /** Changes a column of the rows into other values. */
  async #change(column: string, candidates: readonly unknown[], rows: readonly Row[]): Promise<ColumnValues> {
    const statements = rows.flatMap(({ place, values }) =>
      candidates
        .filter((value) => JSON.stringify(value) !== JSON.stringify(values[column]))
        .map((value) => `update ${this.#table.sql} set ${this.#assignment(column, value)} where ${place}`),
    );
    const outcomes = await this.#attempt(this.#reading(), statements);
    return { column, allowed: outcomes.filter(isAllowed).length, tried: outcomes.length };
  }

  /** Some values of a column, and of the column that it references. */
  async #candidates(column: string): Promise<readonly unknown[]> {
    const own = distinct(this.#rows.map(({ values }) => values[column])).slice(0, CHANGED_VALUES);
    const { referenced } = this.#table.columns.find(({ name }) => name === column)!;
    if (referenced === null) return own;
    const limited = `${referenced} order by ctid limit ${CHANGED_VALUES}`;
    const { rows } = await this.#owner.query(`select to_jsonb(t.value) as value from (${limited}) as t (value)`);
    return distinct([...own, ...rows.map(({ value }) => value)]);
  }

  /** `author_id = (jsonb_populate_record(null::public.notes, '{"author_id": 1}')).author_id` */
  #assignment(column: string, value: unknown): string {
    const name = quoteIdentifier(column);
    return `${name} = (${this.#record(JSON.stringify({ [column]: value }))}).${name}`;
  }

  async #delete(visible: readonly Row[]): Promise<Reach | null> {
    const { sql, hasPlaces, oid } = this.#table;
    const { role } = this.#identity;
    const { rows } = await this.#owner.query("select has_table_privilege($1, $2::oid, 'delete') as granted", [
      role,
      oid,
    ]);
    if (!rows[0].granted) return null;
    const found = hasPlaces ? visible : [];
    const statements = found.map(({ place }) => `delete from ${sql} where ${place}`);
    const reach = reached(found, await this.#attempt(this.#reading(), statements));
    return this.#withOthers(reach, [`delete from ${sql}`]);
  }

  /**
   * The rows that a statement without a condition reaches in addition, as a count: it does not read, so that policies for select do not
   * apply. A statement may also give the rows of others to the caller. A view that is not updatable has an error in place of rows.
   */
  async #withOthers(reach: Reach, statements: readonly string[]): Promise<Reach> {
    const outcomes = await this.#attempt("select", statements);
    const counts = outcomes.filter((outcome) => outcome.startsWith("=")).map((outcome) => Number(outcome.slice(1)));
    const isNotUpdatable = outcomes.length > 0 && outcomes.every((outcome) => NOT_UPDATABLE.includes(outcome));
    return {
      labels: reach.labels,
      others: Math.max(0, ...counts.map((count) => count - reach.labels.length)),
      errors: isNotUpdatable ? [...new Set([...reach.errors, ...outcomes])].sort() : reach.errors,
    };
  }

  #writable(columns: readonly string[]): readonly string[] {
    const writable = this.#table.columns.filter(({ isWritable }) => isWritable).map(({ name }) => name);
    return columns.filter((column) => writable.includes(column));
  }

  async #attempt(preparation: string, statements: readonly string[]): Promise<readonly string[]> {
    if (statements.length === 0) return [];
    const values = [...this.#caller(), preparation, statements];
    const { rows } = await this.#owner.query("select pg_temp.attempt_as($1, $2, $3, $4) as outcomes", values);
    return rows[0].outcomes;
  }

  #caller(): [string, string] {
    return [this.#identity.role, claimsText({ ...this.#identity, expiresAt: null, refused: null })];
  }

  /** Places of rows have no column privileges: a caller who may read columns finds the rows by those. */
  #reading(): string {
    if (this.#privileges.select.length === 0) return "select";
    return `grant select on ${this.#table.sql} to ${quoteIdentifier(this.#identity.role)}`;
  }

  /** SQL for a record of the table: `jsonb_populate_record(null::public.notes, '{"id": 1}')` */
  #record(json: string): string {
    return `jsonb_populate_record(null::${this.#table.sql}, '${json.replaceAll("'", "''")}')`;
  }
}

const distinct = (values: readonly unknown[]): unknown[] => [
  ...new Map(values.map((value) => [JSON.stringify(value), value])).values(),
];

const reachOf = (rows: readonly Row[], rest: Omit<Reach, "labels">): Reach => ({
  labels: rows.map(({ label }) => label),
  ...rest,
});

const reached = (rows: readonly Row[], outcomes: readonly string[]): Reach =>
  reachOf(
    rows.filter((_, i) => isAllowed(outcomes[i]!)),
    { others: 0, errors: [...new Set(outcomes.filter(isError))].sort() },
  );
