import type { DatabaseError } from "pg-protocol";
import { Problem } from "../../problems/problem.ts";
import type { Caller } from "../caller.ts";
import type { Setting } from "../catalog/catalog.ts";
import type { Database } from "../database.ts";
import { isTimeout, isTransient } from "../errors.ts";
import { clientMessage, messageForSubscriber } from "../masking.ts";
import { retry } from "../repeat.ts";
import { claimsText, type Identity, NO_REQUEST } from "../transaction/identity.ts";
import type { Statement } from "../transaction/transaction.ts";
import type { RawRow } from "../wire/connection.ts";

export type CheckerOptions = {
  readonly database: Pick<Database, "forRole">;
  /** Milliseconds after which a statement of a policy is cancelled. */
  readonly timeout: number;
  /** Whether a function runs before what a caller does: it may refuse the caller, and set what policies read. */
  readonly hasPreRequest: boolean;
  /** Milliseconds that the watches of a batch of changes, which are asked about together, wait for their answers. */
  readonly patience?: number;
};

/** A policy that raised an error or took too long. The message is for the developer of the client, the cause for operators: it is masked. */
export class CheckError extends Error {
  readonly isTimeout: boolean;

  constructor(message: string, isTimeout: boolean, cause?: Error) {
    super(message, { cause });
    this.isTimeout = isTimeout;
  }
}

const UNDEFINED_COLUMN = "42703";
const NOT_DECIDED = "the policy cannot be decided for changes";

/** The rows of a statement. */
export type Outcome = readonly RawRow[] | CheckError;

/**
 * How Postgres is asked about a batch of changes. "together": for many watches, which wait for a short time only; an error leaves all of
 * them undecided. "alone": for one subscriber, at first for as short a time, then as long as a policy may take.
 */
export type Manner = "together" | "alone";

/** Milliseconds. */
const PATIENCE = 250;
/** Callers in one transaction. What DB_PRE_REQUEST has set for one must not be read by the next. */
const CHUNK = 200;
const RETRY_MILLISECONDS = 200;
const MAX_RETRY_MILLISECONDS = 5000;

/** Questions about one batch of changes. */
export class Inquiry {
  /** Whether errors leave all watches undecided, because each subscriber is asked about alone later. */
  readonly isShared: boolean;
  readonly #patience: number;
  #deadline: AbortSignal | null = null;
  /** Whether an answer was slow or an error. */
  wasDifficult = false;

  constructor(manner: Manner, patience: number) {
    this.isShared = manner === "together";
    this.#patience = patience;
  }

  /** The answer; rejects with CheckError if it comes too late. */
  async wait<T>(answer: Promise<T>): Promise<T> {
    const { deadline } = this;
    if (deadline === null) return answer;
    const late = Promise.withResolvers<never>();
    const stop = () => late.reject(tooLate());
    if (deadline.aborted) stop();
    deadline.addEventListener("abort", stop);
    return Promise.race([answer, late.promise]).finally(() => deadline.removeEventListener("abort", stop));
  }

  /** Asks about all items at once. After an error, a shared inquiry leaves all undecided; otherwise each item is asked about alone. */
  async each<Item, Result>(
    items: readonly Item[],
    ask: (items: readonly Item[]) => Promise<readonly Result[]>,
  ): Promise<readonly (Result | CheckError)[]> {
    try {
      return await ask(items);
    } catch (error) {
      if (!(error instanceof CheckError)) throw error;
      if (this.isShared || items.length === 1) return items.map(() => error);
      const alone = await Promise.all(items.map((item) => this.each([item], ask)));
      return alone.map(([result]) => result!);
    }
  }

  /** When the wait ends, from the first question on. */
  get deadline(): AbortSignal | null {
    if (this.isShared) this.#deadline ??= AbortSignal.timeout(this.#patience);
    return this.#deadline;
  }

  /** Notes how an answer came, after this many milliseconds. */
  note(duration: number, isError: boolean): void {
    if (isError || duration > this.#patience) this.wasDifficult = true;
  }
}

/** Runs the queries of policies, in the role of callers. They wait as long as the database is not available. */
export class Checker {
  readonly #options: CheckerOptions;
  /** Whether each caller is asked about in a transaction of their own. It may change while the service runs. */
  decidesAlone: boolean;
  /** Transactions at the same time, on connections that requests could use. A slow one never keeps others from being asked. */
  readonly #slots = { together: new Semaphore(2), alone: new Semaphore(2), slow: new Semaphore(1) };
  readonly #settings: Readonly<Record<"brief" | "long" | "admission", readonly Setting[]>>;
  readonly #closed = new AbortController();

  constructor(options: CheckerOptions) {
    const { timeout, patience = PATIENCE } = options;
    this.#options = options;
    this.decidesAlone = options.hasPreRequest;
    this.#settings = {
      brief: settingsOf(Math.min(timeout, patience)),
      long: settingsOf(timeout),
      admission: settingsOf(null),
    };
  }

  get isClosed(): boolean {
    return this.#closed.signal.aborted;
  }

  /**
   * Runs DB_PRE_REQUEST for a caller who subscribes. Rejects with its refusal, as transactions do. Null if there is nothing to run.
   */
  admit(identity: Identity): Promise<unknown> | null {
    if (!this.decidesAlone) return null;
    const settings = { fixed: this.#settings.admission, given: [] };
    return this.#options.database.forRole(identity.caller.role).run({ ...identity, settings }, [NOTHING]);
  }

  inquiry(manner: Manner): Inquiry {
    return new Inquiry(manner, this.#options.patience ?? PATIENCE);
  }

  /**
   * Runs statements in a role, without claims. Returns the rows of the last one. Rejects with CheckError, or when the checker
   * is closed. Without an inquiry, it is for a subscriber that joins.
   */
  async once(role: string, statements: readonly Statement[], inquiry: Inquiry | null = null): Promise<RawRow[]> {
    const caller: Caller = { role, claims: {}, expiresAt: null, refused: null };
    const all = [...statements.slice(0, -1), CUSTOM_PLAN, statements.at(-1)!];
    return (await this.#run(caller, all, inquiry, true)).at(-1)!;
  }

  /** Runs a statement for callers of the same role. Returns the rows or the error of each, in order. */
  async each(callers: readonly Caller[], statement: Statement, inquiry: Inquiry): Promise<Outcome[]> {
    const ask = async ([first, ...others]: readonly Caller[]) => {
      const statements = [statement, ...others.flatMap((caller) => [claimsOf(caller), statement])];
      return (await this.#run(first!, statements, inquiry)).filter((_, i) => i % 2 === 0);
    };
    const outcomes: Outcome[] = [];
    const chunk = this.decidesAlone ? 1 : CHUNK;
    for (let from = 0; from < callers.length; from += chunk)
      outcomes.push(...(await inquiry.each(callers.slice(from, from + chunk), ask)));
    return outcomes;
  }

  close(): void {
    this.#closed.abort(new Error("the service is stopping"));
  }

  #run(
    caller: Caller,
    statements: readonly Statement[],
    inquiry: Inquiry | null,
    isOfRole = false,
  ): Promise<RawRow[][]> {
    const run = (slot: Manner | "slow", time: "brief" | "long") =>
      this.#inSlot(slot, inquiry, () => this.#retrying(caller, statements, inquiry, { time, isOfRole }));
    if (inquiry === null) return run("together", "long");
    if (inquiry.isShared) return inquiry.wait(run("together", "brief"));
    return run("alone", "brief").catch((error) => {
      if (error instanceof CheckError && error.isTimeout) return run("slow", "long");
      throw error;
    });
  }

  async #inSlot<Result>(slot: Manner | "slow", inquiry: Inquiry | null, work: () => Promise<Result>): Promise<Result> {
    const slots = this.#slots[slot];
    await slots.enter();
    const start = performance.now();
    let isError = true;
    try {
      const results = await work();
      isError = false;
      return results;
    } finally {
      slots.leave();
      inquiry?.note(performance.now() - start, isError);
    }
  }

  async #retrying(
    caller: Caller,
    statements: readonly Statement[],
    inquiry: Inquiry | null,
    { time, isOfRole }: { readonly time: "brief" | "long"; readonly isOfRole: boolean },
  ): Promise<RawRow[][]> {
    const deadline = inquiry?.deadline ?? null;
    const { database } = this.#options;
    const closed = this.#closed.signal;
    const signal = deadline === null ? closed : AbortSignal.any([closed, deadline]);
    const identity: Identity = { caller, request: NO_REQUEST, settings: { fixed: this.#settings[time], given: [] } };
    return retry(
      async () => {
        deadline?.throwIfAborted();
        const results = await database.forRole(caller.role).run(identity, statements, { signal, isOfRole });
        return results.map(({ rows }) => rows);
      },
      {
        ...{ first: RETRY_MILLISECONDS, max: MAX_RETRY_MILLISECONDS, signal: closed },
        onError(error) {
          if (deadline?.aborted) throw tooLate();
          if (!isTransient(error)) throw checkErrorOf(error as DatabaseError | Problem);
        },
      },
    );
  }
}

/** Without a timeout, that of the role applies. */
const settingsOf = (timeout: number | null): readonly Setting[] => [
  ["transaction_read_only", "on"],
  ["jit", "off"],
  ...(timeout === null ? [] : [["statement_timeout", String(timeout)] as const]),
];

const NOTHING: Statement = { text: "select", values: [] };

const tooLate = () => new CheckError("the answer took too long", true);

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

function checkErrorOf(error: DatabaseError | Problem): Error {
  if (error instanceof Problem) return new CheckError(error.message, false);
  // Without a SQLSTATE, the error is a bug of this service, or the service is stopping.
  if (typeof error.code !== "string" || error.severity === undefined) return error;
  // The policy is valid for the table: its row images have no system columns. Their names and the text of the policy are not for clients.
  if (error.code === UNDEFINED_COLUMN) return new CheckError(NOT_DECIDED, false, error);
  const masked = clientMessage(error) === null ? error : undefined;
  return new CheckError(messageForSubscriber(error), isTimeout(error), masked);
}

/** A limit on what runs at the same time. The others wait in order. */
class Semaphore {
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
