import { isEnumCodec, type PgCodec, type PgResource, TYPES } from "postgraphile/@dataplan/pg";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { hasExtra } from "../../plugins/shape/TableExtrasPlugin.ts";

export type Table = PgResource<any, any, any, any, any>;

/** An aggregate function over one column: `sum` of `amount` is `select sum(amount)`, of type numeric. */
export type Aggregate = {
  readonly name: "sum" | "average" | "min" | "max" | "distinct";
  readonly description: string;
  /** The type of the result, or null if the function does not exist for the type of a column. */
  resultOf(column: PgCodec): PgCodec | null;
  write(column: SQL): SQL;
};

/** One column that a caller may select, and its names: `authorId`, `AUTHOR_ID`. */
export type Column = {
  readonly fieldName: string;
  readonly enumName: string;
  readonly attribute: string;
  readonly codec: PgCodec;
};

/** A value of `groupBy`: a column, or a time truncated to a unit. */
export type Grouping = {
  readonly enumName: string;
  readonly fieldName: string;
  readonly codec: PgCodec;
  write(row: SQL): SQL;
};

const SUMS = new Map<PgCodec, PgCodec>([
  [TYPES.int2, TYPES.bigint],
  [TYPES.int, TYPES.bigint],
  [TYPES.bigint, TYPES.numeric],
  [TYPES.numeric, TYPES.numeric],
  [TYPES.float4, TYPES.float4],
  [TYPES.float, TYPES.float],
  [TYPES.money, TYPES.money],
  [TYPES.interval, TYPES.interval],
]);
const AVERAGES = new Map<PgCodec, PgCodec>([
  [TYPES.int2, TYPES.numeric],
  [TYPES.int, TYPES.numeric],
  [TYPES.bigint, TYPES.numeric],
  [TYPES.numeric, TYPES.numeric],
  [TYPES.float4, TYPES.float],
  [TYPES.float, TYPES.float],
  [TYPES.interval, TYPES.interval],
]);
const TIMES: ReadonlySet<PgCodec> = new Set<PgCodec>([TYPES.date, TYPES.timestamp, TYPES.timestamptz]);
const EXTREMES: ReadonlySet<PgCodec> = new Set<PgCodec>([
  ...SUMS.keys(),
  ...TIMES,
  TYPES.text,
  TYPES.varchar,
  TYPES.citext,
  TYPES.time,
  TYPES.timetz,
  TYPES.inet,
]);

const baseOf = (codec: PgCodec): PgCodec => (codec.domainOfCodec ? baseOf(codec.domainOfCodec) : codec);
/** Ids are numbers or uuids; Postgres has no min and max of uuids. */
const isNumericId = ({ name }: PgCodec) => ["smallintId", "intId", "bigintId"].includes(name);
const extremeOf = (codec: PgCodec) =>
  EXTREMES.has(baseOf(codec)) || isEnumCodec(codec) || isNumericId(codec) ? codec : null;

export const AGGREGATES: readonly Aggregate[] = [
  {
    name: "sum",
    description: "Sums, of numbers and intervals. Null without values.",
    resultOf: (codec) => SUMS.get(baseOf(codec)) ?? null,
    write: (column) => sql`sum(${column})`,
  },
  {
    name: "average",
    description: "Averages, of numbers and intervals. Null without values.",
    resultOf: (codec) => AVERAGES.get(baseOf(codec)) ?? null,
    write: (column) => sql`avg(${column})`,
  },
  {
    name: "min",
    description: "The smallest values. Null without values.",
    resultOf: extremeOf,
    write: (column) => sql`min(${column})`,
  },
  {
    name: "max",
    description: "The largest values. Null without values.",
    resultOf: extremeOf,
    write: (column) => sql`max(${column})`,
  },
  {
    name: "distinct",
    description: "Numbers of distinct values.",
    // Postgres cannot compare json and geometric types.
    resultOf: (codec) =>
      baseOf(codec).hasNaturalEquality === false || baseOf(codec) === TYPES.json ? null : TYPES.bigint,
    write: (column) => sql`count(distinct ${column})`,
  },
];

/** The tables and views that have aggregates. */
export const tablesOf = (build: GraphileBuild.Build): readonly Table[] =>
  (Object.values(build.pgResources) as Table[]).filter(
    (table) =>
      !table.parameters && table.codec.attributes && !table.codec.isAnonymous && hasExtra(build, table, "aggregates"),
  );

/** Cached by the codec of the table, because computing behaviors takes long. Each schema has its own codecs. */
const columnsByCodec = new WeakMap<PgCodec, readonly Column[]>();

/** The columns of a table that a caller may select, foreign keys included. */
export function columnsOf(build: GraphileBuild.Build, { codec }: Table): readonly Column[] {
  const columns = columnsByCodec.get(codec) ?? readColumns(build, codec);
  columnsByCodec.set(codec, columns);
  return columns;
}

function readColumns(build: GraphileBuild.Build, codec: PgCodec<any, any, any, any, any, any, any>): Column[] {
  return Object.entries<any>(codec.attributes)
    .filter(([attributeName, { codec: type, extensions }]) => {
      const isSelectable = build.behavior.pgCodecAttributeMatches([codec, attributeName], "attribute:select");
      const isForeignKey = build.behavior.pgCodecAttributeMatches([codec, attributeName], "attribute:filterBy");
      return (isSelectable || isForeignKey) && extensions?.canSelect !== false && !type.attributes && !type.isAnonymous;
    })
    .map(([attributeName, { codec: type }]) => ({
      fieldName: build.inflection.attribute({ codec, attributeName }),
      enumName: build.inflection.constantCase(build.inflection._attributeName({ codec, attributeName })),
      attribute: attributeName,
      codec: type,
    }));
}

const UNITS = ["hour", "day", "week", "month", "year"] as const;

/** `STATUS`, `CREATED_AT`, `CREATED_AT_DAY`. Times are truncated in UTC. */
export function groupingsOf({ fieldName, enumName, attribute, codec }: Column): Grouping[] {
  const base = baseOf(codec);
  if (codec.arrayOfCodec || base.hasNaturalEquality === false || base === TYPES.json) return [];
  const column = (row: SQL) => sql`${row}.${sql.identifier(attribute)}`;
  const plain: Grouping = { enumName, fieldName, codec, write: column };
  if (!TIMES.has(base)) return [plain];
  const units = UNITS.filter((unit) => base !== TYPES.date || unit !== "hour");
  return [
    plain,
    ...units.map((unit) => ({
      enumName: `${enumName}_${unit.toUpperCase()}`,
      fieldName: `${fieldName}${unit.charAt(0).toUpperCase()}${unit.slice(1)}`,
      codec: base,
      write: (row: SQL) => truncated(column(row), base, unit),
    })),
  ];
}

function truncated(column: SQL, base: PgCodec, unit: string): SQL {
  const name = sql.literal(unit);
  if (base === TYPES.timestamptz) return sql`date_trunc(${name}, ${column}, 'UTC')`;
  return base === TYPES.date
    ? sql`date_trunc(${name}, ${column}::timestamp)::date`
    : sql`date_trunc(${name}, ${column})`;
}
