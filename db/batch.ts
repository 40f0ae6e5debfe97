import type { DatabaseError } from "pg-protocol";
import type { RawRow } from "./connection.ts";

/** One SQL statement: values are text or null already, so that nothing can fail between two messages. */
export type Statement = {
  readonly text: string;
  readonly values: readonly (string | null)[];
  /** Ask for binary results: only for columns of type json and text, whose bytes are the same, and come faster. */
  readonly binary?: boolean;
};

/** `rowCount` is what the command says of itself: rows selected, inserted, updated, deleted. */
export type Result = { readonly rows: RawRow[]; rowCount: number };

/** A statement and the name it is prepared under; "" is not kept. */
export type NamedStatement = Statement & { readonly name: string };

/** What pg's connection offers to a query; pg has no public type for it. */
type Wire = {
  stream: { cork(): void; uncork(): void };
  parse(message: { text: string; name: string }): void;
  bind(message: object): void;
  execute(message: object): void;
  close(message: { type: "S"; name: string }): void;
  sync(): void;
  sendCopyFail(message: string): void;
  prepared?: PreparedStatements;
};

/**
 * The statements that one connection has prepared, the least recently used first.
 * After an error it is unknown which of them exist: those are closed, which never fails, before they are parsed again.
 */
class PreparedStatements {
  #certain = new Map<string, boolean>();

  prepare(wire: Wire, { name, text }: NamedStatement, limit: number): void {
    if (name === "") {
      wire.parse({ name, text });
      return;
    }
    const certain = this.#certain.get(name);
    this.#certain.delete(name);
    this.#certain.set(name, true);
    if (certain) return;

    if (certain === false) wire.close({ type: "S", name });
    else if (this.#certain.size > limit) this.#closeOldest(wire);
    wire.parse({ name, text });
  }

  doubt(names: Iterable<string>): void {
    for (const name of names) if (this.#certain.has(name)) this.#certain.set(name, false);
  }

  doubtAll(): void {
    this.doubt([...this.#certain.keys()]);
  }

  #closeOldest(wire: Wire): void {
    const oldest = this.#certain.keys().next().value as string;
    this.#certain.delete(oldest);
    wire.close({ type: "S", name: oldest });
  }
}

/**
 * Several statements before one Sync: Postgres runs them as one implicit transaction, committed when ReadyForQuery
 * comes and not before, and rolls all of them back when one fails. A `Submittable` of pg's client.
 */
export class Batch {
  readonly results: Result[];
  #statements: readonly NamedStatement[];
  #limit: number;
  #done: ((error: DatabaseError | Error | null) => void) | null;
  #wire: Wire | undefined;
  #current = 0;

  constructor(
    statements: readonly NamedStatement[],
    maxPrepared: number,
    done: (error: DatabaseError | Error | null) => void,
  ) {
    this.#statements = statements;
    this.#limit = maxPrepared;
    this.#done = done;
    this.results = statements.map(() => ({ rows: [], rowCount: 0 }));
  }

  submit(wire: Wire): null {
    this.#wire = wire;
    wire.prepared ??= new PreparedStatements();
    wire.stream.cork();
    try {
      for (const statement of this.#statements) {
        wire.prepared.prepare(wire, statement, this.#limit);
        wire.bind({ statement: statement.name, values: statement.values, binary: statement.binary === true });
        wire.execute({});
      }
    } finally {
      wire.sync();
      wire.stream.uncork();
    }
    return null;
  }

  handleDataRow({ fields }: { fields: RawRow }): void {
    this.results[this.#current]!.rows.push(fields);
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.results[this.#current++]!.rowCount = Number(/\d+$/.exec(text)?.[0] ?? 0);
  }

  handleEmptyQuery(): void {
    this.#current++;
  }

  handleError(error: DatabaseError): void {
    // 26000, no such statement: a pooler gave us another server connection, or somebody ran DEALLOCATE.
    if (error.code === "26000") this.#wire?.prepared?.doubtAll();
    else this.#wire?.prepared?.doubt(this.#statements.map((statement) => statement.name));
    this.#finish(error);
  }

  // Only now is the transaction committed: a deferred constraint fails after the last CommandComplete.
  handleReadyForQuery(): void {
    this.#finish(null);
  }

  handleCopyInResponse(wire: Wire): void {
    wire.sendCopyFail("COPY is not served");
  }

  handleRowDescription(): void {}
  handlePortalSuspended(): void {}
  handleCopyData(): void {}

  #finish(error: DatabaseError | Error | null): void {
    const done = this.#done;
    this.#done = null;
    done?.(error);
  }
}
