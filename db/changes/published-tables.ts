import { createHash } from "node:crypto";
import type pg from "pg";
import { quoteName, type TableName } from "../catalog/catalog.ts";
import { isAfter, type Moment, type Position, parseSnapshot, type Snapshot, type Start } from "./position.ts";
import type { TableState } from "./publication-state.ts";

/** Later than that of any query. */
const UNSEEN: Snapshot = { end: 2n ** 64n, running: new Set() };

/** Maximum digits of an OID in base 36. */
const OID_DIGITS = 7;

/**
 * Since when the tables of a publication are in it. The changes of a table before that are missing in the stream: they were not logged, or
 * another table had its name.
 */
export class PublishedTables {
  /** By name, as the last run has left them. */
  #tables = new Map<string, TableState>();
  /** The OID that each table has had last, published or not. */
  readonly #oids = new Map<string, number>();
  /** For the tables that were published after the first run; null until `settle`. */
  readonly #since = new Map<string, Moment | null>();
  #first: Moment | null = null;
  /** When the last of the tables was published; null until `settle`. */
  #settled: Moment | null = null;
  /** What positions say of the tables, so that another process knows whether they are the same. */
  #text = "";
  /**
   * Of the texts that clients from before this process have sent, and that are true, the one with the fewest tables: it holds for all of
   * them. "" without one.
   */
  #confirmed = "";
  /** By the number of tables, in the order of their entries: after a restart, all clients come with the same one. */
  readonly #digests = new Map<number, string>();

  /** To be called in each run. Returns the names of the tables that have replaced others, or were left out meanwhile, perhaps in part. */
  follow(found: readonly TableState[]): ReadonlySet<string> {
    const tables = new Map(found.filter(({ isPublished }) => isPublished).map((table) => [keyOf(table), table]));
    const before = this.#tables;
    const added = [...tables].filter(([key, table]) => !isSame(before.get(key), table)).map(([key]) => key);
    if (this.#first !== null) for (const key of added) this.#since.set(key, null);
    this.#tables = tables;
    this.#digests.clear();
    const highest = Math.max(0, ...[...tables.values()].map(({ entry }) => entry));
    this.#text = highest.toString(36).padStart(OID_DIGITS, "0") + this.#digestUpTo(highest);
    if (added.length > 0) this.#settled = null;
    const replaced = found.filter((table) => (this.#oids.get(keyOf(table)) ?? table.oid) !== table.oid).map(keyOf);
    for (const table of found) this.#oids.set(keyOf(table), table.oid);
    return new Set([...replaced, ...added.filter((key) => before.has(key))]);
  }

  /** To be called when the changes of the published tables arrive. */
  async settle(pool: Pick<pg.Pool, "query">): Promise<void> {
    if (this.#settled !== null) return;
    const moment = await readMoment(pool);
    this.#first ??= moment;
    this.#settled = moment;
    for (const [key, since] of this.#since) this.#since.set(key, since ?? moment);
  }

  /** A change is missing that was committed here. */
  miss(table: TableName, { lsn }: Position): void {
    const key = quoteName(table);
    const since = this.#since.get(key);
    if (since === undefined || (since && since.lsn <= lsn)) this.#since.set(key, { lsn: lsn + 1n, snapshot: UNSEEN });
  }

  /** Whether changes of the table after the position may be missing. If not, `textAt` knows what the client has sent. */
  isMissing(table: TableName, start: Start): boolean {
    const key = quoteName(table);
    const since = this.#since.get(key);
    if (since === null || (since && !isAfter(start, since))) return true;
    // Otherwise this process has seen all that was published after the position.
    if (start.published === undefined || (this.#first && isAfter(start, this.#first))) return false;
    if (!this.#hadSame(key, start.published)) return true;
    if (this.#confirmed === "" || start.published < this.#confirmed) this.#confirmed = start.published;
    return false;
  }

  /** What the text of a position says of the tables that were published there; "" if it is not known. */
  textAt(start: Start): string {
    if (this.#settled && isAfter(start, this.#settled)) return this.#text;
    // A client that catches up with changes from before this process.
    return start.published || this.#confirmed;
  }

  /** Where those of these tables were published that were not when the process began. */
  startsOf(tables: readonly TableName[]): readonly Position[] {
    const moments = tables.flatMap((table) => this.#since.get(quoteName(table)) ?? []);
    return moments.map(({ lsn }) => ({ lsn, index: 0 }));
  }

  /** OIDs grow: a table whose entry has a higher one was published later. If they start over, the digests differ. */
  #hadSame(key: string, text: string): boolean {
    const highest = Number.parseInt(text.slice(0, OID_DIGITS), 36);
    const table = this.#tables.get(key);
    return table !== undefined && table.entry <= highest && text.slice(OID_DIGITS) === this.#digestUpTo(highest);
  }

  #digestUpTo(highest: number): string {
    const tables = [...this.#tables].filter(([, { entry }]) => entry <= highest);
    const digest = this.#digests.get(tables.length) ?? digestOf(tables);
    this.#digests.set(tables.length, digest);
    return digest;
  }
}

function digestOf(tables: readonly (readonly [key: string, table: TableState])[]): string {
  const text = JSON.stringify(tables.map(([key, { oid, membership }]) => [key, oid, membership]).sort());
  return createHash("sha256").update(text).digest().readUIntBE(0, 4).toString(36);
}

const isSame = (one: TableState | undefined, other: TableState): boolean =>
  one?.oid === other.oid && one.membership === other.membership;

export const keyOf = ({ schema, table }: TableState): string => quoteName({ schema, name: table });

async function readMoment(pool: Pick<pg.Pool, "query">): Promise<Moment> {
  const text =
    "select (pg_catalog.pg_current_wal_insert_lsn() - '0/0')::text as lsn, pg_catalog.pg_current_snapshot()::text as snapshot";
  const { lsn, snapshot } = (await pool.query<{ lsn: string; snapshot: string }>(text)).rows[0]!;
  return { lsn: BigInt(lsn), snapshot: parseSnapshot(snapshot) };
}
