import { setTimeout as sleep } from "node:timers/promises";
import { Recipient } from "../../db/admission/byte-budget.ts";
import { pieces } from "../../db/admission/pieces.ts";
import { isTransient } from "../../db/errors.ts";
import type { Checker } from "../../db/rights/checker.ts";
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
/** Milliseconds that subscribers wait for the queries of others. */
const PATIENCE = 250;
const RETRY_MILLISECONDS = 100;
const MAX_RETRY_MILLISECONDS = 5000;

/**
 * Reads the rows of events for many subscribers of one role in one round trip. Each gets its rows with its own claims; those with
 * equal claims and queries share a result. If a query fails or takes too long, each subscriber is served alone, so that the others get
 * theirs. Those that were slow are served alone from then on, until they are quick, and those that are new do not share a transaction
 * with others before they have been quick. While the database is not available, subscribers
 * wait: one that got an error instead would miss the event.
 */
export class EventTransactions implements Pick<Transactions, "run"> {
  readonly #transactions: Pick<Transactions, "run">;
  readonly #areAlone: boolean;
  #waiting: Waiting[] = [];
  /** Whether queries of a subscription were quick last time, by the text of the first. */
  readonly #wasQuick = new WeakMap<Identity, Map<string, boolean>>();

  /** `decidesAlone`: each subscriber is read for in a transaction of their own, because DB_PRE_REQUEST precedes it. */
  constructor(transactions: Pick<Transactions, "run">, { decidesAlone }: Pick<Checker, "decidesAlone">) {
    this.#transactions = transactions;
    this.#areAlone = decidesAlone;
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
    const groups = Map.groupBy(waiting, keyOf).values();
    const { slow = [], quick = [], fresh = [] } = Object.groupBy(groups, (group) => this.#speedOf(group));
    for (const group of slow) void this.#runAlone(group);
    for (const together of [quick, fresh])
      for (let from = 0; from < together.length; from += MAX_SUBSCRIBERS)
        void this.#runTogether(together.slice(from, from + MAX_SUBSCRIBERS));
  }

  #speedOf(group: readonly Waiting[]): "slow" | "quick" | "fresh" {
    if (this.#areAlone) return "slow";
    const known = group.map(({ identity, statements }) => this.#wasQuick.get(identity)?.get(statements[0]!.text));
    if (known.includes(false)) return "slow";
    return known.includes(true) ? "quick" : "fresh";
  }

  /** The members of a group have the same statements and share their results. `pause` is in milliseconds. */
  async #runTogether(groups: readonly Waiting[][], pause = RETRY_MILLISECONDS): Promise<void> {
    const firsts = groups.map(([first]) => first!);
    const [{ identity, options }] = firsts as [Waiting];
    const statements = firsts.flatMap((each, i) => [...(i === 0 ? [] : [becoming(each)]), ...each.statements]);
    const limit = new TimeLimit();
    try {
      const { signal, onConnected } = limit;
      const results = await this.#transactions.run(withRecipient(identity), statements, {
        ...options,
        ...{ signal, onConnected },
      });
      let at = 0;
      for (const [i, group] of groups.entries()) {
        if (i > 0) at++;
        const own = results.slice(at, at + group[0]!.statements.length);
        at += own.length;
        this.#note(group, true);
        for (const { resolve } of group) pieces.start(() => resolve(own));
      }
    } catch (error) {
      if (error !== TOO_SLOW && isTransient(error as Error)) {
        const wanted = await wantedAfter(pause, groups);
        if (wanted.length > 0) void this.#runTogether(wanted, longer(pause));
      } else for (const group of groups) void this.#runAlone(group);
    } finally {
      limit.end();
    }
  }

  /** Counts for the client of the first member, so that many slow subscriptions of one client do not delay those of others. */
  async #runAlone(group: readonly Waiting[], pause = RETRY_MILLISECONDS): Promise<void> {
    const [{ identity, statements, options }] = group as readonly [Waiting];
    const recipient = recipientLike(identity);
    let connectedAt = performance.now();
    const onConnected = () => {
      connectedAt = performance.now();
    };
    try {
      const own = await this.#transactions.run(withRecipient(identity, recipient), statements, {
        ...options,
        onConnected,
      });
      this.#note(group, performance.now() - connectedAt <= PATIENCE);
      for (const { resolve } of group) pieces.start(() => resolve(own));
    } catch (error) {
      if (isTransient(error as Error)) {
        const [wanted] = await wantedAfter(pause, [group]);
        if (wanted) void this.#runAlone(wanted, longer(pause));
        return;
      }
      this.#note(group, false);
      for (const { reject } of group) reject(error);
    } finally {
      recipient?.close();
    }
  }

  #note(group: readonly Waiting[], isQuick: boolean): void {
    for (const { identity, statements } of group) {
      const known = this.#wasQuick.get(identity) ?? new Map<string, boolean>();
      this.#wasQuick.set(identity, known.set(statements[0]!.text, isQuick));
    }
  }
}

/** The reason of a cancelled transaction. */
const TOO_SLOW = new Error("subscribers of other clients wait");

/** Cancels a transaction that takes too long, without the time in which it waits for a connection. */
class TimeLimit {
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly onConnected = (): void => {
    this.#timer ??= setTimeout(() => this.#controller.abort(TOO_SLOW), PATIENCE);
  };

  end(): void {
    clearTimeout(this.#timer);
  }
}

const longer = (pause: number) => Math.min(2 * pause, MAX_RETRY_MILLISECONDS);

/** The members of the groups whose subscriptions have not ended meanwhile. */
async function wantedAfter(pause: number, groups: readonly (readonly Waiting[])[]): Promise<Waiting[][]> {
  await sleep(pause, null, { ref: false });
  return groups.map((group) => group.filter(isWanted)).filter(({ length }) => length > 0);
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

/** The recipient of the start of a subscription is closed. */
const recipientLike = ({ request: { recipient } }: Identity): Recipient | undefined =>
  recipient && new Recipient(recipient.client, recipient.network);

const withRecipient = (identity: Identity, recipient?: Recipient): Identity => ({
  ...identity,
  request: { ...identity.request, recipient },
});
