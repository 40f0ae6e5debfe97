import { hostname } from "node:os";
import type pg from "pg";
import { every, pause } from "../repeat.ts";
import { LogWriter } from "./log-writer.ts";
import type { Head, SharedLog } from "./shared-log.ts";
import type { SlotReader, SlotUser } from "./slot-reader.ts";

/** Milliseconds between two signs of life, */
const BEAT = 1000;
/** and between two questions whether changes are wanted. */
const ASK = 100;
/** Milliseconds after which the last answer of the log is old, */
const OLD = 10_000;
/** and for which the slot waits for a log that is away. Afterwards there is a gap. */
const MAX_AWAY = 300_000;

const LOST = "REDIS_URL has lost changes: they are read again from the replication slot, as far as it has them";

export type ReaderRoleOptions = {
  readonly log: SharedLog;
  readonly pool: pg.Pool;
  /** Maximum size of a row. */
  readonly maxBytes: number;
  readonly onWarning: (warning: string) => void;
  readonly reader: () => SlotReader;
};

/** What the elected process does: it stores the stream of the slot in the log while a process wants changes. */
export class ReaderRole implements SlotUser {
  readonly #options: ReaderRoleOptions;
  readonly #name = `${hostname()}:${process.pid}`;
  #isWanted = true;
  #answeredAt = Date.now();

  constructor(options: ReaderRoleOptions) {
    this.#options = options;
  }

  /** While the log is away, it is unknown: the slot keeps what the processes may lack, but not for ever. */
  get isWanted(): boolean {
    const silence = Date.now() - this.#answeredAt;
    return silence < MAX_AWAY && (this.#isWanted || silence > OLD);
  }

  async untilWanted(signal: AbortSignal): Promise<void> {
    this.#hear(true);
    while (!signal.aborted) {
      const isWanted = await this.#options.log.isWanted().catch(() => null);
      if (isWanted !== null) this.#hear(isWanted);
      if (isWanted) return;
      await pause(ASK, signal);
    }
  }

  async look(): Promise<void> {}

  async open({ start, live, stream, ancestors }: Parameters<SlotUser["open"]>[0]): Promise<LogWriter> {
    const { log, pool, maxBytes } = this.#options;
    const head = { stream, ancestors, reader: this.#name };
    await log.begin(head, start, live.lsn);
    const beats = every(BEAT, () => this.#beat(head));
    return new LogWriter({
      ...{ log, pool, maxBytes },
      beginning: { start, stream },
      onFailure: (error) => this.#restart(error === "lost"),
      onEnd: () => void beats.stop(),
    });
  }

  #hear(isWanted: boolean): void {
    this.#isWanted = isWanted;
    this.#answeredAt = Date.now();
  }

  async #beat(head: Head): Promise<void> {
    const answer = await this.#options.log.beat(head).catch(() => null);
    if (answer === "wanted" || answer === "unwanted") this.#hear(answer === "wanted");
    if (answer !== "wanted") this.#restart(answer === "lost");
  }

  /** The connection begins again at what was acknowledged. */
  #restart(isLost: boolean): void {
    if (isLost) this.#options.onWarning(LOST);
    this.#options.reader().rest();
  }
}
