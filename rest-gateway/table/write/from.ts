import type { ColumnPairs, TableName } from "../../../db/catalog/catalog.ts";
import { type Sql, sql } from "../../sql.ts";
import type { EmbedPlan } from "../plan.ts";
import type { Scope } from "./values.ts";

/** A FROM item, and the condition that joins it. */
export type From = { readonly item: Sql; readonly scope: Scope; readonly join: Sql | null };

/** Unique aliases for the tables of a statement: t, t1, t2 … */
export class Aliases {
  #next = 0;
  scope(): Scope {
    const alias = sql.trusted(this.#next === 0 ? "t" : `t${this.#next}`);
    this.#next++;
    return { alias, row: sql`${alias}.*` };
  }
}

export const tableAs = ({ schema, name }: TableName, { alias }: Scope): Sql =>
  sql`${sql.identifier(schema, name)} as ${alias}`;

export function fromTable(table: TableName, aliases: Aliases): From {
  const scope = aliases.scope();
  return { item: tableAs(table, scope), scope, join: null };
}

/** The rows of a relation that belong to a row of `outer`. */
export function fromRelation({ relationship, target }: EmbedPlan, outer: Scope, aliases: Aliases): From {
  const scope = aliases.scope();
  if (relationship.kind === "computed") {
    const { schema, name } = relationship.function;
    return { item: sql`${sql.identifier(schema, name)}(${outer.row}) as ${scope.alias}`, scope, join: null };
  }
  const table = tableAs(target, scope);
  if (relationship.kind !== "many-to-many")
    return { item: table, scope, join: equal(relationship.columns, outer, scope) };

  const junction = aliases.scope();
  const { source, further } = relationship;
  const between = equal(further.columns, junction, scope);
  const item = sql`${tableAs(relationship.junction, junction)} join ${table} on ${between}`;
  return { item, scope, join: equal(source.columns, outer, junction) };
}

const equal = (pairs: ColumnPairs, from: Scope, to: Scope): Sql =>
  sql.join(
    pairs.map(([here, there]) => sql`${to.alias}.${sql.identifier(there)} = ${from.alias}.${sql.identifier(here)}`),
    " and ",
  );
