import { setTimeout as sleep } from "node:timers/promises";
import type { DatabaseError } from "pg-protocol";
import type { Caller } from "../../caller.ts";
import type { Catalog, Setting } from "../../catalog/catalog.ts";
import type { RawRow } from "../../connection.ts";
import type { Database } from "../../database.ts";
import { ApiError, isTransient } from "../../errors.ts";
import { claimsText, type Identity, NO_REQUEST } from "../../identity.ts";
import type { Statement } from "../../transaction.ts";

export type CheckerOptions = {
  readonly database: Pick<Database, "forRole">;
  readonly catalog: { readonly current: Catalog };
  /** Milliseconds after which a statement of a policy is cancelled. */
  readonly timeout: number;
  /** The search path of functions without their own. */
  readonly searchPath: readonly string[];
  /** `app.settings.*`, for functions. */
  readonly appSettings: readonly Setting[];
};

/** A policy that raised an error or took too long. The message is for the developer of the client. */
export class CheckError extends Error {
  /** Whether it took too long, so that it is not run again for each change. */
  readonly isTimeout: boolean;

  constructor(message: string, isTimeout: boolean) {
    super(message);
    this.isTimeout = isTimeout;
  }
}

/** The rows of a statement. */
export type Outcome = readonly RawRow[] | CheckError;

/** Statements that run at the same time, on connections that requests could use. */
const SLOTS = 3;
/** Those of policies that were slow before, so that they never take all slots. */
const SLOW_SLOTS = 1;
/** Milliseconds. */
const SLOW = 200;
/** Callers in one transaction. */
const CHUNK = 200;
/** How often the callers of a chunk are divided to find those with errors. */
const MAX_DIVISIONS = 64;
const RETRY_MILLISECONDS = 200;
const MAX_RETRY_MILLISECONDS = 5000;

const TIMEOUT = "57014";

/** Runs the queries of policies, in the role of callers. They wait as long as the database is not available. */
export class Checker {
  readonly #options: CheckerOptions;
  readonly #quick = new Slots(SLOTS - SLOW_SLOTS);
  readonly #slow = new Slots(SLOW_SLOTS);
  /** Texts of statements that were slow when they were last run. */
  readonly #slowTexts = new Set<string>();
  /** Callers whose last statement raised an error. They are checked after the others. */
  readonly #raising = new WeakSet<Caller>();
  /** The session settings of each role. */
  readonly #settings = new WeakMap<Catalog, Map<string, readonly Setting[]>>();
  readonly #closed = new AbortController();

  constructor(options: CheckerOptions) {
    this.#options = options;
  }

  /**
   * Runs statements in a role, without claims. Returns the rows of the last one. Rejects with CheckError, or when the checker
   * is closed.
   */
  async once(role: string, ...statements: readonly Statement[]): Promise<RawRow[]> {
    const caller: Caller = { role, claims: {}, expiresAt: null, refused: null };
    return (await this.#run(caller, [...statements.slice(0, -1), CUSTOM_PLAN, statements.at(-1)!])).at(-1)!;
  }

  /** Runs a statement for callers of the same role. Returns the rows or the error of each, in order. */
  async each(callers: readonly Caller[], statement: Statement): Promise<Outcome[]> {
    const [quiet, raising] = [false, true].map((wanted) =>
      callers.filter((each) => this.#raising.has(each) === wanted),
    );
    const outcomes = new Map<Caller, Outcome>();
    for (const group of [quiet!, raising!]) {
      for (let from = 0; from < group.length; from += CHUNK) {
        const chunk = group.slice(from, from + CHUNK);
        const results = await this.#chunk(chunk, statement, { left: MAX_DIVISIONS });
        for (const [i, caller] of chunk.entries()) outcomes.set(caller, results[i]!);
      }
    }
    for (const [caller, outcome] of outcomes) {
      if (outcome instanceof CheckError) this.#raising.add(caller);
      else this.#raising.delete(caller);
    }
    return callers.map((caller) => outcomes.get(caller)!);
  }

  close(): void {
    this.#closed.abort(new Error("the service is stopping"));
  }

  /** An error affects its own caller only: the others are tried again, in two halves, as long as there are not too many errors. */
  async #chunk(callers: readonly Caller[], statement: Statement, divisions: { left: number }): Promise<Outcome[]> {
    const [first, ...others] = callers;
    const statements = [statement, ...others.flatMap((caller) => [claimsOf(caller), statement])];
    try {
      const results = await this.#run(first!, statements);
      return results.filter((_, i) => i % 2 === 0);
    } catch (error) {
      if (!(error instanceof CheckError)) throw error;
      if (callers.length === 1 || --divisions.left < 0) return callers.map(() => error);
      const middle = callers.length >> 1;
      const [left, right] = [callers.slice(0, middle), callers.slice(middle)];
      const checked = await this.#chunk(left, statement, divisions);
      return [...checked, ...(await this.#chunk(right, statement, divisions))];
    }
  }

  async #run(caller: Caller, statements: readonly Statement[]): Promise<RawRow[][]> {
    const { text } = statements.at(-1)!;
    const isSlow = this.#slowTexts.has(text);
    const slots = isSlow ? this.#slow : this.#quick;
    await slots.enter();
    const start = performance.now();
    try {
      return await this.#retrying(caller, statements);
    } finally {
      slots.leave();
      if (performance.now() - start > SLOW) this.#slowTexts.add(text);
      else if (isSlow) this.#slowTexts.delete(text);
    }
  }

  async #retrying(caller: Caller, statements: readonly Statement[]): Promise<RawRow[][]> {
    const { database } = this.#options;
    const { signal } = this.#closed;
    for (let pause = RETRY_MILLISECONDS; ; pause = Math.min(2 * pause, MAX_RETRY_MILLISECONDS)) {
      signal.throwIfAborted();
      try {
        const results = await database.forRole(caller.role).run(this.#identityOf(caller), statements, { signal });
        return results.map(({ rows }) => rows);
      } catch (error) {
        signal.throwIfAborted();
        if (!isTransient(error as Error)) throw checkErrorOf(error as DatabaseError | ApiError);
        await sleep(pause, null, { signal });
      }
    }
  }

  #identityOf(caller: Caller): Identity {
    const { current } = this.#options.catalog;
    const byRole = this.#settings.get(current) ?? new Map<string, readonly Setting[]>();
    this.#settings.set(current, byRole);
    const fixed = byRole.get(caller.role) ?? this.#settingsOf(current.roles.get(caller.role)?.settings ?? []);
    byRole.set(caller.role, fixed);
    return { caller, request: NO_REQUEST, settings: { fixed, given: [] } };
  }

  #settingsOf(ofRole: readonly Setting[]): readonly Setting[] {
    const { timeout, searchPath, appSettings } = this.#options;
    return [
      ...ofRole,
      ["search_path", searchPath.map((name) => `"${name.replaceAll('"', '""')}"`).join(", ")],
      ["transaction_read_only", "on"],
      ["jit", "off"],
      ...appSettings,
      ["statement_timeout", String(timeout)],
    ];
  }
}

/** The best plan depends on the number of rows and of terms, which differ from batch to batch. */
const CUSTOM_PLAN: Statement = {
  text: "select pg_catalog.set_config('plan_cache_mode', 'force_custom_plan', true)",
  values: [],
};

/** Takes on the claims of another caller of the same role. */
const claimsOf = (caller: Caller): Statement => ({
  text: "select pg_catalog.set_config('request.jwt.claims', $1, true)",
  values: [claimsText(caller)],
});

function checkErrorOf(error: DatabaseError | ApiError): Error {
  if (error instanceof ApiError) return new CheckError(error.problem.message, false);
  // Without a SQLSTATE, the error is a bug of this service, or the service is stopping.
  if (typeof error.code !== "string" || error.severity === undefined) return error;
  return new CheckError(error.message, error.code === TIMEOUT);
}

/** A limit on what runs at the same time. The others wait in order. */
class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  enter(): Promise<void> | void {
    if (this.#free-- > 0) return;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  leave(): void {
    this.#free++;
    this.#waiting.shift()?.();
  }
}
