import { FairQueue, QueueLimit } from "../../db/admission/fair-queue.ts";

export type TurnsOptions = {
  /** Milliseconds that requests may wait; 0 for no limit. */
  readonly time: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  /** The part of the time since the last call in which the process was busy. */
  readonly utilization?: () => number;
};

/** What a client makes the process do: a request, the body of one, or a message on a socket. */
export type Work = {
  /** The name of the client: a known caller, or else a network. */
  client(): string;
  /** Patient work may return a promise that resolves when it is done. */
  run(hasWaited: boolean): unknown;
  /** Called instead of `run` if too much waits. Absent for work that is never refused. */
  refuse?(): void;
  /** Whether it can wait while the process is busy: the messages of a socket, from which no more is read meanwhile. */
  readonly isPatient?: boolean;
};

/** Milliseconds of a turn. After it, the event loop does other work, such as reading the responses of the database. */
const TURN = 2;

/** Milliseconds. Work that was done at once is counted if it took longer: then something else may have waited for it. */
const COUNTED = 1;

/** If requests came within so many milliseconds, patient work waits for them. */
const RECENT = 1000;

/** It waits if the process was busy for more than this part of the last milliseconds. */
const BUSY = 0.6;
const MEASURED = 10;

/** It also waits while so much of it is being done. What takes longer than these milliseconds no longer counts. */
const MAX_RUNNING = 2;
const SHORT = 50;

/** Milliseconds after which a piece of it is done nevertheless. */
const PATIENCE = 20;

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
  readonly #queue = new FairQueue<Work>({ isCounted: (_client, { refuse }) => refuse !== undefined });
  readonly #limit: QueueLimit;
  readonly #now: () => number;
  readonly #utilization: () => number;
  /** Requests that have been started. */
  #handled = 0;
  #requestAt = Number.NEGATIVE_INFINITY;
  #patientAt = Number.NEGATIVE_INFINITY;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #isBusy = false;
  /** When each piece of patient work that is being done was started, oldest first. */
  readonly #patient = new Set<{ readonly start: number }>();
  /** Set while only patient work is left that must wait. */
  #sleep: NodeJS.Timeout | null = null;
  /** When the present turn is over; null before its first work. */
  #end: number | null = null;
  /** The work of the present moment. `client` is null if it has not waited. */
  #running: { readonly work: Work; readonly client: string | null; readonly start: number } | null = null;

  constructor({ time, now = () => performance.now(), utilization = utilizationOfLoop() }: TurnsOptions) {
    this.#now = now;
    this.#utilization = utilization;
    this.#limit = new QueueLimit({ least: time && LEAST, time, now });
  }

  /** Does the work now, or when it is the turn of its client. Returns whether it has been started. */
  add(work: Work): boolean {
    const now = this.#now();
    if (this.#end === null) {
      this.#end = now + TURN;
      setImmediate(this.#nextTurn);
    }
    const isFree = this.#running === null && this.#queue.size === 0 && now < this.#end;
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
      this.#requestAt = start;
    }
    this.#running = { work, client, start };
    // Continues after the promises of this work that are already settled: their callbacks are part of it.
    queueMicrotask(() => process.nextTick(this.#continueTurn));
    const done = work.run(client !== null);
    if (work.isPatient) this.#follow(start, done);
  }

  #follow(start: number, done: unknown): void {
    this.#patientAt = start;
    if (!(done instanceof Promise)) return;
    const patient = { start };
    this.#patient.add(patient);
    const end = () => {
      this.#patient.delete(patient);
      if (this.#sleep === null) return;
      clearTimeout(this.#sleep);
      this.#sleep = null;
      setImmediate(this.#nextTurn);
    };
    done.then(end, end);
  }

  readonly #nextTurn = (): void => {
    this.#end = null;
    this.#sleep = null;
    if (this.#queue.size === 0) return;
    const now = this.#now();
    this.#end = now + TURN;
    if (this.#running !== null || this.#runNext(now)) setImmediate(this.#nextTurn);
    // Only patient work is left: the process must be idle to find out that it is not busy.
    else this.#sleep = setTimeout(this.#nextTurn, MEASURED);
  };

  readonly #continueTurn = (): void => {
    const now = this.#now();
    const { work, client, start } = this.#running!;
    this.#running = null;
    const used = now - start;
    if (client !== null || used >= COUNTED) this.#queue.use(client ?? work.client(), used);
    if (this.#end !== null && now < this.#end) this.#runNext(now);
  };

  /** Returns whether there was work. */
  #runNext(now: number): boolean {
    const next = this.#mayRunPatient(now) ? this.#queue.take() : this.#queue.take(({ isPatient }) => !isPatient);
    if (next === null) return false;
    if (next.item.refuse) this.#limit.decreased(this.#queue.counted);
    this.#run(next.item, next.client, now);
    return true;
  }

  #mayRunPatient(now: number): boolean {
    if (now - this.#measuredAt >= MEASURED) {
      this.#isBusy = this.#utilization() > BUSY;
      this.#measuredAt = now;
    }
    if (now - this.#requestAt > RECENT || now - this.#patientAt >= PATIENCE) return true;
    for (const patient of this.#patient) if (now - patient.start >= SHORT) this.#patient.delete(patient);
    return !this.#isBusy && this.#patient.size < MAX_RUNNING;
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
