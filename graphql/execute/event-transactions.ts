import { setTimeout as sleep } from "node:timers/promises";
import { isTransient } from "../../db/errors.ts";
import { claimsText, type Identity, NO_REQUEST } from "../../db/transaction/identity.ts";
import type { Result, RunOptions, Statement, Transactions } from "../../db/transaction/transaction.ts";

type Waiting = {
  readonly identity: Identity;
  readonly statements: readonly Statement[];
  readonly options: RunOptions;
  resolve(results: Result[]): void;
  reject(error: unknown): void;
};

/** Subscribers whose rows are read in one transaction. */
const MAX_SUBSCRIBERS = 100;
const RETRY_MILLISECONDS = 100;
const MAX_RETRY_MILLISECONDS = 5000;

/**
 * Reads the rows of events for many subscribers of one role in one round trip. Each gets its rows with its own claims; those with
 * equal claims and queries share a result. If a query fails, each subscriber is served alone, so that the others get theirs. While
 * the database is not available, they wait: a subscriber that got an error instead would miss the event.
 */
export class EventTransactions implements Pick<Transactions, "run"> {
  readonly #transactions: Pick<Transactions, "run">;
  #waiting: Waiting[] = [];

  constructor(transactions: Pick<Transactions, "run">) {
    this.#transactions = transactions;
  }

  run(identity: Identity, statements: readonly Statement[], options: RunOptions = {}): Promise<Result[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ identity, statements, options, resolve, reject });
      // All subscribers that receive an event add their statements in this turn of the event loop.
      if (this.#waiting.length === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    const waiting = this.#waiting.filter(isWanted);
    this.#waiting = [];
    const groups = [...Map.groupBy(waiting, keyOf).values()];
    for (let from = 0; from < groups.length; from += MAX_SUBSCRIBERS)
      void this.#runTogether(groups.slice(from, from + MAX_SUBSCRIBERS));
  }

  /** The members of a group have the same statements and share their results. `pause` is in milliseconds. */
  async #runTogether(groups: readonly (readonly Waiting[])[], pause = RETRY_MILLISECONDS): Promise<void> {
    const firsts = groups.map(([first]) => first!);
    const [{ identity, options }] = firsts as [Waiting];
    const statements = firsts.flatMap((each, i) => [...(i === 0 ? [] : [becoming(each)]), ...each.statements]);
    try {
      const common = { ...options, signal: firsts.length === 1 ? options.signal : undefined };
      const results = await this.#transactions.run(withoutRecipient(identity), statements, common);
      let at = 0;
      for (const [i, group] of groups.entries()) {
        if (i > 0) at++;
        const own = results.slice(at, at + group[0]!.statements.length);
        at += own.length;
        for (const { resolve } of group) resolve(own);
      }
    } catch (error) {
      if (isTransient(error as Error)) {
        await sleep(pause, null, { ref: false });
        const wanted = groups.map((group) => group.filter(isWanted)).filter(({ length }) => length > 0);
        if (wanted.length > 0) void this.#runTogether(wanted, Math.min(2 * pause, MAX_RETRY_MILLISECONDS));
      } else if (groups.length === 1) for (const { reject } of groups[0]!) reject(error);
      else for (const group of groups) void this.#runTogether([group]);
    }
  }
}

/** Rejects if the subscription has ended. */
function isWanted({ options: { signal }, reject }: Waiting): boolean {
  if (signal?.aborted) reject(signal.reason);
  return !signal?.aborted;
}

/** Equal if the statements have the same results. */
const keyOf = ({ identity, statements }: Waiting): string =>
  JSON.stringify([...settingsOf(identity), ...statements.flatMap(({ text, values }) => [text, values])]);

const NAMES = ["request.jwt.claims", "request.method", "request.path", "request.headers", "request.cookies"] as const;

function settingsOf({ caller, request }: Identity): string[] {
  const { method, path, headers, cookies } = request ?? NO_REQUEST;
  return [claimsText(caller), method, path, headers, cookies];
}

/** Sets the claims and the request of another subscriber of the same role, for the statements that follow. */
const becoming = ({ identity }: Waiting): Statement => ({
  text: `select ${NAMES.map((name, i) => `pg_catalog.set_config('${name}', $${i + 1}, true)`).join(", ")}`,
  values: settingsOf(identity),
});

const withoutRecipient = (identity: Identity): Identity => ({
  ...identity,
  request: { ...identity.request, recipient: undefined },
});
