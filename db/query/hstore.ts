import type { TypeShape } from "../catalog/catalog.ts";
import { type Sql, sql } from "../sql.ts";

export const isHstore = ({ name }: TypeShape): boolean => name === "hstore";

/**
 * Rows show an hstore as an object, so a body may have an object too, or a list of them for an array. Its text is written here, because
 * callers may lack the privilege to execute the function of the extension. A text is one of hstore: `a=>1`.
 */
export const writeHstore = (value: Sql, shape: TypeShape): Sql =>
  shape.isArray ? writeList(value, shape) : writeObject(value, shape);

function writeObject(value: Sql, { schema, name }: TypeShape): Sql {
  const quoted = (text: Sql) => sql`'"' || pg_catalog.regexp_replace(${text}, '(["\\\\])', '\\\\\\1', 'g') || '"'`;
  const pair = sql`${quoted(sql`p.key`)} || '=>' || coalesce(${quoted(sql`p.value`)}, 'NULL')`;
  const pairs = sql`select coalesce(pg_catalog.string_agg(${pair}, ','), '') from pg_catalog.json_each_text(${value}) as p`;
  const text = sql`case when json_typeof(${value}) = 'object' then ${sql.subquery(pairs)} else ${value} #>> '{}' end`;
  return sql`(${text})::${sql.identifier(schema, name)}`;
}

function writeList(values: Sql, shape: TypeShape): Sql {
  const items = sql`select ${writeObject(sql`i.value`, shape)} from json_array_elements(${values}) with ordinality as i (value, n) order by i.n`;
  return sql`case json_typeof(${values}) when 'array' then array(${items}) else (${values} #>> '{}')::${sql.identifier(shape.schema, shape.name)}[] end`;
}
