import type { Table } from "../../db/catalog/catalog.ts";
import type { Change, ChangedTable } from "../../db/changes/change.ts";
import type { ChangeSink, ChangeSource } from "../../db/changes/source.ts";

/** A source whose commits are those of the test. Each inserts a row into each of the tables, with the number of the commit as its id. */
export class Commits implements ChangeSource {
  readonly health = { state: "streaming", lag: { bytes: 0, seconds: 0 } } as const;
  readonly resting = { mark: null };
  count = 0;
  /** The same objects for all changes, as in a stream. */
  readonly #tables: readonly ChangedTable[];
  #sink: ChangeSink | null = null;

  constructor(tables: readonly Table[]) {
    this.#tables = tables.map(({ oid, schema, name }) => ({
      ...{ oid, schema, name },
      columns: [
        { name: "id", number: 1, type: 23, typeName: "int4", shape: { kind: "number" } as any },
        { name: "title", number: 2, type: 25, typeName: "text", shape: { kind: "string" } as any },
      ],
    }));
  }

  start(): void {}
  rest(): void {}
  async close(): Promise<void> {}

  open(sink: ChangeSink): void {
    this.#sink = sink;
    const start = { lsn: 0n, index: 1 };
    sink.begin({ start, live: start, stream: "test" });
  }

  commit(): void {
    const id = ++this.count;
    for (const [i, table] of this.#tables.entries()) {
      const position = { lsn: BigInt(id), index: i + 1 };
      const image = [String(id), "a title"];
      const change: Change = { position, committedAt: 0, xid: id, table, operation: "INSERT", new: image, old: null };
      this.#sink!.receive(change, 100);
    }
  }
}
