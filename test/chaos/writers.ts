import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

/** A writer numbers its rows in the order of its commits: writer 3 inserts 3000001, 3000002, … */
export const ROWS_PER_WRITER = 1_000_000;

export const writerOf = (id: number): number => Math.floor(id / ROWS_PER_WRITER);

export type WritersOptions = {
  /** Returns the connection string of the database. */
  url(): string;
  readonly count: number;
  /** Milliseconds between the transactions of one writer. */
  readonly pause: number;
};

/** Insert rows into public.events and, in the same transaction, into public.audit. They go on when the database is restarted. */
export class Writers {
  /** The number of rows that were committed. */
  written = 0;
  readonly #stopping = new AbortController();
  readonly #finished: Promise<unknown>;

  constructor({ url, count, pause }: WritersOptions) {
    this.#finished = Promise.all(Array.from({ length: count }, (_, writer) => this.#write(writer + 1, url, pause)));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#finished;
  }

  async #write(writer: number, url: () => string, pause: number): Promise<void> {
    let next = writer * ROWS_PER_WRITER + 1;
    while (!this.#stopping.signal.aborted) {
      const client = new pg.Client({ connectionString: url(), application_name: "chaos writer" });
      client.on("error", () => {});
      try {
        await client.connect();
        // The outcome of the last transaction may be unknown: its number is not used again.
        while (!this.#stopping.signal.aborted) {
          const id = next++;
          await client.query(`with written as (insert into public.events (id) values (${id}) returning id)
            insert into public.audit select id from written`);
          this.written++;
          await sleep(pause);
        }
      } catch {
        await sleep(pause);
      }
      await client.end().catch(() => {});
    }
  }
}
