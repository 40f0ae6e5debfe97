import type { ChangeFeed } from "../../db/changes/feed.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Result, RunOptions, Statement, Transactions } from "../../db/transaction/transaction.ts";

const SNAPSHOT: Statement = { text: "select pg_catalog.pg_current_snapshot()::pg_catalog.text", values: [] };

/**
 * Reads of a query, whose first transaction also reads its position: a subscriber that begins there misses nothing. It gets nothing
 * twice either, unless the query needs several transactions.
 */
export class PositionedReads implements Pick<Transactions, "run"> {
  /** The position as text; null without a transaction, or if it is not known. */
  position: string | null = null;
  readonly #transactions: Pick<Transactions, "run">;
  readonly #feed: Pick<ChangeFeed, "mark" | "textAfter">;
  #hasBegun = false;

  constructor(transactions: Pick<Transactions, "run">, feed: Pick<ChangeFeed, "mark" | "textAfter">) {
    this.#transactions = transactions;
    this.#feed = feed;
  }

  async run(identity: Identity, statements: readonly Statement[], options: RunOptions = {}): Promise<Result[]> {
    if (this.#hasBegun) return this.#transactions.run(identity, statements, options);
    this.#hasBegun = true;
    const { mark } = this.#feed;
    const results = await this.#transactions.run(identity, [...statements, SNAPSHOT], { ...options, snapshot: true });
    const snapshot = results.pop()!.rows[0]![0]!.toString();
    this.position = mark && this.#feed.textAfter(mark, snapshot);
    return results;
  }
}
