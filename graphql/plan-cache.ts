import { execute } from "postgraphile/grafast";
import { parse } from "postgraphile/graphql";
import type { BuiltSchema } from "./schema.ts";

/** Plans of one operation, for different values of the variables that its directives and nulls depend on. */
const MAX_PLANS_PER_OPERATION = 4;

/**
 * Lets a plan live as long as its document, which `Documents` remembers by weight. Grafast's own cache counts plans
 * and not what they take: 500 of a thousand fields each are 10 GB, which anybody could ask for.
 */
export function keepPlansWithDocuments({ schema, resolvedPreset }: BuiltSchema): void {
  // Grafast makes its cache when it makes the first plan.
  execute({ schema, document: parse("{ __typename }"), resolvedPreset, middleware: null, contextValue: {} } as never);
  const grafast = schema.extensions.grafast as Record<PropertyKey, unknown>;
  const cache = Object.getOwnPropertySymbols(grafast).find(({ description }) => description === "cacheByOperation");
  if (!cache) throw new Error("this version of Grafast keeps its plans in another place");
  grafast[cache] = new WeakMap();
  grafast.operationOperationPlansCacheMaxLength = MAX_PLANS_PER_OPERATION;
}
