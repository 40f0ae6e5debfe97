import { finish, type Sql, sql, type Written } from "../../sql.ts";
import type { ResourceRequest } from "../request.ts";
import { value } from "./conditions.ts";
import { writeInsert } from "./insert.ts";
import { writeFrom, writeOrder } from "./list.ts";
import { columnOf, fieldsReadBy, ROW, writeFields } from "./record.ts";
import type { Of } from "./statement.ts";

/** Makes records and keeps them for the task; `task` is the index of its id in the values. */
export function writeImport(request: ResourceRequest, operation: Of<"create">, task: number): Written {
  const { resource, selection, style } = request;
  const fields = writeFields(resource, selection, style);
  const part = sql`coalesce(pg_catalog.json_agg(r), '[]'::json)`;
  return finish(
    sql`with written as (${writeInsert(request, operation, false)}) select ${keep(task, part)} from (select ${fields} from written as t) as r`,
  );
}

/** How many records a list has. */
export const writeCount = (request: ResourceRequest, operation: Of<"list">): Written =>
  finish(sql`select count(*)::text from ${writeFrom(request, operation)}`);

/** Keeps a part without records: what has parts beside it is a list, however few they are. */
export const writeNoRecords = (task: number): Written => finish(sql`select ${keep(task, sql`'[]'::json`)}`);

/** A cursor with a row for each page of a list, which is read and kept when that row is fetched. */
export function writePages(request: ResourceRequest, operation: Of<"list">, task: number, pageSize: number): Written {
  const { resource, selection, style } = request;
  const row = sql.trusted(ROW);
  const columns = fieldsReadBy(resource, selection).map((field) => columnOf(field));
  const place = sql`row_number() over (order by ${writeOrder(operation.order)}) as ${PLACE}`;
  const placed = sql`select ${sql.join([...columns, place], ", ")} from ${writeFrom(request, operation)}`;
  const page = sql`(${row}.${PLACE} - 1) / ${sql.integer(pageSize)}`;
  // In the aggregate, and not in from: so a record is written when its page is, and not before the rows are sorted.
  const record = sql`(select pg_catalog.row_to_json(r) from (select ${writeFields(resource, selection, style)}) as r)`;
  // An order in it keeps Postgres from hashing, which would need all rows before the first page.
  const part = sql`pg_catalog.json_agg(${record} order by ${row}.${PLACE})`;
  const pages = sql`select ${keep(task, part)} from (${placed}) as ${row} group by ${page} order by ${page}`;
  // Without a hold Postgres wants a BEGIN before it.
  return finish(sql`declare pages no scroll cursor with hold for ${pages}`);
}

/** No column is called so. */
const PLACE = sql.identifier("place in the list");

export const FETCH_PAGE: Written = finish(sql`fetch 1 from pages`);
export const FETCH_REST: Written = finish(sql`fetch all from pages`);
/** Before the end of the transaction, so that nothing is held. */
export const CLOSE_PAGES: Written = finish(sql`close pages`);

const keep = (task: number, part: Sql): Sql => sql`tasks.keep_result(${value(task)}::uuid, ${part})::text`;
