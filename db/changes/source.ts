import type { Change } from "./change.ts";
import type { Ancestors, Position, RestingMark, Start } from "./position.ts";

/** Where a source begins to send changes. */
export type Beginning = {
  /** Every change after this position will be sent, and possibly earlier ones again. */
  readonly start: Position;
  /** The end of the log at this moment: readers that name no position start here. */
  readonly live: Start;
  /** Names the order of the positions. Positions of different streams cannot be compared. */
  readonly stream: string;
  readonly ancestors?: Ancestors;
  /** Earlier changes follow, and then another beginning: what is missing between them does not come. */
  readonly isReplay?: boolean;
};

/** Receives what a source reads. */
export type ChangeSink = {
  /** Called after each connection. */
  begin(beginning: Beginning): void;
  /** `bytes` is the approximate size of the change. */
  receive(change: Change, bytes: number): void;
  /** There is no further change up to this position. */
  reach(position: Position): void;
  /** Resolves when the sink can receive more; null if it can. */
  waitForCapacity(): Promise<void> | null;
  /** DDL was committed between the changes. Resolves when the next change can be received. */
  changeSchema(): Promise<void>;
  /** No change is received until the next beginning. */
  lose(): void;
};

/** The state of a source for `/health`. */
export type SourceHealth = {
  /** "resting": ready, but not reading, because there are no readers. */
  readonly state: "disconnected" | "resting" | "streaming";
  /** Why it is disconnected. */
  readonly reason?: string;
  readonly slot?: { readonly name: string; readonly temporary: boolean; readonly wal?: string };
  /** How far the source is behind the database. */
  readonly lag: { readonly bytes: number; readonly seconds: number };
  /** With REDIS_URL: the process that reads the write-ahead log for all, and the bytes of it that this one has not received yet. */
  readonly shared?: { readonly reader: string | null; readonly isReader: boolean; readonly behind: number };
};

/** Where committed changes are read. */
export interface ChangeSource {
  readonly health: SourceHealth;
  /** Its mark is in the stream that begins with the next `open`. */
  readonly resting: Pick<RestingMark, "mark">;
  /** Prepares in the background. */
  start(): void;
  /** Sends changes to the sink, and restores lost connections. */
  open(sink: ChangeSink): void;
  /** Stops sending changes, until the next `open`. */
  rest(): void;
  close(): Promise<void>;
}
