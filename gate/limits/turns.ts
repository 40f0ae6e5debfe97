import type { Socket } from "node:net";
import { SHORT_RUN } from "../../db/admission/admission.ts";
import { FairQueue, QueueLimit } from "../../db/admission/fair-queue.ts";
import { responseOn } from "../pipeline/response.ts";
import { Bulk } from "./bulk.ts";

export type TurnsOptions = {
  /** Milliseconds that requests may wait; 0 for no limit. */
  readonly time: number;
  /** Maximum messages that may be handled at the same time, of those that were started less than SHORT_RUN ago. */
  readonly running: number;
  /** Milliseconds of a monotonic clock. */
  readonly now?: () => number;
  /** The part of the time since the last call in which the process was busy. */
  readonly utilization?: () => number;
};

/** What the process waits for most. `sendReads` sends what requests send together. */
type Served = { readonly waiting: number; sendReads(): void };

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

/** Milliseconds after which it is found out again whether messages may have their turn, and connections be read. */
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
  readonly intake: Intake;
  /** Null until the service is ready. Reads are sent at the end of a turn, and before a message for which requests would wait. */
  database: Served | null = null;
  readonly #queue = new FairQueue<Work>({ isCounted: (_client, { refuse }) => refuse !== undefined });
  readonly #limit: QueueLimit;
  readonly #now: () => number;
  readonly #patience: Patience;
  /** Requests that have been started. */
  #handled = 0;
  /** Set while only messages are left that must wait. */
  #sleep: NodeJS.Timeout | null = null;
  #isScheduled = false;
  /** When the present turn is over; null before its first work. */
  #end: number | null = null;
  /** The work of the present moment. `client` is null if it has not waited. */
  #running: { readonly work: Work; readonly client: string | null; readonly start: number } | null = null;

  constructor({ time, running, now = () => performance.now(), utilization = utilizationOfLoop() }: TurnsOptions) {
    this.#now = now;
    this.#patience = new Patience(running, utilization);
    this.intake = new Intake(() => {
      const room = FULL - this.waiting - (this.database?.waiting ?? 0);
      return room > 0 || this.#patience.isBusy(this.#now()) ? room : FULL;
    });
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
    if (work.message !== undefined) this.#patience.noteMessage(start, done, this.#now, this.#wake);
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
    if (this.#end === null || now >= this.#end || !this.#runNext(now)) this.database?.sendReads();
  };

  /** Returns whether there was work. */
  #runNext(now: number): boolean {
    const limit = this.#patience.limit(now);
    const next = this.#queue.take(({ message }) => message === undefined || message < limit, true);
    if (next === null) return false;
    if (next.item.refuse) this.#limit.decreased(this.#queue.counted);
    if (next.item.message !== undefined && this.#patience.isNeeded(now)) {
      this.database?.sendReads();
      this.#end = Math.min(this.#end!, now + TURN_OF_MESSAGES);
    }
    this.#run(next.item, next.client, now);
    return true;
  }
}

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
class Patience {
  readonly #running: number;
  readonly #utilization: () => number;
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

  constructor(running: number, utilization: () => number) {
    this.#running = running;
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
  noteMessage(now: number, handled: unknown, clock: () => number, onHandled: () => void): void {
    if (!(handled instanceof Promise)) return;
    const message = { at: now };
    this.#started.add(message);
    const end = () => {
      this.#started.delete(message);
      const ended = clock();
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
  isBusy(now: number): boolean {
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

/** While so many requests wait, no further ones are read. */
const FULL = 100;

/**
 * Reads no more requests than a busy process can handle: while many wait, a connection is not read after its response, and TCP lets its
 * client wait. To read a request only to refuse it would take half the time of a simple read. Of the clients that wait, the one comes
 * first whose connections were read least often.
 */
class Intake {
  /** How many connections may be read. Requests that wait for a slow database do not keep the process from refusing others. */
  readonly #room: () => number;
  readonly #held = new FairQueue<Socket>();
  /** Set while connections are held. */
  #timer: NodeJS.Timeout | null = null;
  #isPlanned = false;

  constructor(room: () => number) {
    this.#room = room;
  }

  /** To be called after each response. */
  answered(client: () => string, socket: Socket): void {
    if (this.#timer === null) {
      if (this.#room() > 0) return;
      this.#timer = setInterval(this.#readNext, PAUSE);
    }
    if (!this.#isPlanned) setImmediate(this.#readNext);
    this.#isPlanned = true;
    // Node itself pauses a connection whose client does not read the responses of its pipelined requests.
    if (responseOn(socket) !== null || socket.writableNeedDrain || socket.destroyed || socket.isPaused()) return;
    socket.pause();
    this.#held.add(client(), socket);
  }

  /** After a response, and in intervals: the process must be idle to find out that it is not busy. */
  readonly #readNext = (): void => {
    this.#isPlanned = false;
    for (let room = this.#room(); room > 0 && this.#held.size > 0; room--) {
      const { client, item } = this.#held.take()!;
      this.#held.use(client, 1);
      item.resume();
    }
    if (this.#held.size > 0) return;
    clearInterval(this.#timer!);
    this.#timer = null;
  };
}
