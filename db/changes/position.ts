import { createHash } from "node:crypto";
import type pg from "pg";

/**
 * A place in the order of all changes: the position of the commit in the write-ahead log, and the index in its transaction,
 * from 1. Index 0 names no change: it follows everything that was committed before this position of the log.
 */
export type Position = { readonly lsn: bigint; readonly index: number };

/** Negative if `a` precedes `b`, 0 if they are equal. */
export const comparePositions = (a: Position, b: Position): number =>
  a.lsn < b.lsn ? -1 : a.lsn > b.lsn ? 1 : a.index - b.index;

export const laterOf = <P extends Position>(a: P, b: P): P => (comparePositions(a, b) < 0 ? b : a);

/** A position that later queries see: they see every change up to here. */
export type Mark = {
  readonly stream: string;
  readonly position: Position;
};

/**
 * The transactions that a query sees: of those below `end`, all but the `running` ones.
 * Source: PostgreSQL documentation, pg_snapshot.
 */
export type Snapshot = { readonly end: bigint; readonly running: ReadonlySet<bigint> };

/** Where a reader starts: after a position, without the changes that a snapshot sees. */
export type Start = Position & {
  readonly snapshot?: Snapshot;
  /** In a position of a client, the tables that were published, see `PublishedTables`; "" if it does not say. */
  readonly published?: string;
};

export const withoutSnapshot = ({ lsn, index }: Start): Start => ({ lsn, index });

/** `"10:20:10,14"`: all below 20 have begun, and 10 and 14 have not ended. */
export function parseSnapshot(text: string): Snapshot {
  const [, end = "0", running = ""] = text.split(":");
  return { end: BigInt(end), running: new Set(running.split(",").filter(Boolean).map(BigInt)) };
}

/**
 * The position of a query: a reader that starts there gets exactly the changes that the query has not seen. `mark` was read before
 * the query, and `snapshot` is its pg_current_snapshot(). `replayed` is null unless a replica has answered.
 */
export function startAfter({ position }: Mark, snapshot: string, replayed: bigint | null = null): Start {
  if (replayed !== null) return startAfterReplay(snapshot, replayed);
  return { ...position, snapshot: parseSnapshot(snapshot) };
}

/**
 * The same for a query on a replica, which may be behind the mark, and had replayed the write-ahead log up to `replayed` before it took its
 * snapshot. A snapshot there does not name the running transactions, only the oldest one: a reader that starts here misses nothing, but
 * may get what was committed while the query began although the query has seen it.
 */
function startAfterReplay(snapshot: string, replayed: bigint): Start {
  const end = BigInt(snapshot.split(":")[0]!);
  return { lsn: replayed, index: 0, snapshot: { end, running: new Set() } };
}

/** A place in the log, and what a query there sees. */
export type Moment = { readonly lsn: bigint; readonly snapshot: Snapshot };

/** Whether a reader that starts at `start` gets only changes after the moment. */
export function isAfter(start: Start, { lsn, snapshot }: Moment): boolean {
  if (comparePositions(start, { lsn, index: 0 }) >= 0) return true;
  const seen = start.snapshot;
  if (!seen || seen.end < snapshot.end) return false;
  return [...seen.running].every((xid) => xid >= snapshot.end || snapshot.running.has(xid));
}

/** What a change says of its transaction; `xid` is its number modulo 2³². */
type Commit = { readonly position: Position; readonly xid: number };

/** Whether a query sees a committed transaction. `xid` is its number modulo 2³². */
export function sees({ end, running }: Snapshot, xid: number): boolean {
  const number = nearest(xid, end);
  return number < end && !running.has(number);
}

/** The number with this remainder that is nearest to `end`: Postgres' numbers of running transactions differ by less than 2³¹. */
const nearest = (xid: number, end: bigint): bigint => end + BigInt.asIntN(32, BigInt(xid) - end);

/** Whether a reader that started at `start` must get the change. */
export const follows = ({ position, xid }: Commit, start: Start): boolean =>
  comparePositions(position, start) > 0 && !(start.snapshot && sees(start.snapshot, xid));

/** Whether the change, and so every later one, was committed after `start`: its transaction began after the snapshot. */
export const isCommittedAfter = ({ position, xid }: Commit, { snapshot, ...start }: Start): boolean =>
  comparePositions(position, start) > 0 && (!snapshot || nearest(xid, snapshot.end) >= snapshot.end);

/**
 * A start as text for headers and URLs: the stream, the position, and of a snapshot its end and the distances of its running
 * transactions from it, in base 36. `"k3vd81-1c4e8-2"`, `"k3vd81-1c4e8-2-kf-1_7"`. The published tables follow: `"k3vd81-1c4e8-2-p0000cn11x0fk2"`
 */
export function textOfStart({ lsn, index, snapshot, published }: Start, stream: string): string {
  const parts = [stream, lsn.toString(36), index.toString(36)];
  if (snapshot) {
    const running = [...snapshot.running].map((xid) => (snapshot.end - xid).toString(36));
    parts.push(snapshot.end.toString(36), running.join("_"));
  }
  if (published) parts.push(`p${published}`);
  return parts.join("-");
}

/** Returns null for text that `textOfStart` has not written. */
export function parseStart(text: string): { readonly stream: string; readonly start: Start } | null {
  const match = START.exec(text);
  if (!match) return null;
  const [, stream = "", lsn = "", index = "", end, running = "", published = ""] = match;
  const start = { lsn: fromBase36(lsn), index: Number.parseInt(index, 36), published };
  if (end === undefined) return { stream, start };
  const distances = running.split("_").filter(Boolean).map(fromBase36);
  const last = fromBase36(end);
  const snapshot = { end: last, running: new Set(distances.map((distance) => last - distance)) };
  return { stream, start: { ...start, snapshot } };
}

const START =
  /^([a-z0-9]{1,16})-([a-z0-9]{1,13})-([a-z0-9]{1,10})(?:-([a-z0-9]{1,13})-([a-z0-9_]*))?(?:-p([a-z0-9]{8,14}))?$/;

/** The streams that a stream continues since a standby was promoted, each with the last position that both have. */
export type Ancestors = ReadonlyMap<string, bigint>;

/** Whether a position of `own` is one of the stream too. */
export const isIn = (stream: string, ancestors: Ancestors, own: string, { lsn }: Position): boolean =>
  own === stream || lsn <= (ancestors.get(own) ?? -1n);

/**
 * A start in a stream, from text that `textOfStart` has written; null for other text. One that is in no stream that this one continues
 * precedes all kept changes. So does one with a snapshot of such a stream: it may have seen transactions that were lost with the primary.
 */
export function parseStartIn(stream: string, ancestors: Ancestors, text: string): Start | null {
  const parsed = parseStart(text);
  if (parsed === null) return null;
  const { stream: own, start } = parsed;
  const isUsable = own === stream || (!start.snapshot && isIn(stream, ancestors, own, start));
  return isUsable ? start : { lsn: -1n, index: 0 };
}

/** `"16/B374D848"` → 0x16B374D848n */
export function parseLsn(text: string): bigint {
  const [high = "0", low = "0"] = text.split("/");
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

/** Exact beyond 2⁵³. */
function fromBase36(text: string): bigint {
  let number = 0n;
  for (const digit of text) number = number * 36n + BigInt(Number.parseInt(digit, 36));
  return number;
}

/** The stream of the write-ahead log of a server, whose positions are those in the log. */
export const walStream = (systemIdentifier: string, timeline: string, database: string): string =>
  streamName("logical", systemIdentifier, timeline, database);

/** A short name for what identifies a stream. */
export function streamName(...identifiers: readonly string[]): string {
  const digest = createHash("sha256").update(identifiers.join(" ")).digest();
  return digest.readUIntBE(0, 4).toString(36);
}

/** A position of the log, and the first transaction that certainly began after it. */
type Candidate = { readonly stream: string; readonly lsn: bigint; readonly next: bigint };

/**
 * Finds a position of the write-ahead log up to which queries see every change, while the log is not decoded and no change has a
 * position. A commit is in the log before queries see it, so a position is used when every transaction that began before it has ended.
 */
export class RestingMark {
  /** Queries see every change up to here. Null if there is none yet. */
  mark: Mark | null = null;
  #candidate: Candidate | null = null;

  forget(): void {
    this.#candidate = null;
    this.mark = null;
  }

  /** `end` is the end of the log of this stream, read before this call. */
  async look(pool: pg.Pool, stream: string, end: bigint): Promise<void> {
    const { rows } = await pool.query<{ oldest: string; next: string }>(
      `select pg_snapshot_xmin(pg_current_snapshot())::text as oldest, pg_snapshot_xmax(pg_current_snapshot())::text as next`,
    );
    const { oldest, next } = rows[0]!;
    if ((this.#candidate ?? this.mark)?.stream !== stream) this.forget();
    this.#candidate ??= { stream, lsn: end, next: BigInt(next) };
    if (BigInt(oldest) < this.#candidate.next) return;
    this.mark = { stream, position: { lsn: this.#candidate.lsn, index: 0 } };
    this.#candidate = null;
  }
}
