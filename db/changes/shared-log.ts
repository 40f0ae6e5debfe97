import type { Ancestors, Position } from "./position.ts";

/** Where the processes of all instances find what one of them reads in the write-ahead log (REDIS_URL). */
export type SharedLog = {
  /** Of the reader: the stream begins, after `start`. What is stored is kept if it continues there. `end` is the end of the write-ahead log. */
  begin(head: Head, start: Position, end: bigint): Promise<void>;
  /** Of the reader: "lost" if not everything up to `after` is stored. What has been stored before is not stored again. */
  append(stream: string, entry: Entry, after: Position): Promise<"stored" | "lost">;
  /** Of the reader, regularly. "unwanted": no process wants changes, and nothing is stored any longer. */
  beat(head: Head): Promise<"wanted" | "unwanted" | "lost">;
  /** Of the reader: whether a process wants changes. */
  isWanted(): Promise<boolean>;
  /** Says that this process wants changes, and finds the stream; null if no process reads. */
  want(): Promise<Found | null>;
  /** The next entries after a position, or from the first one that is stored. Waits about a second for one. */
  read(stream: string, after: Position | null): Promise<Entry[]>;
  close(): void;
};

export type Head = {
  /** Names the order of the positions. */
  readonly stream: string;
  readonly ancestors: Ancestors;
  /** The process that reads. */
  readonly reader: string;
};

/** `top`: everything up to here is stored. `live`: the end of the write-ahead log when the reader began. */
export type Found = Head & { readonly top: Position; readonly live: bigint };

/**
 * What was committed after `base` and up to `end`: messages of the output plugin, each after its length. A large transaction has
 * several entries, each of which repeats its beginning and the descriptions of the tables. What precedes `base` was read in an
 * earlier entry; if that is missing, changes are missed. Of two readers at the same time, both store the same.
 */
export type Entry = { readonly base: Position; readonly end: Position; readonly data: Buffer };

/** The kind of a message that describes a table: as the server has sent it, or again for those who do not know the table. */
export const DESCRIBED = 0x52; // R
export const DESCRIBED_AGAIN = 0x72; // r

/** The bytes of the length of a message. */
export const LENGTH_BYTES = 4;
