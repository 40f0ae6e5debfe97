import { every, type Repetition } from "../repeat.ts";
import type { DescribedTable } from "./column-numbers.ts";
import { Election } from "./election.ts";
import { LogFollower } from "./log-follower.ts";
import { RestingMark } from "./position.ts";
import { ReaderRole } from "./reader-role.ts";
import type { SharedLog } from "./shared-log.ts";
import { SlotReader, type SlotReaderOptions } from "./slot-reader.ts";
import { readPrimary, type ServerEnd } from "./slot-server.ts";
import type { ChangeSink, ChangeSource, SourceHealth } from "./source.ts";

/** Milliseconds between two looks at the database. */
const LOOK = 2000;
/** The server ends the connection of a process that stands still, while it streams and otherwise, so that another one reads. */
const SETTINGS = ["wal_sender_timeout=10s", "idle_session_timeout=10s"];

export type SharedSourceOptions = Omit<SlotReaderOptions, "election" | "settings"> & {
  readonly log: SharedLog;
  /** Maximum size of a row. */
  readonly maxBytes: number;
  readonly onTable: (table: DescribedTable) => Promise<boolean> | null;
};

/**
 * Reads committed changes that one process of all reads from the write-ahead log: it stores what the server sends, and every process,
 * it too, decodes that. So the server decodes the log once, however many processes there are.
 */
export class SharedSource implements ChangeSource {
  readonly resting = new RestingMark();
  readonly #options: SharedSourceOptions;
  readonly #reader: SlotReader;
  /** The stream of the server and the end of its log. */
  #server: ServerEnd | null = null;
  #looks: Repetition | null = null;
  #follower: LogFollower | null = null;
  #following: Promise<void> = Promise.resolve();

  constructor(options: SharedSourceOptions) {
    this.#options = options;
    const role = new ReaderRole({ ...options, reader: () => this.#reader });
    const election = new Election(options.standby ?? options.pool, options.slot.name);
    this.#reader = new SlotReader({ ...options, election, settings: SETTINGS }, role);
  }

  get health(): SourceHealth {
    const follower = this.#follower;
    const isStreaming = follower?.hasBegun && follower.failure === null;
    const isReader = this.#reader.isStreaming;
    return {
      state: !follower ? "resting" : isStreaming ? "streaming" : "disconnected",
      ...(follower && !isStreaming && { reason: follower.failure ?? "it has not received anything yet" }),
      slot: this.#reader.slot,
      lag: (this.#server && follower?.lagBehind(this.#server.end)) ?? { bytes: 0, seconds: 0 },
      shared: { reader: follower?.reader ?? null, isReader, behind: follower?.behind ?? 0 },
    };
  }

  start(): void {
    this.#reader.start();
    // Without a database, what the last look has found stays.
    this.#looks = every(LOOK, () => this.#look());
    this.#looks.now();
  }

  open(sink: ChangeSink): void {
    const follower = new LogFollower({ ...this.#options, sink, onBegin: () => this.resting.forget() });
    this.#follower = follower;
    this.#following = this.#following.then(() => follower.run());
  }

  rest(): void {
    this.#follower?.stop();
    this.#follower = null;
  }

  async close(): Promise<void> {
    this.rest();
    this.#options.log.close();
    await Promise.all([this.#reader.close(), this.#looks?.stop(), this.#following]);
  }

  async #look(): Promise<void> {
    const { pool } = this.#options;
    const server = await readPrimary(pool);
    this.#server = server;
    if (this.#follower === null) await this.resting.look(pool, server.stream, server.end);
  }
}
