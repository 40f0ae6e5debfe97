import type { Catalog } from "../../../db/catalog/catalog.ts";
import { embedFilterNeedsNull } from "../problem.ts";
import type { Condition, Filter } from "../request.ts";
import { planField } from "./fields.ts";
import type { ConditionPlan, EmbedPlan, RowSource } from "./plan.ts";

/** What conditions may speak of: the columns of the rows, and the relations that are embedded in them. */
type Scope = {
  readonly catalog: Catalog;
  readonly source: RowSource;
  /** What errors call the rows. */
  readonly name: string;
  readonly embeds: readonly EmbedPlan[];
};

export const planConditions = (conditions: readonly Condition[], scope: Scope): ConditionPlan[] =>
  conditions.map((condition) => {
    if (condition.kind === "filter") return planFilter(condition, scope);
    const { operator, isNegated } = condition;
    return { kind: "logic", operator, isNegated, conditions: planConditions(condition.conditions, scope) };
  });

function planFilter(filter: Filter, scope: Scope): ConditionPlan {
  const embed = filter.field.path.length === 0 && scope.embeds.find(({ name }) => name === filter.field.name);
  if (embed) return planExistence(filter, embed);
  const field = planField(scope.source, scope.name, filter.field);
  const { isNegated, operator, quantifier, language, value } = filter;
  if (operator === "is") return { kind: "is", field, isNegated, keyword: filter.keyword! };
  return { kind: "compare", field, isNegated, operator, quantifier, language, value };
}

/** `author=is.null`: there is no author; `author=not.is.null`: there is one. */
function planExistence({ operator, keyword, isNegated }: Filter, embed: EmbedPlan): ConditionPlan {
  if (operator !== "is" || (keyword !== "null" && keyword !== "not_null")) throw embedFilterNeedsNull(embed.name);
  return { kind: "exists", embed, isNegated: (keyword === "null") !== isNegated };
}
