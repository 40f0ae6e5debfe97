import { LIST_TYPES, type PgCodec, TYPES } from "postgraphile/@dataplan/pg";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { parseExactly } from "../../db/exact-numbers.ts";

type Write = (value: SQL) => SQL;

/** The text that `to_json` writes, in any DateStyle: `infinity`, `0044-03-15 BC`, `AB    ` of a char(6). */
const asJson: Write = (value) => sql`(to_json(${value}) #>> '{}')`;

/** `2026-11-20T08:30:00.123456Z`, `infinity`, `0044-03-15T12:00:00Z BC`, in any session time zone. */
const inUtc: Write = (value) =>
  sql`replace(replace(${asJson(sql`(${value}) at time zone 'utc'`)} || 'Z', 'yZ', 'y'), ' BCZ', 'Z BC')`;

const time: Write = (value) =>
  sql`(case ${value} when '24:00' then '24:00:00.000000' else to_char(date '1970-01-01' + ${value}, 'HH24:MI:SS.US') end)`;

const listOf =
  (write: Write): Write =>
  (values) => {
    const item = sql.identifier(Symbol("item"));
    return sql`(case when ${values} is not null then array(select ${write(item)} from unnest(${values}) as ${item})::text end)`;
  };

const WRITTEN: readonly (readonly [codec: PgCodec, list: PgCodec, write: Write])[] = [
  [TYPES.bpchar, LIST_TYPES.bpchar, asJson],
  [TYPES.date, LIST_TYPES.date, asJson],
  [TYPES.timestamp, LIST_TYPES.timestamp, asJson],
  [TYPES.timestamptz, LIST_TYPES.timestamptz, inUtc],
  [TYPES.time, LIST_TYPES.time, time],
];

for (const [codec, list, write] of WRITTEN) {
  Object.assign(codec, { castFromPg: write, listCastFromPg: listOf(write) });
  Object.assign(list, { castFromPg: listOf(write) });
}
for (const codec of [TYPES.json, TYPES.jsonb]) Object.assign(codec, { fromPg: parseExactly });

/**
 * Values leave the database as they are there. PostGraphile's own formats make infinity null and a NULL range one without bounds,
 * drop the era, and trim char(n) where it is part of an array; its numbers in JSON have the 15 digits of JavaScript. The codecs are
 * those of all schemas of the process; domains, arrays and ranges take theirs from them.
 */
export const ExactValuesPlugin: GraphileConfig.Plugin = {
  name: "ExactValuesPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      pgCodecs_PgCodec(_info, { pgCodec }) {
        const write = pgCodec.rangeOfCodec && pgCodec.castFromPg;
        if (!write) return;
        const castFromPg: Write = (value) => sql`(case when ${value} is not null then ${write(value)} end)`;
        Object.assign(pgCodec, { castFromPg, listCastFromPg: listOf(castFromPg) });
      },
    },
  },
};
