import { Problem, problem } from "../../problems/problem.ts";
import type { TableName } from "../catalog/catalog.ts";
import type { Change } from "./change.ts";
import { comparePositions, follows, isCommittedAfter, laterOf, type Position, type Start } from "./position.ts";
import type { Ring } from "./ring.ts";

/** Changes have been missed, or the feed does not keep them any longer. */
export const feedGap = () => problem("changes missed");
export const isFeedGap = (error: unknown): error is Problem =>
  error instanceof Problem && error.reason === "changes missed";

/** Maximum number of changes that `take` returns by default. */
const BATCH = 256;

export type ReadOptions = {
  /** By default, the changes that are committed from now on are read. */
  readonly since?: Start | undefined;
  /** The tables whose changes are wanted. */
  readonly tables?: readonly TableName[];
  /** For the reader of one client: instead of holding back the stream when it reads slowly, it gets a `feedGap`. */
  readonly mayFallBehind?: boolean;
};

export type ReaderOptions = {
  readonly since: Start;
  /** Whether changes may be dropped before it has taken them: then it gets a `feedGap`. Otherwise it holds back the stream. */
  readonly mayFallBehind: boolean;
  /** Called after each `take`, and at the end. */
  onTaken(reader: ChangeReader): void;
};

/** Reads the changes of a feed from a position on, at its own pace. */
export class ChangeReader {
  readonly mayFallBehind: boolean;
  isClosed = false;
  readonly #ring: Ring;
  readonly #onTaken: ReaderOptions["onTaken"];
  /** Null when every change from `#next` on follows it. */
  #since: Start | null;
  #next: number;
  #position: Position;
  #waiting: PromiseWithResolvers<void> | null = null;

  /** Throws `feedGap` if the ring has dropped changes after `since`. */
  constructor(ring: Ring, { since, mayFallBehind, onTaken }: ReaderOptions) {
    if (comparePositions(since, ring.start) < 0) throw feedGap();
    this.mayFallBehind = mayFallBehind;
    this.#ring = ring;
    this.#onTaken = onTaken;
    this.#since = since;
    this.#position = since;
    this.#next = ring.numberAfter(since);
  }

  /** Everything up to here has been taken: a reader that starts here gets the next changes. */
  get position(): Start {
    const position = this.#next === this.#ring.next ? laterOf(this.#position, this.#ring.end) : this.#position;
    const { lsn, index } = position;
    return this.#since?.snapshot ? { lsn, index, snapshot: this.#since.snapshot } : { lsn, index };
  }

  /** The number of the change that is taken next. */
  get next(): number {
    return this.#next;
  }

  /** The approximate size of the changes that have not been taken, in bytes. */
  get unread(): number {
    return this.#ring.bytesFrom(this.#next);
  }

  /** The next changes, in order; none if there are no more at the moment. Throws `feedGap`. */
  take(max = BATCH): Change[] {
    const taken: Change[] = [];
    if (this.isClosed) return taken;
    this.#refuseGap();
    while (taken.length < max && this.#next < this.#ring.next) {
      const change = this.#ring.at(this.#next++);
      // It never precedes the start, although a restarted feed reads earlier changes again.
      this.#position = laterOf(this.#position, change.position);
      if (this.#since && isCommittedAfter(change, this.#since)) this.#since = null;
      if (!this.#since || follows(change, this.#since)) taken.push(change);
    }
    this.#onTaken(this);
    return taken;
  }

  /** Resolves when there are changes, or when the reader is closed. Rejects with `feedGap`. */
  async wait(): Promise<void> {
    this.#refuseGap();
    if (this.isClosed || this.#next < this.#ring.next) return;
    this.#waiting ??= Promise.withResolvers();
    await this.#waiting.promise;
    this.#refuseGap();
  }

  /** Called after changes have been added or dropped. */
  wake(): void {
    if (!this.isClosed && this.#next === this.#ring.next) return;
    this.#waiting?.resolve();
    this.#waiting = null;
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.wake();
    this.#onTaken(this);
  }

  #refuseGap(): void {
    if (!this.isClosed && this.#next < this.#ring.oldest) throw feedGap();
  }
}
