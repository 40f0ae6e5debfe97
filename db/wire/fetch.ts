import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import { isLost } from "../errors.ts";
import { untilReady } from "./connection.ts";
import { MessageWriter } from "./messages.ts";

/** The portal of the rows. Its first row arrives with the opening statements, so that their errors arrive before a response. */
export const ROWS_PORTAL = { name: "rows", rows: 1 } as const;

/** When this many bytes have been received, the socket is paused until they are taken, so that Postgres waits. */
const MAX_WAITING_BYTES = 65_536;
/** With room for the rows of one more read of the socket, which may arrive after the pause. */
const BUFFER_BYTES = 2 * MAX_WAITING_BYTES;

/** Collects rows in two buffers in turn, so that a stream allocates nothing: one is filled while the other is sent. */
export class RowBuffers {
  #filling = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #sent = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #length = 0;

  get isFull(): boolean {
    return this.#length >= MAX_WAITING_BYTES;
  }

  add(field: Buffer): void {
    const length = this.#length + field.length;
    if (length > this.#filling.length) this.#grow(length);
    field.copy(this.#filling, this.#length);
    this.#length = length;
  }

  /** The rows that were added, valid until the next call. */
  take(): Buffer {
    const taken = this.#filling.subarray(0, this.#length);
    // A buffer that was needed for one large row is not kept.
    const isUsual = this.#sent.length === BUFFER_BYTES;
    const next = isUsual ? this.#sent : Buffer.allocUnsafeSlow(BUFFER_BYTES);
    this.#sent = this.#filling;
    this.#filling = next;
    this.#length = 0;
    return taken;
  }

  #grow(length: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(length, this.#filling.length * 2));
    this.#filling.copy(larger, 0, 0, this.#length);
    this.#filling = larger;
  }
}

/** The part of pg's connection that a fetch uses; pg has no public type for it. */
type Wire = {
  readonly stream: { write(bytes: Buffer): void; pause(): void; resume(): void };
  received: number;
  recipient: null;
  onField: ((field: Buffer) => void) | null;
};

const messages = new MessageWriter();

/** Fetches the next rows of the portal. A `Submittable` of pg's client. */
export class Fetch {
  isOver = false;
  /** Whether the portal has no more rows. */
  isComplete = false;
  readonly #client: pg.Client;
  readonly #size: number;
  readonly #buffers: RowBuffers;
  #wire: Wire | null = null;
  #bytes = 0;
  /** Rows received so far. */
  count = 0;
  #isDiscarding = false;
  #error: Error | null = null;
  #ready: Promise<void> | null = null;
  #wake: (() => void) | null = null;

  constructor(client: pg.Client, size: number, buffers: RowBuffers) {
    this.#client = client;
    this.#size = size;
    this.#buffers = buffers;
  }

  /** Average bytes of a row. */
  get rowBytes(): number {
    return Math.max(1, this.#bytes / Math.max(1, this.count));
  }

  /** The rows that have been received: at least MAX_WAITING_BYTES, or all. Rejects if the statement fails. */
  async take(): Promise<Buffer> {
    if (!this.isOver && !this.#buffers.isFull) await this.#progress();
    if (this.#ready) await this.#ready;
    if (this.#error) throw this.#error;
    return this.#buffers.take();
  }

  /** Resolves when the statement has ended. Its rows are dropped. */
  async discard(): Promise<void> {
    this.#isDiscarding = true;
    while (!this.isOver) await this.#progress();
    if (this.#ready) await this.#ready;
  }

  wake(): void {
    this.#wake?.();
  }

  #progress(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#wire?.stream.resume();
    });
  }

  submit(wire: Wire): null {
    this.#wire = wire;
    // What is sent to the client is counted where it is sent.
    wire.recipient = null;
    wire.received = 0;
    const add = (field: Buffer) => this.#add(wire, field);
    wire.onField = add;
    messages.execute(ROWS_PORTAL.name, this.#size);
    messages.sync();
    for (const part of messages.take()) wire.stream.write(part);
    return null;
  }

  #add(wire: Wire, field: Buffer): void {
    // The limit of a result applies to each row.
    wire.received = 0;
    if (this.#isDiscarding) return;
    this.count++;
    this.#bytes += field.length;
    this.#buffers.add(field);
    if (!this.#buffers.isFull) return;
    wire.stream.pause();
    this.wake();
  }

  handleCommandComplete(): void {
    this.isComplete = true;
  }

  handleError(error: DatabaseError): void {
    this.#error = error;
    if (!isLost(error)) this.#ready = untilReady(this.#client);
    this.#end();
  }

  handleReadyForQuery(): void {
    this.#end();
  }

  handleDataRow(): void {}
  handlePortalSuspended(): void {}
  handleRowDescription(): void {}
  handleEmptyQuery(): void {}
  handleCopyInResponse(): void {}
  handleCopyData(): void {}

  #end(): void {
    this.isOver = true;
    if (this.#wire) this.#wire.onField = null;
    // The connection is used again. Without one, the connection was lost before the statement was sent.
    this.#wire?.stream.resume();
    this.wake();
  }
}
