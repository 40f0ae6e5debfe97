import type { Slot } from "../admission/admission.ts";
import { type Code, UNKNOWN_CODE } from "../catalog/code.ts";
import type { Result } from "../wire/batch.ts";
import type { Work } from "./execution.ts";
import type { PooledConnection } from "./pool.ts";
import { type Read, SharedConnection, type SharedConnectionOptions } from "./shared-connection.ts";

export type SharedReadsOptions = SharedConnectionOptions & {
  /** Notes that a transaction has a connection. False if its client has gone: it is not sent. */
  connected(work: Work, asked: number): boolean;
};

/**
 * Sends quick reads that share a slot on one connection, with one write. Each has the identity of its own caller, and fails alone. A
 * read that another one on the connection may have affected is run again, alone on a connection.
 */
export class SharedReads {
  readonly #options: SharedReadsOptions;
  /** A new array for each turn: a map would keep what it has held until a full garbage collection. */
  #waiting: { readonly slot: Slot; readonly reads: Read[] }[] = [];
  /** Reads that were sent together with others. */
  count = 0;

  constructor(options: SharedReadsOptions) {
    this.#options = options;
  }

  /**
   * Resolves and rejects as `Transactions.run` does. The reads of a slot that come before the next `send` are sent together, in this turn
   * of the event loop or the next.
   */
  run(work: Work, slot: Slot, asked: number): Promise<Result[]> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.send());
      const read = { work, asked, resolve, reject };
      const group = this.#waiting.find((each) => each.slot === slot);
      if (group === undefined) this.#waiting.push({ slot, reads: [read] });
      else group.reads.push(read);
    });
  }

  /** Sends the reads that wait for others. */
  send(): void {
    const groups = this.#waiting;
    this.#waiting = [];
    for (const { slot } of groups) slot.places = 0;
    for (const { slot, reads } of groups) this.#sendTogether(slot, reads);
  }

  #sendTogether(slot: Slot, reads: Read[]): void {
    const connection = this.#options.connect(slot);
    if (!(connection instanceof Promise)) {
      this.#sendOn(connection, slot, reads);
      return;
    }
    const fail = (error: unknown) => {
      for (const { reject } of reads) reject(error);
    };
    connection.then((opened) => this.#sendOn(opened, slot, reads), fail);
  }

  #sendOn(connection: PooledConnection, slot: Slot, reads: Read[]): void {
    const sent = reads.filter(({ work, asked, reject }) => {
      const isWanted = this.#options.connected(work, asked);
      if (!isWanted) reject(work.signal!.reason);
      return isWanted;
    });
    if (sent.length === 0) {
      this.#options.release(connection, slot, undefined);
    } else if (sent.length === 1) {
      const [{ work, resolve, reject }] = sent as [Read];
      this.#options.runOn(connection, slot, work).then(resolve, reject);
    } else {
      this.count += sent.length;
      connection.codeWhenUsed = codeOf(sent);
      new SharedConnection(connection, slot, this.#options).send(sent);
    }
  }
}

/** After a new catalog, a connection that was used with an older one is cleaned before its next use. */
function codeOf(reads: readonly Read[]): Code {
  const { code } = reads[0]!.work;
  return reads.every(({ work }) => work.code === code) ? code : UNKNOWN_CODE;
}
