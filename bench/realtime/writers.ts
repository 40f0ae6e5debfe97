import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

/** Connections that insert rows. */
const CONNECTIONS = 8;
/** Milliseconds between the rows that are due. */
const TICK = 5;

export type Row = { readonly id: number; readonly owner: number; readonly team: number };

/** Inserts rows, each in a transaction. */
export class Writers implements AsyncDisposable {
  readonly #clients: readonly pg.Client[];
  readonly #table: string;

  private constructor(clients: readonly pg.Client[], table: string) {
    this.#clients = clients;
    this.#table = table;
  }

  static async connect(url: string, table: string): Promise<Writers> {
    // The cluster does not wait for commits to be in the log, which then would be sent up to half a second later.
    const options = "-c synchronous_commit=on";
    const clients = Array.from({ length: CONNECTIONS }, () => new pg.Client({ connectionString: url, options }));
    await Promise.all(clients.map((client) => client.connect()));
    return new Writers(clients, table);
  }

  /** Inserts `rate` rows per second for some seconds, however long each takes. `next` returns the next row, whose insert begins now. */
  async atRate(rate: number, seconds: number, next: () => Row): Promise<void> {
    const start = performance.now();
    const writing: Promise<unknown>[] = [];
    for (let written = 0; written < rate * seconds; ) {
      const due = Math.min(rate * seconds, ((performance.now() - start) / 1000) * rate);
      for (; written < due; written++) writing.push(this.#insert(this.#clients[written % CONNECTIONS]!, next()));
      await sleep(TICK);
    }
    await Promise.all(writing);
  }

  /** Inserts as many rows as possible: `count`, or until the time is over. Returns how many. */
  async atFullSpeed({ count = Number.POSITIVE_INFINITY, seconds = 3600 }, next: () => Row): Promise<number> {
    const end = performance.now() + seconds * 1000;
    let written = 0;
    const write = async (client: pg.Client) => {
      while (written < count && performance.now() < end) {
        written++;
        await this.#insert(client, next());
      }
    };
    await Promise.all(this.#clients.map(write));
    return written;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.end()));
  }

  #insert(client: pg.Client, { id, owner, team }: Row): Promise<unknown> {
    return client.query({
      name: "insert",
      text: `insert into public.${this.#table} (id, owner, team, body) values ($1, $2, $3, $4)`,
      values: [id, owner, team, BODY],
    });
  }
}

/** A row is about 250 bytes. */
const BODY = "A row that is about as long as a short message of a chat, or a line of a list. ".repeat(2);
