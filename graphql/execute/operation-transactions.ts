import type { ChangeFeed } from "../../db/changes/feed.ts";
import type { ReplicatedRequest } from "../../db/replicas/replicas.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Result, RunOptions, Statement, Transactions } from "../../db/transaction/transaction.ts";
import type { Operation } from "./operation.ts";

const SNAPSHOT: Statement = { text: "select pg_catalog.pg_current_snapshot()::pg_catalog.text", values: [] };

export type OperationTransactionsOptions = {
  readonly transactions: Pick<Transactions, "run">;
  readonly feed: Pick<ChangeFeed, "mark" | "textAfter">;
  readonly operation: Pick<Operation, "kind" | "wantsPosition">;
  /** Undefined without replicas. */
  readonly replicated: ReplicatedRequest | undefined;
};

/**
 * The transactions of a query or mutation, with its position. A query is answered by replicas, each of which has what the one before
 * had; once the primary has answered, it answers the rest. With a position, the first transaction of a query also reads it: a
 * subscriber that begins there misses nothing. It gets nothing twice either, unless the query needs several transactions.
 */
export class OperationTransactions implements Pick<Transactions, "run"> {
  readonly #options: OperationTransactionsOptions;
  /** The position of a query as text; null without a transaction, or if it is not known. */
  #read: string | null = null;
  /** What a replica must have replayed; null if the primary answers. */
  #after: bigint | null;
  #needsPosition: boolean;

  constructor(options: OperationTransactionsOptions) {
    const { operation, replicated } = options;
    const isQuery = operation.kind === "query";
    this.#options = options;
    this.#after = isQuery ? (replicated?.reading?.after ?? null) : null;
    this.#needsPosition = isQuery && operation.wantsPosition;
  }

  /** As text; null if nothing was written, and no position was requested. */
  get position(): string | null {
    return this.#options.replicated?.position ?? this.#read;
  }

  async run(identity: Identity, statements: readonly Statement[], options: RunOptions = {}): Promise<Result[]> {
    const { feed } = this.#options;
    if (!this.#needsPosition) return (await this.#run(identity, statements, options)).results;
    this.#needsPosition = false;
    const { mark } = feed;
    const { results, replayed } = await this.#run(identity, [...statements, SNAPSHOT], { ...options, snapshot: true });
    const snapshot = results.pop()!.rows[0]![0]!.toString();
    this.#read = mark && feed.textAfter(mark, snapshot, replayed);
    return results;
  }

  async #run(identity: Identity, statements: readonly Statement[], options: RunOptions) {
    const { transactions, replicated } = this.#options;
    const isNamed = replicated?.reading?.isNamed ?? false;
    // Only reads share a snapshot.
    const isRead = options.snapshot && this.#after !== null;
    const reading = isRead ? { after: this.#after!, isNamed, replayed: null as bigint | null } : undefined;
    const { written } = replicated ?? {};
    try {
      const results = await transactions.run(identity, statements, { ...options, reading, written });
      return { results, replayed: reading?.replayed ?? null };
    } finally {
      if (reading) this.#follow(reading.replayed);
    }
  }

  #follow(replayed: bigint | null): void {
    if (replayed === null) this.#after = null;
    else if (this.#after !== null && replayed > this.#after) this.#after = replayed;
  }
}
