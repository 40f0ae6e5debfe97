import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

/** A writer numbers its rows in the order of its commits: writer 3 inserts 3000001, 3000002, … */
export const ROWS_PER_WRITER = 1_000_000;

export const writerOf = (id: number): number => Math.floor(id / ROWS_PER_WRITER);

/** How a writer writes a row. Rejects if it does not know whether the row was committed. */
export type Writing = { write(id: number): Promise<unknown>; close(): Promise<unknown> };

export type WritersOptions = {
  /** Called for each writer, and again after something has failed. */
  open(writer: number): Promise<Writing>;
  readonly count: number;
  /** Milliseconds between the transactions of one writer. */
  readonly pause: number;
};

/** Write rows one after another, and go on after a failure. */
export class Writers {
  /** The number of rows that were committed. */
  written = 0;
  readonly #stopping = new AbortController();
  readonly #finished: Promise<unknown>;

  constructor(options: WritersOptions) {
    this.#finished = Promise.all(Array.from({ length: options.count }, (_, writer) => this.#run(writer + 1, options)));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#finished;
  }

  async #run(writer: number, { open, pause }: WritersOptions): Promise<void> {
    let next = writer * ROWS_PER_WRITER + 1;
    while (!this.#stopping.signal.aborted) {
      let writing: Writing | null = null;
      try {
        writing = await open(writer);
        // The outcome of the last transaction may be unknown: its number is not used again.
        while (!this.#stopping.signal.aborted) {
          await writing.write(next++);
          this.written++;
          await sleep(pause);
        }
      } catch {
        await sleep(pause);
      }
      await writing?.close().catch(() => {});
    }
  }
}

/** Inserts rows into public.events and, in the same transaction, into public.audit. */
export async function openAuditedWriting(url: string): Promise<Writing> {
  const client = new pg.Client({ connectionString: url, application_name: "chaos writer" });
  client.on("error", () => {});
  await client.connect();
  return {
    write: (id) =>
      client.query(`with written as (insert into public.events (id) values (${id}) returning id)
        insert into public.audit select id from written`),
    close: () => client.end(),
  };
}
