import {
  isEnumCodec,
  type PgCodec,
  type PgCodecRelation,
  type PgResource,
  type PgSelectQueryBuilder,
  TYPES,
} from "postgraphile/@dataplan/pg";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { hasExtra } from "../shape/TableExtrasPlugin.ts";
import { type OrderOf, orderOfColumn } from "./order.ts";

type Table = PgResource<any, any, any, any, any>;
type Relation = PgCodecRelation<any, any>;
type Query = PgSelectQueryBuilder;
/** What a value of the enum orders by: a column, or SQL with its type. */
type Target =
  | { readonly table: PgCodec; readonly attribute: string }
  | { readonly codec: PgCodec; expression(query: Query): SQL };
type Orders = { [name: string]: { extensions: { orders: readonly OrderOf[] } } };

const AGGREGATES = { SUM: sql`sum`, AVERAGE: sql`avg`, MIN: sql`min`, MAX: sql`max` } as const;
const NUMBERS: ReadonlySet<PgCodec> = new Set<PgCodec>([
  TYPES.int2,
  TYPES.int,
  TYPES.bigint,
  TYPES.float4,
  TYPES.float,
  TYPES.numeric,
]);

/**
 * `orderBy: [TITLE_ASC, ID_DESC]`: by columns, by columns of a referenced row (`AUTHOR__NAME_ASC`), by aggregates of referring
 * rows whose table has aggregates (`COMMENTS__COUNT_DESC`, `COMMENTS__MAX_CREATED_AT_DESC`), and by all columns of the primary key. Where a value can be
 * null, `_NULLS_FIRST` and `_NULLS_LAST` place it. Replaces PostGraphile's values, which take the first column of a composite
 * key for unique, so that cursors would skip rows.
 */
export const OrderByPlugin: GraphileConfig.Plugin = {
  name: "OrderByPlugin",
  version: "1.0.0",
  after: ["PgConnectionArgOrderByPlugin"],
  schema: {
    entityBehavior: {
      pgResource: {
        inferred: {
          after: ["inferred"],
          callback: (behavior, { parameters, isUnique, codec }) =>
            parameters && !isUnique && codec.attributes ? [behavior, "order"] : behavior,
        },
      },
      pgCodecAttribute: {
        inferred: {
          // PostGraphile leaves out enums. They are added before the rules about indexes and GRANTs, so that they apply to enums too.
          after: ["inferred"],
          before: ["postInferred"],
          callback: (behavior, [codec, attribute]) =>
            isEnumCodec(codec.attributes[attribute]!.codec) ? [behavior, "attribute:orderBy"] : behavior,
        },
      },
    },
    hooks: {
      GraphQLEnumType_values(values, build, { scope }) {
        const codec = scope.pgCodec;
        if (!scope.isPgRowSortEnum || !codec?.attributes) return values;
        const table = build.pgTableResource(codec as any) as Table | null;
        const added = { ...ordersOfColumns(build, codec), ...(table && ordersOfTable(build, table)) };
        return build.extend(values, added, `Adding orders of ${codec.name}`);
      },
    },
  },
};

function ordersOfTable(build: GraphileBuild.Build, table: Table): Orders {
  const primary = table.uniques.find((unique: { isPrimary?: boolean }) => unique.isPrimary);
  const relations = Object.entries<Relation>(table.getRelations());
  return Object.assign(
    {},
    primary && ordersOfKey(table.codec, primary.attributes),
    ...relations.map(([name, relation]) =>
      relation.isUnique
        ? ordersOfReferenced(build, table, name, relation)
        : ordersOfReferring(build, table, name, relation),
    ),
  );
}

function ordersOfColumns(build: GraphileBuild.Build, codec: PgCodec): Orders {
  const columns = sortableColumns(build, codec);
  return Object.assign(
    {},
    ...columns.map(([name, attribute]) => orders(name, { table: codec, attribute }, canBeNull(codec, attribute))),
  );
}

const ordersOfKey = (codec: PgCodec, attributes: readonly string[]): Orders =>
  Object.fromEntries(
    (["ASC", "DESC"] as const).map((direction) => [
      `PRIMARY_KEY_${direction}`,
      { extensions: { orders: attributes.map((attribute) => orderOfColumn(codec, { attribute, direction })) } },
    ]),
  );

/** By the columns of the one row that a foreign key references. A policy may hide that row, so they can be null. */
function ordersOfReferenced(
  build: GraphileBuild.Build,
  table: Table,
  relationName: string,
  relation: Relation,
): Orders {
  if (!isUsable(build, relation) || relation.isReferencee) return {};
  const remote = relation.remoteResource.codec as PgCodec;
  const fieldName = build.inflection.singleRelation({ registry: table.registry, codec: table.codec, relationName });
  return Object.assign(
    {},
    ...sortableColumns(build, remote).map(([name, attribute]) =>
      orders(
        `${build.inflection.constantCase(fieldName)}__${name}`,
        {
          codec: remote.attributes![attribute]!.codec,
          expression: (query) => sql`${query.singleRelation(relationName)}.${sql.identifier(attribute)}`,
        },
        true,
        false,
      ),
    ),
  );
}

/** By the number of rows that refer to a row, and by aggregates of their columns. */
function ordersOfReferring(build: GraphileBuild.Build, table: Table, relationName: string, relation: Relation): Orders {
  if (
    !isUsable(build, relation) ||
    !hasExtra(build, relation.remoteResource, "aggregates") ||
    !build.behavior.pgCodecRelationMatches(relation as any, "manyRelation:resource:list")
  )
    return {};
  const remote = relation.remoteResource.codec as PgCodec;
  const prefix = build.inflection.constantCase(
    build.inflection._manyRelation({ registry: table.registry, codec: table.codec, relationName }),
  );
  const subquery = (aggregate: (row: SQL) => SQL) => (query: Query) => aggregateOfRelation(query, relation, aggregate);
  const count = { codec: TYPES.bigint, expression: subquery(() => sql`count(*)`) };
  return Object.assign(
    {},
    orders(`${prefix}__COUNT`, count, false),
    ...sortableColumns(build, remote).flatMap(([name, attribute]) => {
      const { codec } = remote.attributes![attribute]!;
      const names = Object.keys(AGGREGATES) as (keyof typeof AGGREGATES)[];
      return names
        .filter((aggregate) => canAggregate(aggregate, codec))
        .map((aggregate) =>
          orders(
            `${prefix}__${aggregate}_${name}`,
            {
              codec: aggregate === "SUM" || aggregate === "AVERAGE" ? TYPES.numeric : codec,
              expression: subquery((row) => sql`${AGGREGATES[aggregate]}(${row}.${sql.identifier(attribute)})`),
            },
            true,
          ),
        );
    }),
  );
}

function canAggregate(aggregate: keyof typeof AGGREGATES, codec: PgCodec): boolean {
  if (aggregate === "SUM" || aggregate === "AVERAGE") return NUMBERS.has(codec);
  // Postgres has no min and max for the others.
  return (
    NUMBERS.has(codec) ||
    [TYPES.text, TYPES.varchar, TYPES.date, TYPES.timestamp, TYPES.timestamptz].includes(codec as any)
  );
}

function aggregateOfRelation(query: Query, relation: Relation, aggregate: (row: SQL) => SQL): SQL {
  const row = sql.identifier(Symbol(relation.remoteResource.name));
  const conditions = (relation.localAttributes as readonly string[]).map(
    (attribute, i) =>
      sql`${row}.${sql.identifier(String(relation.remoteAttributes[i]))} = ${query.alias}.${sql.identifier(attribute)}`,
  );
  return sql`(select ${aggregate(row)} from ${relation.remoteResource.from as SQL} as ${row} where ${sql.join(conditions, " and ")})`;
}

/** Whether the related rows are a table or view that the schema shows. */
const isUsable = (build: GraphileBuild.Build, { remoteResource }: Relation): boolean =>
  typeof remoteResource.from !== "function" &&
  build.behavior.pgResourceMatches(remoteResource as any, "order") === true;

/** `[["CREATED_AT", "created_at"]]` */
const sortableColumns = (build: GraphileBuild.Build, codec: PgCodec): [name: string, attribute: string][] =>
  Object.keys(codec.attributes!)
    .filter((attribute) => build.behavior.pgCodecAttributeMatches([codec as any, attribute], "attribute:orderBy"))
    .map((attributeName) => [
      build.inflection.constantCase(build.inflection._attributeName({ codec: codec as any, attributeName })),
      attributeName,
    ]);

function canBeNull(codec: PgCodec, attribute: string): boolean {
  const { notNull, codec: type } = codec.attributes![attribute]!;
  return !notNull && !type.notNull;
}

/** `nullable` is whether the value can be null, `placesNulls` whether there are values of the enum that place nulls. */
function orders(name: string, target: Target, nullable: boolean, placesNulls = nullable): Orders {
  const by = (direction: "ASC" | "DESC", nulls?: "FIRST" | "LAST") => {
    const place = { direction, ...(nulls && { nulls }) };
    const order: OrderOf =
      "attribute" in target
        ? orderOfColumn(target.table, { attribute: target.attribute, ...place })
        : (query) => ({ fragment: target.expression(query), codec: target.codec, nullable, ...place });
    return { extensions: { orders: [order] } };
  };
  return {
    [`${name}_ASC`]: by("ASC"),
    [`${name}_DESC`]: by("DESC"),
    ...(placesNulls && {
      [`${name}_ASC_NULLS_FIRST`]: by("ASC", "FIRST"),
      [`${name}_DESC_NULLS_LAST`]: by("DESC", "LAST"),
    }),
  };
}
