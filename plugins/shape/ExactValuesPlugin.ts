import { LIST_TYPES, type PgCodec, TYPES } from "postgraphile/@dataplan/pg";
import { flagError, SafeError } from "postgraphile/grafast";
import { GraphQLError } from "postgraphile/graphql";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { parseExactly } from "../../db/exact-numbers.ts";
import { elementsOf, writeArray } from "../../db/wire/array-text.ts";

type Write = (value: SQL) => SQL;

/** The text that `to_json` writes, in any DateStyle: `infinity`, `0044-03-15 BC`, `AB    ` of a char(6). */
const asJson: Write = (value) => sql`(to_json(${value}) #>> '{}')`;

/** `2026-11-20T08:30:00.123456Z`, `infinity`, `0044-03-15T12:00:00Z BC`, in any session time zone. */
const inUtc: Write = (value) =>
  sql`replace(replace(${asJson(sql`(${value}) at time zone 'utc'`)} || 'Z', 'yZ', 'y'), ' BCZ', 'Z BC')`;

const time: Write = (value) =>
  sql`(case ${value} when '24:00' then '24:00:00.000000' else to_char(date '1970-01-01' + ${value}, 'HH24:MI:SS.US') end)`;

/**
 * `1_0_2_3_4_-5.678901`: years, months, days, hours, minutes, seconds. The formats of `to_char` lose the signs of fractions. `infinity`,
 * since PostgreSQL 17, stays as it is.
 */
const interval: Write = (value) => {
  const part = (extracted: SQL) => sql`coalesce(${extracted}, 0)`;
  return sql`(case when not isfinite(${value}) then ${value}::text when ${value} is not null then concat_ws('_',
  ${part(sql`extract(year from ${value})`)}, ${part(sql`extract(month from ${value})`)}, ${part(sql`extract(day from ${value})`)},
  ${part(sql`extract(hour from ${value})`)}, ${part(sql`extract(minute from ${value})`)}, ${part(sql`extract(second from ${value})`)}) end)`;
};

const listOf =
  (write: Write): Write =>
  (values) => {
    const item = sql.identifier(Symbol("item"));
    return sql`(case when array_ndims(${values}) > 1 then ${values}::text
      when ${values} is not null then array(select ${write(item)} from unnest(${values}) as ${item})::text end)`;
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
/** A form in which values are read; also in arrays. */
function readAs(codec: PgCodec, list: PgCodec, read: (text: string) => unknown): void {
  Object.assign(codec, { fromPg: read });
  Object.assign(list, {
    fromPg: (text: string) => elementsOf(text).map((item) => (item === null ? null : read(item))),
  });
}
readAs(TYPES.json, LIST_TYPES.json, parseExactly);
readAs(TYPES.jsonb, LIST_TYPES.jsonb, parseExactly);

/** Two points of the line Ax + By + C = 0. PostGraphile's own are one point if it contains (0, 0), and others if it is vertical. */
function pointsOfLine(text: string) {
  const [a, b, c] = text.slice(1, -1).split(",").map(Number) as [number, number, number];
  const at = (x: number) => ({ x, y: -(a * x + c) / b });
  return b === 0 ? { a: { x: -c / a, y: 0 }, b: { x: -c / a, y: 1 } } : { a: at(0), b: at(1) };
}
readAs(TYPES.line, LIST_TYPES.line, pointsOfLine);

type Interval = { readonly seconds?: number | string | null };
const { fromPg: partsOf, toPg: writeParts } = TYPES.interval as any;
const INFINITIES: Readonly<Record<string, string>> = { infinity: "Infinity", "-infinity": "-Infinity" };

/** An infinite interval has infinitely many seconds: the other fields are integers. */
function partsOfInterval(text: string) {
  const seconds = INFINITIES[text];
  return seconds === undefined ? partsOf(text) : { years: 0, months: 0, days: 0, hours: 0, minutes: 0, seconds };
}
const writeInterval = (interval: Interval): string =>
  Object.keys(INFINITIES).find((text) => INFINITIES[text] === interval.seconds) ?? writeParts(interval);
readAs(TYPES.interval, LIST_TYPES.interval, partsOfInterval);
Object.assign(TYPES.interval, { toPg: writeInterval });
Object.assign(LIST_TYPES.interval, {
  toPg: (list: readonly (Interval | null)[]) => writeArray(list.map((item) => item && writeInterval(item))),
});

// Postgres has no `=` for points.
Object.assign(TYPES.point, { hasNaturalEquality: false });

/** `{{1,2},{3,4}}`, `[0:0][1:2]={{1,2}}` */
const SEVERAL_DIMENSIONS = /^(?:\[[^=]*=)?\{\{/;
const oneDimensional = new WeakSet<PgCodec>();

/** A list of GraphQL has one dimension: the others are an error of their field. */
function refuseDimensions(list: PgCodec): void {
  if (oneDimensional.has(list)) return;
  oneDimensional.add(list);
  const { fromPg } = list;
  const read = (text: string) => (SEVERAL_DIMENSIONS.test(text) ? flagError(severalDimensions()) : fromPg(text));
  Object.assign(list, { fromPg: read });
}
const severalDimensions = () =>
  new SafeError(
    "the array has several dimensions, and a list one: read it at /rest/v1, or with a function that returns to_jsonb of it",
    { code: "VALIDATION_ERROR" },
  );
for (const list of Object.values(LIST_TYPES) as PgCodec[]) refuseDimensions(list);

/** What a type cannot read is of another type, which the column has since the schema was built. */
function refuseOtherTypes(codec: PgCodec): void {
  const { fromPg } = codec;
  const read = (text: string) => {
    try {
      return fromPg(text);
    } catch {
      throw new GraphQLError("Column cannot represent a value of another type");
    }
  };
  if (fromPg !== TYPES.text.fromPg) Object.assign(codec, { fromPg: read });
}
for (const codec of [...Object.values(TYPES), ...Object.values(LIST_TYPES)] as PgCodec[]) refuseOtherTypes(codec);

type Range = { readonly start?: unknown; readonly end?: unknown; readonly isEmpty?: boolean | null };

/** `{ start: null, end: null, isEmpty: true }` is the empty range, which is not one without bounds. */
function withEmptyRange(codec: PgCodec): Partial<PgCodec> {
  const { fromPg, toPg, castFromPg } = codec as PgCodec<any, any, any, any, any, any, any>;
  const write: Write = (value) =>
    sql`(case when isempty(${value}) then 'empty' when ${value} is not null then ${castFromPg ? castFromPg(value) : sql`${value}::text`} end)`;
  return {
    castFromPg: write,
    listCastFromPg: listOf(write),
    fromPg: (text: string) =>
      text === "empty" ? { start: null, end: null, isEmpty: true } : { ...fromPg(text), isEmpty: false },
    toPg(range: Range) {
      if (!range.isEmpty) return toPg(range);
      if (range.start == null && range.end == null) return "empty";
      throw new SafeError("an empty range has no bounds: leave out start and end", { code: "VALIDATION_ERROR" });
    },
  } as Partial<PgCodec>;
}

/**
 * Values leave the database as they are there. PostGraphile's own formats make infinity null and a NULL range one without bounds,
 * drop the era, and trim char(n) where it is part of an array; its numbers in JSON have the 15 digits of JavaScript. The codecs are
 * those of all schemas of the process; domains, arrays and ranges take theirs from them.
 */
export const ExactValuesPlugin: GraphileConfig.Plugin = {
  name: "ExactValuesPlugin",
  version: "1.0.0",
  before: ["PgCodecsPlugin"],
  gather: {
    hooks: {
      pgCodecs_PgCodec(_info, { pgCodec }) {
        if (pgCodec.rangeOfCodec) Object.assign(pgCodec, withEmptyRange(pgCodec));
        if (pgCodec.arrayOfCodec) refuseDimensions(pgCodec);
        if (pgCodec.rangeOfCodec || pgCodec.arrayOfCodec) refuseOtherTypes(pgCodec);
      },
    },
  },
  schema: {
    hooks: {
      init(_, build) {
        // A Float rounds large amounts.
        build.setGraphQLTypeForPgCodec(TYPES.money, ["input", "output"], build.inflection.builtin("BigFloat"));
        return _;
      },
      GraphQLObjectType_fields(fields, build, { Self }) {
        if (!("start" in fields && rangeTypes(build, "output").has(Self.name))) return fields;
        const type = new build.graphql.GraphQLNonNull(build.graphql.GraphQLBoolean);
        const description = "Whether it contains nothing. Then it has no bounds.";
        return build.extend(fields, { isEmpty: { type, description } }, "Adding isEmpty to a range");
      },
      GraphQLInputObjectType_fields(fields, build, { Self }) {
        if (!("start" in fields && rangeTypes(build, "input").has(Self.name))) return fields;
        const description = "Whether it contains nothing. Then leave out its bounds.";
        return build.extend(
          fields,
          { isEmpty: { type: build.graphql.GraphQLBoolean, description } },
          "Adding isEmpty to a range",
        );
      },
    },
  },
};

/** The names of the types of ranges, and of domains over them. */
const rangeTypes = (build: GraphileBuild.Build, mode: "input" | "output"): ReadonlySet<string | null> =>
  new Set(
    (Object.values(build.pgCodecs) as PgCodec[])
      .filter((codec) => (codec.domainOfCodec ?? codec).rangeOfCodec)
      .map((codec) => build.getGraphQLTypeNameByPgCodec(codec, mode)),
  );
