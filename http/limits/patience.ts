import { SHORT_RUN } from "../../db/admission/admission.ts";

export type PatienceOptions = {
  /** Maximum messages that may be handled at the same time, of those that were started less than SHORT_RUN ago. */
  readonly running: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  /** The part of the time since the last call in which the process was busy. */
  readonly utilization?: () => number;
};

/** If a request came within so many milliseconds, messages may have to wait. */
const RECENT = 1000;

/** The process is busy if it was for more than this part of the last milliseconds. */
const BUSY = 0.6;
const MEASURED = 10;

/**
 * The part of the time that messages have even if the process is busy, and the milliseconds that they may save. They have the same part
 * of the time of the database, at all places that they may use at the same time.
 */
const SHARE = 0.25;
const MAX_SAVED = 20;

/** Milliseconds. A message that is handled longer counts as this: it may wait for something else. */
const MAX_HANDLED = 100;

/** Messages with fewer bytes are short. A document or filter of 1,000 fields or values takes several milliseconds at once. */
const SHORT_MESSAGE = 4096;

/** Milliseconds that a message may take. Beyond that, requests wait for it. */
const SHORT_TIME = 2;

/** The part of the time that messages may take beyond SHORT_TIME while requests come: so one request in a hundred waits for them. */
const SHARE_OF_LONG = 0.01;

/**
 * Decides when the messages of sockets wait for requests: while the process is busy and they have used their share of its time, while
 * as many as may use the database at the same time are being handled, or have been for longer than their share, and long ones after
 * messages that took long. Without requests they never wait. All times are milliseconds of a monotonic clock.
 */
export class Patience {
  readonly #running: number;
  readonly #utilization: () => number;
  readonly #now: () => number;
  /** When each message that is being handled was started, oldest first. */
  readonly #started = new Set<{ readonly at: number }>();
  #requestAt = Number.NEGATIVE_INFINITY;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #isBusy = false;
  /** What messages may use while the process is busy. */
  #saved = MAX_SAVED;
  /** How long they may be handled, which is mostly by the database. */
  #savedHandling = 0;
  /** That of the time beyond SHORT_TIME. Long messages wait while it is negative. */
  #savedLong = 0;

  constructor({ running, utilization = utilizationOfLoop(), now = () => performance.now() }: PatienceOptions) {
    this.#running = running;
    this.#now = now;
    this.#utilization = utilization;
  }

  noteRequest(now: number): void {
    this.#requestAt = now;
  }

  /** Whether requests come. */
  isNeeded(now: number): boolean {
    return now - this.#requestAt <= RECENT;
  }

  /** Follows a message that was started. `handled` may be a promise. Calls back when a message that waits may have its turn. */
  noteMessage(now: number, handled: unknown, onHandled: () => void): void {
    if (!(handled instanceof Promise)) return;
    const message = { at: now };
    this.#started.add(message);
    const end = () => {
      this.#started.delete(message);
      const ended = this.#now();
      if (this.isNeeded(ended)) this.#savedHandling -= Math.min(MAX_HANDLED, ended - now);
      onHandled();
    };
    handled.then(end, end);
  }

  /** Counts the time that a message has used. */
  use(now: number, milliseconds: number): void {
    this.#saved -= milliseconds;
    if (this.isNeeded(now)) this.#savedLong -= Math.max(0, milliseconds - SHORT_TIME);
  }

  /** Whether the process was busy in the last milliseconds. */
  isBusy(now = this.#now()): boolean {
    this.#measure(now);
    return this.#isBusy;
  }

  /** Messages with fewer bytes may have their turn. */
  limit(now: number): number {
    if (!this.isNeeded(now)) return Number.POSITIVE_INFINITY;
    for (const message of this.#started) {
      if (now - message.at < SHORT_RUN) break;
      this.#started.delete(message);
    }
    if ((this.isBusy(now) && this.#saved <= 0) || this.#savedHandling < 0 || this.#started.size >= this.#running)
      return 0;
    return this.#savedLong < 0 ? SHORT_MESSAGE : Number.POSITIVE_INFINITY;
  }

  #measure(now: number): void {
    const elapsed = now - this.#measuredAt;
    if (elapsed < MEASURED) return;
    this.#isBusy = this.#utilization() > BUSY;
    this.#saved = Math.min(MAX_SAVED, this.#saved + elapsed * SHARE);
    this.#savedHandling = Math.min(MAX_SAVED, this.#savedHandling + elapsed * SHARE * this.#running);
    this.#savedLong = Math.min(0, this.#savedLong + elapsed * SHARE_OF_LONG);
    this.#measuredAt = now;
  }
}

function utilizationOfLoop(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const before = last;
    last = performance.eventLoopUtilization();
    return performance.eventLoopUtilization(last, before).utilization;
  };
}
