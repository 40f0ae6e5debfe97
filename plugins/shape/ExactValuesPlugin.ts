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

/** `1_0_2_3_4_-5.678901`: years, months, days, hours, minutes, seconds. The formats of `to_char` lose the signs of fractions. */
const interval: Write = (value) => {
  const part = (extracted: SQL) => sql`coalesce(${extracted}, 0)`;
  return sql`(case when ${value} is not null then concat_ws('_',
  ${part(sql`extract(year from ${value})`)}, ${part(sql`extract(month from ${value})`)}, ${part(sql`extract(day from ${value})`)},
  ${part(sql`extract(hour from ${value})`)}, ${part(sql`extract(minute from ${value})`)}, ${part(sql`extract(second from ${value})`)}) end)`;
};

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
  [TYPES.timetz, LIST_TYPES.timetz, asJson],
  [TYPES.interval, LIST_TYPES.interval, interval],
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
