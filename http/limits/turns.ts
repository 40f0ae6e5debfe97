import { FairQueue, QueueLimit } from "../../db/admission/fair-queue.ts";
import { Bulk } from "./bulk.ts";
import type { Patience } from "./patience.ts";

export type TurnsOptions = {
  /** Milliseconds that requests may wait; 0 for no limit. */
  readonly time: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  readonly patience: Patience;
  /** Called at the end of a turn, and before a message for which requests would wait: what they send together is sent then. */
  onPause?(): void;
};

/** What a client makes the process do: a request, the body of one, or a message on a socket. */
export type Work = {
  /** The name of the client: a known caller, or else a network. */
  client(): string;
  /** A message may return a promise that resolves when it has been handled. */
  run(): unknown;
  /** Called instead of `run` if too much waits. Absent for work that is never refused. */
  refuse?(): void;
  /** Bytes of a message. It can wait for requests: no more is read from its socket meanwhile. */
  readonly message?: number;
};

/** Milliseconds of a turn. After it, the event loop does other work, such as reading the responses of the database. */
const TURN = 2;

/** That of messages while requests come: requests wait for them in each step, from the first byte to the response. */
const TURN_OF_MESSAGES = 0.5;

/** Milliseconds. Work that was done at once is counted if it took longer: then something else may have waited for it. */
const COUNTED = 1;

/** Milliseconds after which it is found out again whether messages may have their turn. */
const PAUSE = 10;

/** This many requests may always wait, even if each takes long. */
const LEAST = 200;

/**
 * Shares the time of the process among the clients. Work is done immediately while there is time. What cannot be done in one turn
 * waits for the next, and the client that has used the least time comes first: so one that sends little never waits for those that
 * send much, but for one piece of their work at most. If more requests arrive than the process can handle, those beyond the limit
 * are refused before any other work is done for them. Without turns, connections to the database would be idle for most of a burst,
 * because each is read only once per turn.
 */
export class Turns {
  /** What clients send in bulk is read in turns too. */
  readonly bulk = new Bulk();
  readonly #queue = new FairQueue<Work>({ isCounted: (_client, { refuse }) => refuse !== undefined });
  readonly #limit: QueueLimit;
  readonly #now: () => number;
  readonly #patience: Patience;
  readonly #onPause: () => void;
  /** Requests that have been started. */
  #handled = 0;
  /** Set while only messages are left that must wait. */
  #sleep: NodeJS.Timeout | null = null;
  #isScheduled = false;
  /** When the present turn is over; null before its first work. */
  #end: number | null = null;
  /** The work of the present moment. `client` is null if it has not waited. */
  #running: { readonly work: Work; readonly client: string | null; readonly start: number } | null = null;

  constructor({ time, patience, now = () => performance.now(), onPause = () => {} }: TurnsOptions) {
    this.#now = now;
    this.#patience = patience;
    this.#onPause = onPause;
    this.#limit = new QueueLimit({ least: time && LEAST, time, now });
  }

  /** Requests that wait for their turn. */
  get waiting(): number {
    return this.#queue.counted;
  }

  /** Does the work now, or when it is the turn of its client. Returns whether it has been started. */
  add(work: Work): boolean {
    const now = this.#now();
    if (this.#end === null) {
      this.#end = now + TURN;
      this.#schedule();
    }
    const isNext = this.#running === null && (this.#queue.size === 0 || this.#sleep !== null) && now < this.#end;
    const isFree = isNext && (work.message === undefined || !this.#patience.isNeeded(now));
    if (isFree) this.#run(work, null, now);
    else this.#wait(work);
    return isFree;
  }

  #wait(work: Work): void {
    this.#queue.add(work.client(), work);
    if (work.refuse)
      while (this.#limit.isExceeded(this.#queue.counted, this.#handled)) this.#queue.takeExcess()!.refuse!();
  }

  #run(work: Work, client: string | null, start: number): void {
    if (work.refuse) {
      this.#handled++;
      this.#patience.noteRequest(start);
    }
    this.#running = { work, client, start };
    // Continues after the promises of this work that are already settled: their callbacks are part of it.
    queueMicrotask(() => process.nextTick(this.#continueTurn));
    const done = work.run();
    if (work.message !== undefined) this.#patience.noteMessage(start, done, this.#wake);
  }

  readonly #wake = (): void => {
    if (this.#sleep === null) return;
    clearTimeout(this.#sleep);
    this.#sleep = null;
    this.#schedule();
  };

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#nextTurn);
  }

  readonly #nextTurn = (): void => {
    this.#isScheduled = false;
    this.#end = null;
    if (this.#sleep !== null) clearTimeout(this.#sleep);
    this.#sleep = null;
    if (this.#queue.size === 0) return;
    const now = this.#now();
    this.#end = now + TURN;
    if (this.#running !== null || this.#runNext(now)) this.#schedule();
    else this.#rest();
  };

  /** Only messages are left: the process must be idle to find out that it is not busy. */
  #rest(): void {
    this.#end = null;
    this.#sleep = setTimeout(this.#nextTurn, PAUSE);
  }

  readonly #continueTurn = (): void => {
    const now = this.#now();
    const { work, client, start } = this.#running!;
    this.#running = null;
    const used = now - start;
    if (work.message !== undefined) this.#patience.use(now, used);
    if (client !== null || used >= COUNTED) this.#queue.use(client ?? work.client(), used);
    // Done at once: other work of this turn may follow.
    if (client === null && (this.#queue.size === 0 || this.#sleep !== null)) return;
    if (this.#end === null || now >= this.#end || !this.#runNext(now)) this.#onPause();
  };

  /** Returns whether there was work. */
  #runNext(now: number): boolean {
    const limit = this.#patience.limit(now);
    const next = this.#queue.take(({ message }) => message === undefined || message < limit, true);
    if (next === null) return false;
    if (next.item.refuse) this.#limit.decreased(this.#queue.counted);
    if (next.item.message !== undefined && this.#patience.isNeeded(now)) {
      this.#onPause();
      this.#end = Math.min(this.#end!, now + TURN_OF_MESSAGES);
    }
    this.#run(next.item, next.client, now);
    return true;
  }
}
