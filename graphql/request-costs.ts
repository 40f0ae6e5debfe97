import { PgSelectStep } from "postgraphile/@dataplan/pg";
import type { ExecutionDetails, Step } from "postgraphile/grafast";
import type { OperationDefinitionNode } from "postgraphile/graphql";

/** Pages of one step whose SQL is kept. Clients use few. */
const MAX_PAGES = 8;

type Placeholder = {
  readonly dependencyIndex: number;
  readonly codec: { toPg(value: unknown): unknown };
  readonly alreadyEncoded: boolean;
};
/** The parts of PostGraphile's steps that its own `execute` reads. */
type Paged = {
  readonly firstStepId: number | null;
  readonly lastStepId: number | null;
  readonly offsetStepId: number | null;
  readonly afterStepId: number | null;
  readonly beforeStepId: number | null;
  readonly applyDepIds: readonly number[];
};
type Select = Paged & {
  readonly contextId: number;
  readonly mode: string;
  readonly fetchOneExtra: boolean;
  readonly streamDetailsDepIds: readonly number[] | null;
  readonly placeholders: readonly Placeholder[];
  readonly deferreds: readonly unknown[];
  readonly operationPlan: { readonly operation: OperationDefinitionNode };
  readonly resource: {
    executeWithCache(specs: readonly Spec[], query: Query): Promise<{ values: readonly (readonly unknown[])[] }>;
  };
};
type Spec = { readonly context: unknown; readonly queryValues: readonly unknown[] };
type Query = {
  readonly text: string;
  readonly rawSqlValues: readonly unknown[];
  readonly identifierIndex: number | null;
};
type Details = ExecutionDetails;
type SelectResult = { readonly items: readonly unknown[]; readonly hasNextPage: boolean };
type Apply = (queryBuilder: unknown) => void;
/** Adds a relationship to the SQL of its parent. */
type InlineApply = Paged & { execute(details: Details): readonly Apply[] };

/** What PostGraphile has built for one page. */
type Built = {
  readonly query: Query;
  /** For each value of the query the placeholder that it is from, or null if it is the same for each request. */
  readonly placeholders: readonly (Placeholder | null)[];
  /** The result of a query without rows. */
  readonly empty: SelectResult;
};

/** Lets Grafast and PostGraphile not repeat for each request what is always the same. */
export function reduceRequestCosts(): void {
  if (isReduced) return;
  isReduced = true;
  keepSelects();
  shareAbortReason();
}

let isReduced = false;

/**
 * Keeps the SQL of each step of a plan. PostGraphile itself builds it again for each request, though it only depends on the page and
 * on what the arguments add. It is kept for pages from the start of a list, without arguments that add to the SQL at run time; the
 * values of variables are parameters of the SQL.
 */
function keepSelects(): void {
  const prototype = PgSelectStep.prototype as unknown as { execute: Execute; apply: AddApply };
  const { execute, apply } = prototype;
  prototype.execute = function (details) {
    const key = isKept(this, details) ? keyOf(this, details) : null;
    return key === null ? execute.call(this, details) : executeKept(this, details, key, execute);
  };
  prototype.apply = function (step) {
    if (step.constructor.name === "PgSelectInlineApplyStep") keepApply(step as unknown as InlineApply);
    return apply.call(this, step);
  };
}

/** Grafast aborts a signal after each request, without a reason: Node would make an error, with its stack, each time. */
function shareAbortReason(): void {
  const { prototype } = AbortController;
  const { abort } = prototype;
  const aborted = new DOMException("This operation was aborted", "AbortError");
  prototype.abort = function (reason = aborted) {
    abort.call(this, reason);
  };
}

type Execute = (this: Select, details: Details) => Promise<readonly unknown[]>;
type AddApply = (this: unknown, step: Step) => void;

const isKept = ({ mode, operationPlan, streamDetailsDepIds, deferreds }: Select, { count, stream }: Details): boolean =>
  count === 1 &&
  mode !== "mutation" &&
  operationPlan.operation.operation === "query" &&
  !stream &&
  !streamDetailsDepIds?.length &&
  deferreds.length === 0;

const kept = new WeakMap<Select, Map<string, Built>>();

const listeners = new WeakMap<OperationDefinitionNode, (characters: number) => void>();

/** Calls back with the number of characters by which the SQL grows that the plans of the operation keep. */
export function followKeptSql(operation: OperationDefinitionNode, listener: (characters: number) => void): void {
  listeners.set(operation, listener);
}

const lengthOf = (pages: ReadonlyMap<string, Built>) =>
  [...pages.values()].reduce((sum, { query }) => sum + query.text.length, 0);

async function executeKept(step: Select, details: Details, key: string, execute: Execute): Promise<readonly unknown[]> {
  const pages = kept.get(step) ?? new Map<string, Built>();
  kept.set(step, pages);
  const { query, placeholders, empty } = pages.get(key) ?? (await buildPage(step, details, execute, pages, key));
  const rawSqlValues = query.rawSqlValues.map((value, i) =>
    placeholders[i] ? parameterOf(placeholders[i], details) : value,
  );
  const { values } = details;
  const specs = [{ context: values[step.contextId]!.unaryValue(), queryValues: [] }];
  const { eventEmitter } = details.extra;
  const results = await step.resource.executeWithCache(specs, { ...query, rawSqlValues, eventEmitter } as Query);
  const rows = results.values[0]!;
  const first = unaryOf(details, step.firstStepId) as number | null;
  const hasNextPage = step.fetchOneExtra && first !== null && rows.length > first;
  return [{ ...empty, items: hasNextPage ? rows.slice(0, first) : rows, hasNextPage }];
}

async function buildPage(
  step: Select,
  details: Details,
  execute: Execute,
  pages: Map<string, Built>,
  key: string,
): Promise<Built> {
  const built = await build(step, details, execute);
  const before = lengthOf(pages);
  keep(pages, key, built);
  listeners.get(step.operationPlan.operation)?.(lengthOf(pages) - before);
  return built;
}

function keep<T>(pages: Map<string, T>, key: string, value: T): void {
  if (pages.size >= MAX_PAGES && !pages.has(key)) pages.clear();
  pages.set(key, value);
}

function parameterOf({ dependencyIndex, codec, alreadyEncoded }: Placeholder, { values }: Details): unknown {
  const value = values[dependencyIndex]!.at(0);
  if (value === null || value === undefined) return null;
  return alreadyEncoded ? value : codec.toPg(value);
}

/** Lets PostGraphile build the SQL with a mark for each placeholder, and finds the marks among the values. */
async function build(step: Select, details: Details, execute: Execute): Promise<Built> {
  const marks = step.placeholders.map(() => ({}));
  const marked = step.placeholders.map((placeholder, i) => ({
    ...placeholder,
    dependencyIndex: details.values.length + i,
    alreadyEncoded: true,
  }));
  const values = [...details.values, ...marks.map((mark) => ({ isBatch: false, at: () => mark }))];
  let query: Query | undefined;
  const resource = Object.create(step.resource, {
    executeWithCache: {
      value: async (_: unknown, { eventEmitter: _emitter, ...built }: Query & { eventEmitter: unknown }) => {
        query = built;
        return { values: [[]] };
      },
    },
  });
  const recorded = Object.create(step, { placeholders: { value: marked }, resource: { value: resource } });
  const [empty] = await execute.call(recorded, { ...details, values } as unknown as Details);
  const placeholders = query!.rawSqlValues.map((value) => step.placeholders[marks.indexOf(value as object)] ?? null);
  return { query: query!, placeholders, empty: empty as SelectResult };
}

/** Makes a step return the same function for the same page. */
function keepApply(step: InlineApply): void {
  const { execute } = step;
  const pages = new Map<string, readonly Apply[]>();
  step.execute = (details) => {
    const key = details.count === 1 ? keyOf(step, details) : null;
    if (key === null) return execute.call(step, details);
    const known = pages.get(key);
    if (known) return known;
    const made = execute.call(step, { ...details, values: valuesOf(step, details) } as Details);
    keep(pages, key, made);
    return made;
  };
}

/** The values that the step reads, without those of the request. */
function valuesOf(
  { firstStepId, lastStepId, offsetStepId, afterStepId, beforeStepId, applyDepIds }: Paged,
  details: Details,
) {
  const values: unknown[] = [];
  for (const id of [firstStepId, lastStepId, offsetStepId, afterStepId, beforeStepId, ...applyDepIds]) {
    if (id !== null) values[id] = details.values[id];
  }
  return values;
}

/**
 * The page, and what the arguments add to the SQL. Null if that may differ with each request, or if the page does not begin at the
 * start. A function that a step has had before adds the same again.
 */
function keyOf(step: Paged, details: Details): string | null {
  const first = unaryOf(details, step.firstStepId);
  if (first === 0) return null;
  for (const id of [step.lastStepId, step.afterStepId, step.beforeStepId]) {
    if (unaryOf(details, id) !== null) return null;
  }
  let key = `${first} ${unaryOf(details, step.offsetStepId)}`;
  for (const id of step.applyDepIds) {
    const apply = unaryOf(details, id);
    if (apply === null) {
      key += " -";
    } else if (typeof apply !== "function") {
      return null;
    } else {
      const number = numberOf(step, apply as Apply);
      if (number === null) return null;
      key += ` ${number}`;
    }
  }
  return key;
}

const numbers = new WeakMap<Apply, number>();
const known = new WeakMap<Paged, WeakSet<Apply>>();
let lastNumber = 0;

/** A number for the function; null if the step has it for the first time. */
function numberOf(step: Paged, apply: Apply): number | null {
  const ofStep = known.get(step) ?? new WeakSet();
  known.set(step, ofStep);
  if (!ofStep.has(apply)) {
    ofStep.add(apply);
    return null;
  }
  const number = numbers.get(apply) ?? ++lastNumber;
  numbers.set(apply, number);
  return number;
}

const unaryOf = ({ values }: Details, id: number | null): unknown =>
  id === null ? null : (values[id]!.unaryValue() ?? null);
