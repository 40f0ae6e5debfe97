import type pg from "pg";
import { quoteIfNeeded, quoteName, type TableName } from "../catalog/catalog.ts";
import { Debounced } from "../follow/debounced.ts";
import type { DescribedTable } from "./column-numbers.ts";
import { type LostChanges, lostChangesOf, NOTHING_LOST } from "./lost-changes.ts";
import type { Position, Start } from "./position.ts";
import { additionOf, failureOf, noChangesOf, planReplicaIdentities, WHOLE } from "./publication-plan.ts";
import {
  type PublicationState,
  publicationQuery,
  type TableState,
  tableQuery,
  tablesQuery,
} from "./publication-state.ts";
import { keyOf, PublishedTables } from "./published-tables.ts";
import { feedGap } from "./reader.ts";

/**
 * Who manages the publication. "service": the service, with the rights of the database's owner. "login": the login of the
 * service, which alters no tables. "dba": only a DBA, because the login may not alter it.
 */
export type PublicationManager = "service" | "login" | "dba";

export type PublicationOptions = {
  readonly pool: pg.Pool;
  readonly name: string;
  readonly manager: PublicationManager;
  /** The served schemas. Tables of other schemas are left as they are. */
  readonly schemas: readonly string[];
  /** The login roles of requests. The tables that their roles may read are published. */
  readonly logins: readonly string[];
  readonly onError: (error: Error) => void;
  /** Called when what `/health` says has changed. */
  readonly onChange: () => void;
  /** Called once for each table whose changes do not arrive, or that cannot be written while it is published. */
  readonly onWarning: (warning: string) => void;
};

/** When a client subscribes, the tables are read again only if the last run began more than this many milliseconds before. */
const FRESH = 1000;
/** SQLSTATE of a lock that was not granted in time. */
const LOCKED = "55P03";
/** SQLSTATE of a table that the login may not publish, because it does not own it. */
const FORBIDDEN = "42501";

/**
 * The publication of the tables whose changes subscribers may receive: those that a caller may read. Follows the database, and
 * never makes a write of the application fail.
 */
export class Publication {
  readonly published = new PublishedTables();
  readonly #options: PublicationOptions;
  readonly #runs: Debounced;
  #hasRead = false;
  /** Statements so far that may have changed the publication, or a table. */
  #writes = 0;
  /** By table: null for those that are published. Tables that callers may not read are missing. */
  #reasons = new Map<string, string | null>();
  /** Published tables with a fault: why their updates and deletes fail. */
  #failing = new Map<string, string>();
  /** Tables whose changes arrive in part: what the policies of callers cannot be checked on, and why. */
  #partial = new Map<string, string>();
  /** The operations that the publication leaves out. */
  #missing: readonly string[] = [];
  /** As the last run has left them. */
  #tables = new Map<string, TableState>();
  #state: PublicationState = WHOLE;
  #onTables = (_recreated: ReadonlySet<string>) => {};

  constructor(options: PublicationOptions) {
    this.#options = options;
    this.#runs = new Debounced(() => this.#run(), options.onError);
  }

  /** Resolves after the first attempt. */
  start(): Promise<void> {
    return this.#runs.now();
  }

  /** To be called after DDL. */
  soon(): void {
    this.#runs.soon();
  }

  close(): Promise<void> {
    return this.#runs.close();
  }

  /**
   * What a subscriber to the table does not receive whose policies and filter read these columns. Reads the tables at most once, and
   * once for all subscribers who ask at the same time.
   */
  async lostChanges(table: TableName, read: ReadonlySet<string>): Promise<LostChanges> {
    await this.#runs.settled();
    // The table may have been created or granted a moment ago. Only the database of a service announces every other change of a table.
    const mayHaveChanged = this.#options.manager !== "service" || this.#allLostOf(table, read) !== NOTHING_LOST;
    if (mayHaveChanged) await this.#runs.recent(FRESH);
    return this.#allLostOf(table, read);
  }

  /** The same as far as the last run has seen. */
  knownLosses(table: TableName, read: Iterable<string>): LostChanges {
    const isMissing = this.#tables.get(quoteName(table))?.isPublished === false;
    return isMissing ? { all: this.#reasonOf(table), deletes: null } : this.#lostOf(table, read);
  }

  /** Throws `feedGap` if changes of the table after `since` may be missing. */
  refuseMissed(table: TableName, since: Start): void {
    if (this.published.isMissing(table, since)) throw feedGap();
  }

  /** Where those of these tables were published that were not when the process began. */
  startsOf(tables: readonly TableName[]): readonly Position[] {
    return this.published.startsOf(tables);
  }

  /** Calls back after each run that has found other tables than the run before, with those that others have replaced. */
  onTables(listener: (recreated: ReadonlySet<string>) => void): void {
    this.#onTables = listener;
  }

  /**
   * The stream describes a table before its changes: before the first ones, and after DDL. If it is not as the last run has left it, the
   * tables are read again, and the result is true. So its subscribers learn of a gap before the first change after it.
   */
  async meet({ oid }: DescribedTable): Promise<boolean> {
    const [found] = await this.#read(tableQuery, oid).catch(() => []);
    const known = [...this.#tables.values()].find((each) => each.oid === found?.oid || each.oid === oid);
    if (JSON.stringify(known) === JSON.stringify(found)) return false;
    await this.#runs.settled();
    await this.#runs.now();
    return true;
  }

  /** For `/health`. The number of tables is null until they have been read. */
  get health() {
    const refused = [...this.#reasons].filter(([, reason]) => reason !== null);
    return {
      name: this.#options.name,
      tables: this.#hasRead ? this.#reasons.size - refused.length : null,
      ...(refused.length > 0 && { refused: Object.fromEntries(refused) }),
      ...(this.#failing.size > 0 && { failing: Object.fromEntries(this.#failing) }),
      ...(this.#partial.size > 0 && { partial: Object.fromEntries(this.#partial) }),
      ...(this.#missing.length > 0 && { missing: this.#missing }),
    };
  }

  #allLostOf(table: TableName, read: Iterable<string>): LostChanges {
    const reason = this.#reasonOf(table);
    return reason === null ? this.#lostOf(table, read) : { all: reason, deletes: null };
  }

  #lostOf(table: TableName, read: Iterable<string>): LostChanges {
    const state = this.#tables.get(quoteName(table));
    return state?.isPublished ? lostChangesOf(state, read, this.#state) : NOTHING_LOST;
  }

  #reasonOf(table: TableName): string | null {
    const reason = this.#reasons.get(quoteName(table));
    return reason === undefined ? `${quoteName(table)} is not a table that callers may read` : reason;
  }

  async #run(): Promise<void> {
    const { pool, name } = this.#options;
    const state = (await pool.query<PublicationState>(publicationQuery, [name])).rows[0];
    if (!state) throw new Error(`the publication ${name} does not exist`);
    this.#state = state;
    const reasons = new Map<string, string | null>();
    let isLocked = false;
    const found = await this.#read();
    const writes = this.#writes;
    for (const table of found) {
      const reason = await this.#apply(table, state).catch((error: Error & { code?: string }) => {
        isLocked ||= error.code === LOCKED;
        if (error.code === FORBIDDEN) return adviceFor(table, state);
        return error.code === LOCKED ? "another transaction has locked it: the service tries again" : error.message;
      });
      if (table.isReadable) reasons.set(keyOf(table), reason);
    }
    const tables = this.#writes === writes ? found : await this.#read();
    // Nothing is awaited in between: before the first change of a table that has replaced another one, its subscribers get a gap.
    const before = JSON.stringify(this.health);
    const isSame = JSON.stringify([...this.#tables.values()]) === JSON.stringify(tables);
    this.#tables = new Map(tables.map((table) => [keyOf(table), table]));
    this.#report(tables, reasons, state);
    if (JSON.stringify(this.health) !== before) this.#options.onChange();
    const recreated = this.published.follow(tables);
    if (!isSame) this.#onTables(recreated);
    await this.published.settle(pool);
    if (isLocked) this.#runs.later();
  }

  async #read(query = tablesQuery, ...more: readonly number[]): Promise<readonly TableState[]> {
    const { pool, name, schemas, logins } = this.#options;
    return (await pool.query<TableState>(query, [schemas, logins, name, ...more])).rows;
  }

  /** Keeps what does not arrive, for `/health`, and warns of what is new. */
  #report(tables: readonly TableState[], reasons: Map<string, string | null>, state: PublicationState): void {
    const { name, manager, onWarning } = this.#options;
    const writes = [...(state.publishesUpdates ? ["UPDATE"] : []), ...(state.publishesDeletes ? ["DELETE"] : [])];
    const failing = new Map<string, string>();
    const partial = new Map<string, string>();
    for (const table of tables) {
      const key = keyOf(table);
      const reason = reasons.get(key) ?? null;
      if (reason !== null && this.#reasons.get(key) !== reason) onWarning(noChangesOf(table, reason));
      const failure = manager === "dba" && table.isPublished && writes.length > 0 ? failureOf(table, state) : null;
      if (failure !== null) failing.set(key, failure);
      if (failure !== null && this.#failing.get(key) !== failure) onWarning(failure);
      const { all, deletes } = this.#lostOf({ schema: table.schema, name: table.table }, table.policyColumns);
      const lost = all ?? deletes;
      if (lost === null || !table.isReadable || writes.length < 2) continue;
      partial.set(key, lost);
      if (this.#partial.get(key) !== lost)
        onWarning(`subscribers receive no ${all ? "changes" : "DELETE"} of ${table.name}: ${lost}`);
    }
    const missing = ["UPDATE", "DELETE"].filter((operation) => !writes.includes(operation));
    if (missing.length > 0 && this.#missing.join() !== missing.join())
      onWarning(`subscribers receive no ${missing.join(" and no ")}: the publication ${name} leaves them out`);
    this.#hasRead = true;
    [this.#reasons, this.#failing, this.#partial, this.#missing] = [reasons, failing, partial, missing];
  }

  /** Returns why a table that callers may read is not published. */
  async #apply(table: TableState, state: PublicationState): Promise<string | null> {
    const { manager } = this.#options;
    if (manager === "dba") return table.isPublished ? null : (failureOf(table, state) ?? adviceFor(table, state));
    const plan = manager === "service" ? planReplicaIdentities(table) : (failureOf(table, state) ?? []);
    if (!table.isReadable || typeof plan === "string") {
      if (table.isPublished) await this.#publish(table, false);
      return typeof plan === "string" ? plan : null;
    }
    // Before it is published: without a suitable identity, updates and deletes of a published table fail.
    for (const { oid, identity } of plan)
      await this.#alter("select changes.set_identity($1::oid::regclass, $2)", [oid, identity]);
    if (!table.isPublished) await this.#publish(table, true);
    return null;
  }

  #publish({ oid, name }: TableState, isPublished: boolean): Promise<void> {
    const { manager, name: publication } = this.#options;
    // By OID: the role of the connection may have no rights on the schema.
    if (manager === "service")
      return this.#alter("select changes.publish_table($1::oid::regclass, $2)", [oid, isPublished]);
    const verb = isPublished ? "add" : "drop";
    return this.#alter(`alter publication ${quoteIfNeeded(publication)} ${verb} table only ${name}`);
  }

  async #alter(text: string, values: readonly unknown[] = []): Promise<void> {
    this.#writes++;
    await this.#options.pool.query(text, [...values]);
  }
}

const adviceFor = (table: TableState, state: PublicationState): string =>
  `a DBA can publish it: ${additionOf(table, state)}`;
