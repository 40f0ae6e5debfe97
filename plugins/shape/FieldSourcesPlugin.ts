import type { PgCodec, PgCodecRelation, PgResource } from "postgraphile/@dataplan/pg";
import type { GraphQLArgumentConfig, GraphQLField, GraphQLSchema } from "postgraphile/graphql";
import type { SQL } from "postgraphile/pg-sql2";
import type { Cursors } from "../lists/cursor.ts";
import { collectionOrder, type Order } from "../lists/order.ts";
import { isPaged, listOffset, listSize, pageOffset, pageSizes } from "../lists/page.ts";

type Table = PgResource<any, any, any, any, any>;
type Relation = PgCodecRelation<any, any>;
type Arguments = Readonly<Record<string, any>>;

/** What a field reads from the database, for fields that mean the same in every operation. */
export type FieldSource =
  | { readonly kind: "column"; readonly attribute: string; readonly codec: PgCodec }
  | RecordSource
  | RowSource
  | RowsSource
  | CallSource;

/** A column that holds a record, or an array of them. */
export type RecordSource = {
  readonly kind: "record";
  readonly attribute: string;
  /** That of one record. */
  readonly codec: PgCodec;
  readonly isArray: boolean;
};

/** The record that a function which may write returns, or the row that is written. */
export type CallSource = {
  readonly kind: "call";
  readonly codec: PgCodec;
  /** The statement, with its arguments as values. It selects or returns what `keep` makes of the record. May throw. */
  statementOf(schema: GraphQLSchema, args: Arguments, keep: (record: SQL) => SQL): SQL;
  /** The condition that a record, as a row, stands for one. Absent if each does. */
  isRow?(row: SQL): SQL;
};

/** One row: that of a key, or the one that a relation leads to. */
export type RowSource = { readonly kind: "row"; readonly table: Table; readonly from: Key | Relation };

/** A row with these values of a unique key, which are arguments. */
export type Key = { readonly arguments: readonly { name: string; attribute: string; codec: PgCodec }[] };

/** Rows of a table; with a relation those that refer to the row of the parent. */
export type RowsSource = Rows<"list"> | Rows<"connection">;
type Rows<Kind> = {
  readonly kind: Kind;
  readonly table: Table;
  readonly from: Relation | null;
  /** Throws SafeError for arguments that are not valid, as the field does. */
  pageOf(args: Arguments): Page;
};

export type Page = {
  /** The values of the argument. `order` depends on them alone, apart from cursors. */
  readonly orderBy: readonly string[];
  readonly size: number;
  readonly offset: number;
  readonly order: Order;
};

/**
 * Writes down what a field reads, so that an operation of such fields alone can be one statement: columns, the rows of a table,
 * and the rows that a relation leads to. The schema is the same with and without it. A field whose plan another plugin replaces
 * later has none.
 */
export const FieldSourcesPlugin: GraphileConfig.Plugin = {
  name: "FieldSourcesPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType_fields_field: {
        // Those that give these fields their plans.
        after: ["ConnectionShapePlugin", "ListShapePlugin", "RecordColumnsPlugin"],
        callback(field, build, { scope }) {
          const source = columnOf(scope) ?? rowOf(build, scope) ?? rowsOf(build, scope);
          return source ? withSource(field, source) : field;
        },
      },
    },
  },
};

/** The plugin of an application, whose hook runs when fields have their sources: so a plan that it gives a field is known as another one. */
export function afterSources(plugin: GraphileConfig.Plugin): GraphileConfig.Plugin {
  const { hooks } = plugin.schema ?? {};
  const hook = hooks?.GraphQLObjectType_fields_field;
  if (!hook) return plugin;
  const later = [hook].flat().map((each) => {
    const described = typeof each === "function" ? { callback: each } : each;
    return { ...described, after: [...(described.after ?? []), "FieldSourcesPlugin"] };
  });
  const schema = { ...plugin.schema, hooks: { ...hooks, GraphQLObjectType_fields_field: later } };
  return { ...plugin, schema };
}

/** The field with its source, which holds as long as the field has its present plan. */
export const withSource = <Field extends { readonly plan?: unknown; readonly extensions?: any }>(
  field: Field,
  source: FieldSource,
): Field => ({ ...field, extensions: { ...field.extensions, source, sourceOf: field.plan } });

/** The field with further arguments and a plan that follows them. Without arguments it must read what it has read before. */
export const withArguments = <Field extends { readonly args?: any; readonly extensions?: any }>(
  field: Field,
  args: Readonly<Record<string, GraphQLArgumentConfig>>,
  plan: unknown,
): Field => ({
  ...field,
  args: { ...field.args, ...args },
  plan,
  extensions: { ...field.extensions, sourceOf: plan },
});

/** What a field reads; undefined if that is not known, or if its plan is another one. */
export const sourceOf = ({ extensions }: GraphQLField<unknown, unknown>): FieldSource | undefined =>
  extensions.grafast?.plan === extensions.sourceOf ? extensions.source : undefined;

/** Whether the values of a codec are records of a table or type that has a name. */
export const isPlain = ({ attributes, isAnonymous, polymorphism }: PgCodec): boolean =>
  attributes !== undefined && !isAnonymous && !polymorphism;

function columnOf({ pgCodec, pgFieldAttribute: attribute }: any): FieldSource | null {
  if (!attribute || !pgCodec?.attributes || pgCodec.polymorphism || attribute.via || attribute.expression) return null;
  const [name] = Object.entries(pgCodec.attributes).find(([, other]) => other === attribute) ?? [];
  if (name === undefined) return null;
  const codec = attribute.codec.arrayOfCodec ?? attribute.codec;
  if (!codec.attributes) return { kind: "column", attribute: name, codec: attribute.codec };
  return isPlain(codec) ? { kind: "record", attribute: name, codec, isArray: codec !== attribute.codec } : null;
}

function rowOf(build: GraphileBuild.Build, scope: any): FieldSource | null {
  const relation = relationOf(scope);
  if (scope.isPgSingleRelationField && relation && isTable(relation.remoteResource)) {
    return { kind: "row", table: relation.remoteResource, from: relation };
  }
  const table: Table | undefined = scope.pgFieldResource;
  if (!scope.isPgRowByUniqueConstraintField || !isTable(table)) return null;
  const { codec } = table;
  const key = (scope.pgFieldResourceUnique.attributes as readonly string[]).map((attribute) => ({
    name: build.inflection.attribute({ attributeName: attribute, codec }),
    attribute,
    codec: codec.attributes[attribute].codec,
  }));
  return { kind: "row", table, from: { arguments: key } };
}

function rowsOf(build: GraphileBuild.Build, scope: any): FieldSource | null {
  const table: Table | undefined = scope.pgFieldResource;
  const relation = relationOf(scope);
  const isAll =
    scope.fieldBehaviorScope === "query:resource:connection" || scope.fieldBehaviorScope === "query:resource:list";
  if (!isTable(table) || !isPaged(scope) || !(isAll || relation)) return null;
  const order = collectionOrder(build, table);
  const from = relation;
  const orderOf = ({ orderBy, after, before }: Arguments) => order(orderBy, { after, before } satisfies Cursors);
  if (scope.isPgFieldSimpleCollection) {
    const size = listSize(build);
    const pageOf = (args: Arguments): Page => ({
      orderBy: args.orderBy ?? [],
      size: size(args.limit),
      offset: listOffset(args.offset),
      order: orderOf(args),
    });
    return { kind: "list", table, from, pageOf };
  }
  if (!scope.isPgFieldConnection) return null;
  const sizes = pageSizes(build);
  const pageOf = (args: Arguments): Page => ({
    orderBy: args.orderBy ?? [],
    size: sizes.first([args.first, args.last])!,
    offset: pageOffset([args.offset, args.last]) ?? 0,
    order: orderOf(args),
  });
  return { kind: "connection", table, from, pageOf };
}

/** Whether the resource is a table or view: not a function, and without polymorphic rows. */
const isTable = (resource: Table | undefined): resource is Table =>
  resource !== undefined &&
  typeof resource.from !== "function" &&
  !resource.parameters &&
  !resource.isVirtual &&
  resource.codec.attributes !== undefined &&
  !resource.codec.polymorphism;

function relationOf({ pgRelationDetails: details }: any): Relation | null {
  return details?.registry.pgRelations[details.codec.name]?.[details.relationName] ?? null;
}

declare module "postgraphile/graphql" {
  interface GraphQLFieldExtensions<_TSource, _TContext, _TArgs = any> {
    source?: FieldSource;
    /** The plan that the source describes. */
    sourceOf?: unknown;
  }
}
