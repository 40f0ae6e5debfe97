import { getGrafastMiddleware, type OperationPlan, type Step } from "postgraphile/grafast";

type Entry = { readonly step: Step };
/** The steps of a plan that Grafast executes together, before it awaits them all. */
type Phase = {
  checkTimeout: boolean;
  normalSteps: Entry[] | undefined;
  unbatchedSyncAndSafeSteps: (Entry & { scratchpad: undefined })[] | undefined;
  _allSteps: Step[];
};
type LayerPlan = { phases: Phase[] };
type Internals = {
  readonly stepTracker: { readonly layerPlans: readonly (LayerPlan | null)[] };
};

const dependenciesOf = (step: Step) => (step as unknown as { dependencies: readonly Step[] }).dependencies;

/** The plans whose phases are arranged. */
const arranged = new WeakSet<OperationPlan>();

/**
 * Makes Grafast send all queries that do not depend on each other at the same time, and so in one round trip. Grafast itself
 * executes each step as early as possible: a query without variables would be sent, and awaited, before the variables of
 * another have been prepared.
 */
export const sendQueriesTogether = getGrafastMiddleware({
  disablePlugins: [],
  lib: {} as GraphileConfig.Lib,
  plugins: [
    {
      name: "SendQueriesTogetherPlugin",
      version: "1.0.0",
      grafast: {
        middleware: {
          establishOperationPlan(next) {
            const plan = next();
            if (arranged.has(plan)) return plan;
            arranged.add(plan);
            for (const layerPlan of (plan as unknown as Internals).stepTracker.layerPlans)
              if (layerPlan) delayQueries(layerPlan);
            return plan;
          },
        },
      },
    },
  ],
});

/** Arranges the steps so that a phase has queries only if no other step is ready. */
function delayQueries(layerPlan: LayerPlan): void {
  const steps = layerPlan.phases.flatMap((phase) => phase._allSteps);
  // The fields of a mutation are executed in order.
  if (layerPlan.phases.length < 2 || steps.some((step) => step.hasSideEffects)) return;
  const unbatched = new Set(
    layerPlan.phases.flatMap((phase) => (phase.unbatchedSyncAndSafeSteps ?? []).map(({ step }) => step)),
  );
  const pending = new Set(steps);
  const isReady = (step: Step) => dependenciesOf(step).every((dependency) => !pending.has(dependency));
  const phases: Phase[] = [];
  while (pending.size > 0) {
    const ready = [...pending].filter(isReady);
    const prepared = ready.filter((step) => step.isSyncAndSafe);
    phases.push(phaseOf(prepared.length > 0 ? prepared : ready, { pending, unbatched, isReady }));
  }
  layerPlan.phases = phases;
}

type Remaining = {
  readonly pending: Set<Step>;
  readonly unbatched: ReadonlySet<Step>;
  isReady(step: Step): boolean;
};

function phaseOf(steps: readonly Step[], { pending, unbatched, isReady }: Remaining): Phase {
  const normal = steps.filter((step) => !unbatched.has(step));
  const cheap = steps.filter((step) => unbatched.has(step));
  for (const step of steps) pending.delete(step);
  // These are executed one after the other, in this order, and need no phase of their own.
  for (let added = true; added; ) {
    added = false;
    for (const step of pending) {
      if (!unbatched.has(step) || !isReady(step)) continue;
      pending.delete(step);
      cheap.push(step);
      added = true;
    }
  }
  return {
    checkTimeout: normal.some((step) => !step.isSyncAndSafe),
    normalSteps: normal.length > 0 ? normal.map((step) => ({ step })) : undefined,
    unbatchedSyncAndSafeSteps: cheap.length > 0 ? cheap.map((step) => ({ step, scratchpad: undefined })) : undefined,
    _allSteps: [...normal, ...cheap],
  };
}
