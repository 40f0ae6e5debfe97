import type { DescribedTable } from "./column-numbers.ts";
import { RestingMark } from "./position.ts";
import { SlotReader, type SlotReaderOptions } from "./slot-reader.ts";
import type { ChangeSink, ChangeSource, SourceHealth } from "./source.ts";
import { StreamDecoder } from "./stream-decoder.ts";

export type LogicalSourceOptions = SlotReaderOptions & {
  /** See StreamDecoder. */
  readonly onTable?: (table: DescribedTable) => Promise<boolean> | null;
};

/**
 * Reads committed changes from the write-ahead log by logical decoding: writers pay nothing, and the order is that of the commits.
 * Each process has a replication slot.
 */
export class LogicalSource implements ChangeSource {
  readonly resting = new RestingMark();
  readonly #reader: SlotReader;
  #decoder: StreamDecoder | null = null;
  #sink: ChangeSink | null = null;
  /** Resolves when changes are wanted. */
  #wanted = Promise.withResolvers<void>();

  constructor(options: LogicalSourceOptions) {
    const { pool, onTable = () => null } = options;
    const isWanted = () => this.#sink !== null;
    this.#reader = new SlotReader(options, {
      get isWanted() {
        return isWanted();
      },
      untilWanted: (signal) => {
        const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        return Promise.race([this.#wanted.promise, ended]);
      },
      look: (end) => this.resting.look(pool, this.#reader.stream, end),
      open: (beginning) => {
        this.resting.forget();
        this.#decoder = new StreamDecoder(onTable);
        this.#decoder.start(this.#sink!, pool, beginning);
        return this.#decoder;
      },
    });
  }

  get health(): SourceHealth {
    const { failure, isStreaming, slot, end } = this.#reader;
    return {
      state: failure !== null ? "disconnected" : isStreaming ? "streaming" : "resting",
      ...(failure !== null && { reason: failure }),
      slot,
      lag: isStreaming && end !== null ? this.#decoder!.lagBehind(end) : { bytes: 0, seconds: 0 },
    };
  }

  start(): void {
    this.#reader.start();
  }

  open(sink: ChangeSink): void {
    this.#sink = sink;
    this.#wanted.resolve();
  }

  rest(): void {
    this.#sink = null;
    this.#wanted = Promise.withResolvers();
    this.#reader.rest();
  }

  close(): Promise<void> {
    return this.#reader.close();
  }
}
