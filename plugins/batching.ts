import type { PgSelectStep } from "postgraphile/@dataplan/pg";
import { type Step, UnbatchedStep } from "postgraphile/grafast";

/** Changes nothing about a query. */
const NOTHING = () => {};

/**
 * Lets a page and its totalCount be asked for in one moment, so that they are one transaction. Grafast runs steps in
 * rounds and waits for each: a count that could run one round before its page would be asked, and waited for, alone.
 * Applied to the page, this step is copied to the count; both then wait for whatever the page has to wait for.
 */
export class SameMomentStep extends UnbatchedStep<() => void> {
  static override $$export = { moduleName: "content-service", exportName: "SameMomentStep" };
  // And unbatched: it takes no round of its own, after which other queries of the operation would have gone ahead.
  override isSyncAndSafe = true;
  readonly #pageId: number;

  constructor($page: PgSelectStep, waitsFor: readonly Step[]) {
    super();
    this.#pageId = $page.id;
    for (const $step of waitsFor) this.addUnaryDependency($step);
  }

  /** Runs after the page's own: only then is known what was joined into it, and waits for steps of its own. */
  override optimize(): Step<() => void> {
    const $page = this.getStep(this.#pageId) as PgSelectStep;
    const { dependencies } = $page as unknown as { dependencies: readonly Step[] };
    const own = (this as unknown as { dependencies: readonly Step[] }).dependencies;
    const joined = dependencies.filter(($step) => $step.constructor.name === "PgSelectInlineApplyStep");
    if (joined.every(($step) => own.includes($step))) return this;
    return new SameMomentStep($page, [...new Set([...own, ...joined])]);
  }

  override unbatchedExecute() {
    return NOTHING;
  }
}
