import { type Sql, sql } from "../../sql.ts";
import type { ResourceRequest } from "../request.ts";
import type { Resource, ResourceField } from "../resource.ts";
import { value, writeParentExists, writeWhere } from "./conditions.ts";
import { columnOf, ROW, tableOf, versionOf, writeText } from "./record.ts";
import type { Of } from "./statement.ts";

/**
 * `insert … returning`: the rows, each with its version. With `looksForParent` it inserts nothing where that is not there;
 * otherwise the foreign key refuses.
 */
export function writeInsert(
  { resource }: ResourceRequest,
  { parent, fields, isMany, body }: Of<"create">,
  looksForParent: boolean,
): Sql {
  const given = parent ? [resource.fieldNamed.get(parent.collection.field)!] : [];
  const names = [...fields, ...given].map((field) => sql.identifier(field.column.name));
  const inputs = [
    ...fields.map((field) => (isMany ? inputOrDefault(field) : columnOf(field, "input"))),
    ...(parent ? [sql`${value(parent.id)}::${sql.trusted(given[0]!.column.type)}`] : []),
  ];
  const where = parent && looksForParent ? writeWhere([writeParentExists(parent)]) : sql.empty;
  const into = sql`insert into ${tableOf(resource)} as ${sql.trusted(ROW)}`;
  const columns = names.length === 0 ? sql.empty : sql`(${sql.join(names, ", ")}) `;
  const rows = sql`select ${sql.join(inputs, ", ")} from ${inputOf(resource, body, isMany)}${where}`;
  return sql`${into} ${columns}${rows} returning ${sql.trusted(ROW)}.*, ${versionOf(resource)} as xmin`;
}

/** In a list a record may leave out what others have. */
function inputOrDefault(field: ResourceField): Sql {
  const { name, defaultExpression } = field.column;
  const input = columnOf(field, "input");
  if (defaultExpression === null) return input;
  return sql`case when sent.record -> ${writeText(name)} is null then ${sql.trusted(defaultExpression)} else ${input} end`;
}

/** The body as rows of the table; of a list each stands beside the object that it is made of. */
export function inputOf(resource: Resource, body: number, isMany: boolean): Sql {
  const row = (json: Sql) => sql`pg_catalog.json_populate_record(null::${tableOf(resource)}, ${json}) as input`;
  const json = sql`${value(body)}::json`;
  return isMany ? sql`pg_catalog.json_array_elements(${json}) as sent (record), ${row(sql`sent.record`)}` : row(json);
}
