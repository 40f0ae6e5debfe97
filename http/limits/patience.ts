import { SHORT_RUN } from "../../db/admission/admission.ts";

export type PatienceOptions = {
  /** Maximum messages that may be handled at the same time, of those that were started less than SHORT_RUN ago. */
  readonly running: number;
  /** The part of the time since the last call in which the process was busy. */
  readonly utilization?: () => number;
};

/** If a request came within so many milliseconds, messages may have to wait. */
const RECENT = 1000;

/** The process is busy if it was for more than this part of the last milliseconds. */
const BUSY = 0.6;
const MEASURED = 10;

/** The part of the time that messages have even if the process is busy, and the milliseconds that they may save. */
const SHARE = 0.25;
const MAX_SAVED = 20;

/**
 * Decides when the messages of sockets wait for requests: while the process is busy and they have used their share of its time, and
 * while as many as may use the database at the same time are being handled. Without requests they never wait. All times are
 * milliseconds of a monotonic clock.
 */
export class Patience {
  readonly #running: number;
  readonly #utilization: () => number;
  /** When each message that is being handled was started, oldest first. */
  readonly #started = new Set<{ readonly at: number }>();
  #requestAt = Number.NEGATIVE_INFINITY;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #isBusy = false;
  /** What messages may use while the process is busy. */
  #saved = MAX_SAVED;

  constructor({ running, utilization = utilizationOfLoop() }: PatienceOptions) {
    this.#running = running;
    this.#utilization = utilization;
  }

  noteRequest(now: number): void {
    this.#requestAt = now;
  }

  /** Follows a message that was started. `handled` may be a promise. Calls back when a message that waits may have its turn. */
  noteMessage(now: number, handled: unknown, onHandled: () => void): void {
    if (!(handled instanceof Promise)) return;
    const message = { at: now };
    this.#started.add(message);
    const end = () => {
      this.#started.delete(message);
      onHandled();
    };
    handled.then(end, end);
  }

  /** Counts the time that messages have used. */
  use(milliseconds: number): void {
    this.#saved -= milliseconds;
  }

  /** Whether the process was busy in the last milliseconds. */
  isBusy(now = performance.now()): boolean {
    this.#measure(now);
    return this.#isBusy;
  }

  mayRun(now: number): boolean {
    if (now - this.#requestAt > RECENT) return true;
    if (this.isBusy(now) && this.#saved <= 0) return false;
    for (const message of this.#started) {
      if (now - message.at < SHORT_RUN) break;
      this.#started.delete(message);
    }
    return this.#started.size < this.#running;
  }

  #measure(now: number): void {
    const elapsed = now - this.#measuredAt;
    if (elapsed < MEASURED) return;
    this.#isBusy = this.#utilization() > BUSY;
    this.#saved = Math.min(MAX_SAVED, this.#saved + elapsed * SHARE);
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
