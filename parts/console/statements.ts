import type { Pool } from "pg";
import type { Statement } from "../../db/wire/batch.ts";

/** A statement that the database is running. */
export type RunningStatement = {
  readonly login: string;
  readonly seconds: number;
  /** What it waits for: `Lock: transactionid`; null if it does not wait. */
  readonly waitsFor: string | null;
  readonly text: string;
};

/** A statement of `pg_stat_statements`. Times are in milliseconds. */
export type StatementStatistics = {
  readonly text: string;
  readonly calls: number;
  readonly total: number;
  readonly mean: number;
};

export type Activity = {
  readonly running: readonly RunningStatement[];
  /** Null if `pg_stat_statements` is not installed, or may not be read. */
  readonly statistics: readonly StatementStatistics[] | null;
};

const MAX_ROWS = 20;

// Without pg_read_all_stats, the text of other logins is hidden.
const RUNNING = `
  select usename as login, extract(epoch from clock_timestamp() - query_start)::float as seconds,
    wait_event_type || ': ' || wait_event as "waitsFor", left(query, 2000) as text
  from pg_stat_activity
  where datname = current_database() and state = 'active' and pid <> pg_backend_pid() and backend_type = 'client backend'
  order by query_start
  limit ${MAX_ROWS}`;

const SCHEMA = `
  select quote_ident(n.nspname) as schema
  from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
  where e.extname = 'pg_stat_statements'`;

const statistics = (schema: string) => `
  select left(query, 2000) as text, calls::float as calls, total_exec_time as total, mean_exec_time as mean
  from ${schema}.pg_stat_statements
  where dbid = (select oid from pg_database where datname = current_database())
  order by total_exec_time desc
  limit ${MAX_ROWS}`;

/** What the database does now, and which of its statements take the most time. */
export async function readActivity(pool: Pick<Pool, "query">): Promise<Activity> {
  const [running, installed] = await Promise.all([
    pool.query<RunningStatement>(RUNNING),
    pool.query<{ schema: string }>(SCHEMA),
  ]);
  const schema = installed.rows[0]?.schema;
  // pg_stat_statements may be installed but not loaded, or this login may not read it.
  const found = schema && (await pool.query<StatementStatistics>(statistics(schema)).catch(() => null));
  return { running: running.rows, statistics: found ? found.rows : null };
}

/** The SQL of transactions that were slow. Times are in milliseconds. */
export type SlowTransaction = {
  readonly text: string;
  readonly count: number;
  readonly total: number;
  readonly max: number;
  /** Milliseconds since 1970. */
  readonly last: number;
};

const MAX_STATEMENTS = 100;
const MAX_TEXT = 10_000;

/**
 * The slow transactions of callers in this process, by their SQL. If there are more than MAX_STATEMENTS, the one that was
 * slow least recently is dropped.
 */
export class SlowTransactions {
  readonly #byText = new Map<string, SlowTransaction>();

  /** The greatest total time first. */
  get all(): readonly SlowTransaction[] {
    return [...this.#byText.values()].sort((a, b) => b.total - a.total);
  }

  add(statements: readonly Statement[], milliseconds: number): void {
    const text = statements
      .map((statement) => statement.text)
      .join(";\n")
      .slice(0, MAX_TEXT);
    const { count = 0, total = 0, max = 0 } = this.#byText.get(text) ?? {};
    this.#byText.delete(text);
    if (this.#byText.size >= MAX_STATEMENTS) this.#byText.delete(this.#byText.keys().next().value as string);
    const times = { count: count + 1, total: total + milliseconds, max: Math.max(max, milliseconds) };
    this.#byText.set(text, { text, ...times, last: Date.now() });
  }
}
