import { type Sql, sql } from "../../sql.ts";
import type { OrderTerm, ResourceRequest } from "../request.ts";
import { writeCondition, writeParentCondition, writeParentExists, writeSearch, writeWhere } from "./conditions.ts";
import { columnOf, ROW, tableOf, writeFields } from "./record.ts";
import type { Of } from "./statement.ts";

/** The list as JSON; the total is counted only where the page does not tell it. */
export function writeList(request: ResourceRequest, operation: Of<"list">): Sql {
  const { parent, paging } = operation;
  const { limit, offset } = paging;
  const counted = sql`(select count(*) from ${writeFrom(request, operation)})`;
  const total =
    limit === null
      ? sql`count(*)`
      : sql`case when count(*) < ${sql.integer(limit)} and (count(*) > 0 or ${sql.trusted(String(offset === 0))}) then ${sql.integer(offset)} + count(*) else ${counted} end`;
  const state = parent ? sql`case when ${writeParentExists(parent)} then 'done' else 'missing' end` : sql`'done'`;
  return sql`select ${state}, coalesce(pg_catalog.json_agg(r), '[]'::json), null::text, null::text, null::text, (${total})::text from (${writePage(request, operation)}) as r`;
}

/** The records themselves, in their order. */
function writePage(request: ResourceRequest, operation: Of<"list">): Sql {
  const { resource, selection, style } = request;
  const { limit, offset } = operation.paging;
  const part = limit === null ? sql.empty : sql` limit ${sql.integer(limit)} offset ${sql.integer(offset)}`;
  return sql`select ${writeFields(resource, selection, style)} from ${writeFrom(request, operation)} order by ${writeOrder(operation.order)}${part}`;
}

/** All that the filters leave. */
export function writeFrom({ resource }: ResourceRequest, { parent, conditions, keyword }: Of<"list">): Sql {
  const where = writeWhere([
    ...(parent ? [writeParentCondition(resource, parent)] : []),
    ...conditions.map(writeCondition),
    ...(keyword === null ? [] : [writeSearch(resource, keyword)]),
  ]);
  return sql`${tableOf(resource)} as ${sql.trusted(ROW)}${where}`;
}

export function writeOrder(order: readonly OrderTerm[]): Sql {
  const terms = order.map(({ field, direction }) => {
    const nulls = field.column.isNullable ? sql` nulls last` : sql.empty;
    return sql`${columnOf(field)} ${sql.trusted(direction)}${nulls}`;
  });
  return sql.join(terms, ", ");
}
