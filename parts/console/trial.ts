import type { Run, RunOptions, Trial } from "../../db/transaction/run-options.ts";
import type { Result, Statement, Value } from "../../db/wire/batch.ts";

/** A statement of a trial. */
export type TriedStatement = {
  readonly text: string;
  readonly values: readonly (string | null)[];
  /** As EXPLAIN prints it: with the times of each step for reads, which run twice, and estimated for writes. */
  plan: string | null;
};

/** A transaction of a trial. `milliseconds` is null if it failed. */
export type TriedTransaction = {
  readonly statements: readonly TriedStatement[];
  readonly isRead: boolean;
  milliseconds: number | null;
};

/** A request that an operator tries: its statements are also explained, and its changes are rolled back unless they are kept. */
export class ExplainedTrial implements Trial {
  readonly transactions: TriedTransaction[] = [];
  /** Who tries it: `user 3` */
  readonly operator: string;
  readonly #keepsChanges: boolean;

  constructor(operator: string, keepsChanges: boolean) {
    this.operator = operator;
    this.#keepsChanges = keepsChanges;
  }

  /** Runs one transaction of the request. Each plan is made in it, so that role, policies and settings are the same. */
  async run(statements: readonly Statement[], options: RunOptions, run: Run): Promise<Result[]> {
    const isRead = !options.unlimitedResult;
    const tried = statements.map(
      ({ text, values }): TriedStatement => ({ text, values: values.map(textOf), plan: null }),
    );
    const transaction: TriedTransaction = { statements: tried, isRead, milliseconds: null };
    this.transactions.push(transaction);
    const all = statements.flatMap((statement) => [explain(statement, isRead), statement]);
    const { onCompleted } = options;
    const start = performance.now();
    const results = await run(all, {
      ...options,
      rollback: options.rollback || !this.#keepsChanges,
      ...(onCompleted && { onCompleted: (index: number) => index % 2 === 1 && onCompleted((index - 1) / 2) }),
    });
    transaction.milliseconds = performance.now() - start;
    for (const [i, statement] of tried.entries()) statement.plan = planIn(results[2 * i]!);
    return results.filter((_, i) => i % 2 === 1);
  }
}

const textOf = (value: Value): string | null =>
  value === null || typeof value === "string" ? value : Buffer.concat(value).toString();

/** In the place of a plan, for a command that has none. */
const NOTHING: Statement = { text: "select where false", values: [] };

function explain({ text, values }: Statement, isRead: boolean): Statement {
  if (text.startsWith("set ")) return NOTHING;
  return { text: `explain (settings${isRead ? ", analyze, buffers" : ""}) ${text}`, values };
}

const planIn = ({ rows }: Result): string => rows.map(([line]) => line?.toString() ?? "").join("\n");
