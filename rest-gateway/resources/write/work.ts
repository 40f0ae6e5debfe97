import { finish, type Sql, sql, type Written } from "../../sql.ts";
import type { ResourceRequest } from "../request.ts";
import { value } from "./conditions.ts";
import { writeInsert } from "./insert.ts";
import { writePage } from "./list.ts";
import { writeFields } from "./record.ts";

/** The same work for a task, which keeps what it gives; `task` is the index of its id in the values. */
export function writeWork(request: ResourceRequest, task: number): Written {
  const { resource, selection, style, operation } = request;
  if (operation.kind === "list") return finish(sql`${keep(task)} from (${writePage(request, operation)}) as r`);
  if (operation.kind !== "create") throw new TypeError(`${operation.kind} is no work for a task`);
  const fields = writeFields(resource, selection, style);
  return finish(
    sql`with written as (${writeInsert(request, operation, false)}) ${keep(task)} from (select ${fields} from written as t) as r`,
  );
}

const keep = (task: number): Sql =>
  sql`select tasks.keep_result(${value(task)}::uuid, coalesce(pg_catalog.json_agg(r), '[]'::json))::text`;
