import type { ChangedTable, Image } from "./change.ts";
import type { DescribedTable } from "./column-numbers.ts";

type Tuple = (string | null | undefined)[];

/** One message of a transaction. LSNs are positions in the write-ahead log; `committedAt` is milliseconds since 1970. */
export type LogicalMessage =
  | { readonly kind: "begin"; readonly commitLsn: bigint; readonly committedAt: number; readonly xid: number }
  | { readonly kind: "commit"; readonly endLsn: bigint }
  /** Precedes the first change of the table, and the first one after DDL. */
  | { readonly kind: "table"; readonly table: DescribedTable }
  | RowMessage
  | { readonly kind: "truncate"; readonly tables: readonly ChangedTable[] }
  /** Written by pg_logical_emit_message. */
  | { readonly kind: "message"; readonly prefix: string };

export type RowMessage = { readonly table: ChangedTable } & (
  | { readonly kind: "insert"; readonly old: null; readonly new: Image }
  | { readonly kind: "update"; readonly old: Image | null; readonly new: Image }
  | { readonly kind: "delete"; readonly old: Image; readonly new: null }
);

/** The epoch of Postgres' timestamps, 2000-01-01, in milliseconds. */
export const POSTGRES_EPOCH = 946_684_800_000;

/**
 * Decodes messages of the output plugin pgoutput, protocol version 1. The tables that the stream describes are passed to
 * `describe` before their changes are decoded.
 * Source: PostgreSQL documentation, "Logical Replication Message Formats".
 */
export class PgOutputDecoder {
  readonly #tables = new Map<number, ChangedTable>();
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;

  get tables(): readonly ChangedTable[] {
    return [...this.#tables.values()];
  }

  knows(oid: number): boolean {
    return this.#tables.has(oid);
  }

  describe(table: ChangedTable): void {
    this.#tables.set(table.oid, table);
  }

  /** Decodes the message at `start` of `bytes`. Returns null for other messages. */
  decode(bytes: Buffer, start: number): LogicalMessage | null {
    this.#bytes = bytes;
    this.#at = start;
    switch (this.#char()) {
      case "B":
        return { kind: "begin", commitLsn: this.#long(), committedAt: this.#time(), xid: this.#int() };
      case "C":
        this.#at += 1 + 8; // flags, LSN of the commit
        return { kind: "commit", endLsn: this.#long() };
      case "R":
        return this.#describedTable();
      case "I":
        return { kind: "insert", table: this.#table(), old: null, new: this.#newTuple() };
      case "U":
        return this.#update();
      case "D": {
        const table = this.#table();
        return { kind: "delete", table, old: this.#oldTuple(this.#char(), table), new: null };
      }
      case "T":
        return this.#truncate();
      case "M":
        this.#at += 1 + 8; // flags, LSN
        return { kind: "message", prefix: this.#string() };
      default:
        return null;
    }
  }

  #update(): LogicalMessage {
    const table = this.#table();
    const tag = this.#char();
    if (tag === "N") return { kind: "update", table, old: null, new: this.#tuple() };
    const old = this.#oldTuple(tag, table);
    const updated = this.#newTuple();
    // A whole old row has the values of large columns that the update did not change.
    for (const [i, value] of updated.entries()) if (value === undefined) updated[i] = old[i];
    return { kind: "update", table, old, new: updated };
  }

  #truncate(): LogicalMessage {
    const count = this.#int();
    this.#at += 1; // options
    return { kind: "truncate", tables: Array.from({ length: count }, () => this.#table()) };
  }

  #describedTable(): LogicalMessage {
    const oid = this.#int();
    const schema = this.#string() || "pg_catalog";
    const name = this.#string();
    this.#at += 1; // replica identity
    const columns = Array.from({ length: this.#short() }, () => this.#column());
    return { kind: "table", table: { oid, schema, name, columns } };
  }

  /** The only flag says whether the column is part of the replica identity. */
  #column(): DescribedTable["columns"][number] {
    const isLogged = this.#bytes[this.#at++] === 1;
    const column = { name: this.#string(), type: this.#int(), isLogged };
    this.#at += 4; // type modifier
    return column;
  }

  #table(): ChangedTable {
    const oid = this.#int();
    const table = this.#tables.get(oid);
    if (!table) throw new Error(`the stream of changes has not described the table with OID ${oid}`);
    return table;
  }

  /**
   * K: the key, or the whole row of a partition. O: the whole row. The columns outside of a key are sent as null, and those of the key are
   * never null.
   */
  #oldTuple(tag: string, { columns, hasWholePartitions }: ChangedTable): Tuple {
    const values = this.#tuple();
    const hasMore = () => values.some((value, i) => value !== null && !columns[i]!.isLogged);
    return tag === "O" || (hasWholePartitions && hasMore()) ? values : values.map((value) => value ?? undefined);
  }

  /** Skips the tag N. */
  #newTuple(): Tuple {
    this.#at += 1;
    return this.#tuple();
  }

  #tuple(): Tuple {
    const values: Tuple = new Array(this.#short());
    for (let i = 0; i < values.length; i++) {
      const kind = this.#bytes[this.#at++];
      if (kind === 0x74) values[i] = this.#text();
      else values[i] = kind === 0x6e ? null : undefined; // n: null, u: unchanged
    }
    return values;
  }

  #text(): string {
    const length = this.#int();
    this.#at += length;
    return this.#bytes.toString("utf8", this.#at - length, this.#at);
  }

  #string(): string {
    const start = this.#at;
    const end = this.#bytes.indexOf(0, start);
    this.#at = end + 1;
    return this.#bytes.toString("utf8", start, end);
  }

  #char(): string {
    return String.fromCharCode(this.#bytes[this.#at++]!);
  }

  #short(): number {
    this.#at += 2;
    return this.#bytes.readUInt16BE(this.#at - 2);
  }

  #int(): number {
    this.#at += 4;
    return this.#bytes.readUInt32BE(this.#at - 4);
  }

  #long(): bigint {
    this.#at += 8;
    return this.#bytes.readBigUInt64BE(this.#at - 8);
  }

  #time(): number {
    return POSTGRES_EPOCH + Number(this.#long() / 1000n);
  }
}
