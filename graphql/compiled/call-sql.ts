import type { PgCodec } from "postgraphile/@dataplan/pg";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { guardOf } from "../../plugins/shape/row-guards.ts";
import { markText } from "./column-json.ts";
import type { Call, Member } from "./query-members.ts";

// A mutation is two statements of one transaction: one writes, the next one reads the record that it returns with what belongs to it. A
// single statement would not see what it writes.

/** Holds the record as text, behind the versions of its types, until the end of the transaction. */
const SETTING = sql.literal("content_service.result");

/** Keeps the record of the statement that writes; nothing if it is NULL. */
export const keepRecord =
  (call: Call) =>
  (record: SQL): SQL =>
    sql`pg_catalog.set_config(${SETTING}, pg_catalog.concat(${versionsOf(call)}, ${record}::text), true)`;

/** The record that is kept. If one of its types has changed since, the text `changed` takes its place, which no type accepts: the statement fails. */
export function keptRecord(call: Call): SQL {
  const kept = sql`select current_setting(${SETTING}) as text, ${versionsOf(call)} as versions offset 0`;
  const text = sql`case when starts_with(text, versions) then substr(text, length(versions) + 1) else 'changed' end`;
  return sql`select nullif(${text}, '')::${call.source.codec.sqlType} as record from (${kept}) as kept offset 0`;
}

/** Fails if the JSON has a value that only Grafast can write, so that nothing has been written when Grafast calls the function. */
export function unlessMarked(statement: SQL): SQL {
  const marks = sql`strpos(j::text, ${markText})`;
  return sql`select case when ${marks} = 0 then j else (1 / (${marks} * 0))::text::json end\nfrom (${statement}) as s(j)`;
}

function versionsOf({ source, members }: Call): SQL {
  const codecs = [...new Set([source.codec, ...recordsIn(members)])];
  return sql`pg_catalog.concat(${sql.join(
    codecs.map((codec) => sql`${guardOf(codec)}, ' '`),
    ", ",
  )})`;
}

const recordsIn = (members: readonly Member[]): PgCodec[] =>
  members.flatMap((member) => {
    if (member.kind === "record") return [member.source.codec, ...recordsIn(member.members)];
    return member.kind === "row" ? recordsIn(member.members) : [];
  });
