import type { PgSelectStep } from "postgraphile/@dataplan/pg";
import { type Step, UnbatchedStep } from "postgraphile/grafast";

const changeNothing = () => {};

/**
 * Lets a page and its totalCount be queried in one batch, so that they share one transaction. Grafast executes steps in
 * rounds and awaits each round: a count that is ready one round before its page would be queried alone. This step is
 * applied to the query of the page, and Grafast copies it to the count. Both then wait for the dependencies of the page.
 */
export class BatchWithPageStep extends UnbatchedStep<() => void> {
  static override $$export = { moduleName: "content-service", exportName: "BatchWithPageStep" };
  // Synchronous and unbatched, so that the step does not take a round in which other queries would be sent first.
  override isSyncAndSafe = true;
  readonly #pageId: number;

  constructor($page: PgSelectStep, dependencies: readonly Step[]) {
    super();
    this.#pageId = $page.id;
    for (const $step of dependencies) this.addUnaryDependency($step);
  }

  /** Adds the dependencies of the queries that optimize() of the page has joined into it. Grafast calls this afterwards. */
  override optimize(): Step<() => void> {
    const $page = this.getStep(this.#pageId) as PgSelectStep;
    const { dependencies } = $page as unknown as { dependencies: readonly Step[] };
    const known = (this as unknown as { dependencies: readonly Step[] }).dependencies;
    const joined = dependencies.filter(($step) => $step.constructor.name === "PgSelectInlineApplyStep");
    if (joined.every(($step) => known.includes($step))) return this;
    return new BatchWithPageStep($page, [...new Set([...known, ...joined])]);
  }

  override unbatchedExecute() {
    return changeNothing;
  }
}
