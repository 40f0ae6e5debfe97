import { LRUCache } from "lru-cache";
import {
  isEnumCodec,
  listOfCodec,
  type PgCodec,
  type PgResource,
  type PgSelectQueryBuilder,
  TYPES,
} from "postgraphile/@dataplan/pg";
import type { GraphQLEnumType } from "postgraphile/graphql";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { certainCheck, readableRow } from "../shape/NullChecksPlugin.ts";
import { type Cursors, conditionsOf, type KeyPart } from "./cursor.ts";

type Table = PgResource<any, any, any, any, any>;
type Query = PgSelectQueryBuilder;
/** Returns what to order by; a join that it needs is added to the query. */
export type OrderOf = (query: Query) => KeyPart;
type Column = { readonly attribute: string; readonly direction: "ASC" | "DESC" };

/**
 * Returns a function that converts the argument `orderBy` to the order of a collection, completed with the key: then a
 * cursor marks exactly one row. Without `orderBy` the order is the table's smart tag (`@order created_at desc, id desc`) and
 * the primary key; the rows of a function keep their own order. Cursors become conditions here, because Grafast's handle null
 * incorrectly.
 */
export function collectionOrder(build: GraphileBuild.Build, resource: Table) {
  const table = (resource.parameters ? build.pgTableResource(resource.codec, false) : resource) as Table | null;
  const key = keyOf(table ?? resource);
  const ofTable = resource.parameters ? [] : orderOfTable(resource, key);
  const orderBy = (names: readonly string[], cursors: Cursors): Order => {
    const parts = names.length > 0 ? orderOfNames(build, resource, names, key) : ofTable;
    return (query) => {
      // A NULL among the rows of a function is none.
      const isRow = resource.parameters && resource.codec.attributes ? certainCheck(resource.codec, query.alias) : null;
      if (isRow) query.where(isRow);
      // Counts and aggregates are about all rows.
      if (query.mode === "aggregate") return;
      const order = parts.map((part) => part(query));
      for (const { fragment, codec, direction, nullable, nulls } of order) {
        query.orderBy({ fragment, codec: textCodec(codec), direction, nullable, ...(nulls && { nulls }) });
      }
      if (order.length > 0) query.setOrderIsUnique();
      for (const condition of conditionsOf(cursors, order)) query.where(condition);
    };
  };
  // The same function for the same order: the SQL of its pages is kept.
  const known = new LRUCache<string, Order>({ max: MAX_KNOWN_ORDERS });
  return (argument: unknown, cursors: Cursors = {}): Order => {
    const names = namesIn(argument);
    if (cursors.after != null || cursors.before != null) return orderBy(names, cursors);
    const name = names.join(" ");
    const order = known.get(name) ?? orderBy(names, {});
    known.set(name, order);
    return order;
  };
}

export type Order = (query: Query) => void;
const MAX_KNOWN_ORDERS = 50;

const namesIn = (orderBy: unknown): readonly string[] =>
  ((orderBy ?? []) as readonly string[]).filter((name) => name !== "NATURAL");

/** Whether the rows have no order, so that a cursor is their number: those of a function, or of a table without a key. */
export const isNatural = (resource: Table, orderBy: unknown): boolean =>
  namesIn(orderBy).length === 0 &&
  (resource.parameters !== undefined || orderOfTable(resource, keyOf(resource)).length === 0);

/**
 * The description of a list or connection, which names its size and its order: ``A list of `Comment`: by default 10, ordered by `createdAt`
 * descending, then by `id` descending.`` That of PostGraphile says nothing about them; another one is the DBA's, and stays.
 */
export function describedPage(
  build: GraphileBuild.Build,
  { resource, what, size }: { readonly resource: Table; readonly what: string; readonly size: number | null },
  description: string | null | undefined,
): string | null | undefined {
  if (!description?.startsWith("Reads and enables pagination")) return description;
  const { inflection, behavior } = build;
  const shown = columnsOfTable(resource, keyOf(resource)).filter(({ attribute }) =>
    ["attribute:select", "attribute:filterBy"].some((use) =>
      behavior.pgCodecAttributeMatches([resource.codec, attribute], use as "attribute:select"),
    ),
  );
  const columns = shown.map(({ attribute, direction }) => {
    const name = inflection.attribute({ codec: resource.codec, attributeName: attribute });
    return `by \`${name}\`${direction === "DESC" ? " descending" : ""}`;
  });
  const order = resource.parameters ? "in the order of the function" : `ordered ${columns.join(", then ")}`;
  const facts = [size === null ? [] : `by default ${size}`, columns.length > 0 || resource.parameters ? order : []];
  const said = facts.flat().join(", ");
  return `${what} of \`${inflection.tableType(resource.codec)}\`${said && `: ${said}`}.`;
}

function columnsOfTable(table: Table, key: readonly string[]): readonly Column[] {
  const tagged = parseOrder(table);
  const rest = key.filter((attribute) => !tagged.some((column) => column.attribute === attribute));
  return [...tagged, ...rest.map((attribute) => ({ attribute, direction: "ASC" as const }))];
}

function orderOfTable(table: Table, key: readonly string[]): readonly OrderOf[] {
  const columns = columnsOfTable(table, key);
  const tagged = parseOrder(table);
  const parts = columns.map((column) => orderOfColumn(table.codec, column));
  // Grafast would order by a unique key whose nulls are not unique.
  const isOrdered = key.length > 0 || tagged.length > 0 || table.uniques.length > 0;
  return isOrdered && !hasKeys(table, key) ? [...parts, orderOfRow(table)] : parts;
}

function orderOfNames(
  build: GraphileBuild.Build,
  table: Table,
  names: readonly string[],
  key: readonly string[],
): readonly OrderOf[] {
  const { inflection } = build;
  const { codec } = table;
  const values = build.getTypeByName(inflection.orderByType(inflection.tableType(codec))) as GraphQLEnumType;
  const chosen = names.flatMap((name) => values.getValue(name)!.extensions.orders as readonly OrderOf[]);
  // In one direction, Postgres can compare a cursor with all columns at once, and use an index for it.
  const direction = names[0]!.includes("_DESC") ? "DESC" : "ASC";
  return [
    ...chosen,
    ...key.map((attribute) => orderOfColumn(codec, { attribute, direction })),
    ...(hasKeys(table, key) ? [] : [orderOfRow(table)]),
  ];
}

export function orderOfColumn(
  codec: PgCodec,
  { attribute, ...place }: Column & { readonly nulls?: "FIRST" | "LAST" },
): OrderOf {
  const { codec: type, notNull } = codec.attributes![attribute]!;
  const nullable = !notNull && !type.notNull;
  const compared = comparable(type);
  const cast = compared === type ? sql.blank : sql`::${compared.sqlType}`;
  return ({ alias }) => ({
    fragment: sql`${alias}.${sql.identifier(attribute)}${cast}`,
    codec: compared,
    nullable,
    ...place,
  });
}

/** The type as which values are compared: that of a domain over an enum, for which Postgres has no operators, is the enum. */
export function comparable(codec: PgCodec): PgCodec {
  const { arrayOfCodec: item, domainOfCodec: base } = codec;
  if (item) return comparable(item) === item ? codec : listOfCodec(comparable(item) as never);
  return base && isEnumCodec(codec) ? comparable(base) : codec;
}

/** Whether each row has a key of its own. */
const hasKeys = ({ extensions }: Table, key: readonly string[]): boolean => key.length > 0 && !extensions?.isInherited;

/** For rows without a key of their own. Those of a view that are equal in all columns have no order; those of a table have places. */
const orderOfRow =
  ({ codec, parameters, extensions }: Table): OrderOf =>
  ({ alias }) => {
    const place =
      !parameters && (extensions as any)?.hasPlaces ? sql` || ${alias}.tableoid || ${alias}.ctid` : sql.blank;
    const fragment = sql`md5(${readableRow(codec, alias)}::text${place})` as SQL;
    return { fragment, codec: TYPES.text, direction: "ASC", nullable: false };
  };

const textCodecs = new WeakMap<PgCodec, PgCodec>();

/**
 * Values in cursors are the text of Postgres: JSON has no NaN, JavaScript rounds numbers, and the form in which others are read, such as
 * that of an interval or a row, is none that Postgres reads.
 */
function textCodec(codec: PgCodec): PgCodec {
  const known = textCodecs.get(codec);
  if (known) return known;
  const created = { ...codec, fromPg: (text: string) => text, castFromPg: undefined } as PgCodec;
  textCodecs.set(codec, created);
  return created;
}

/** `created_at desc, id` → descending by created_at, then ascending by id. Throws for an unknown column. */
function parseOrder({ name, codec, extensions }: Table): Column[] {
  const tag = extensions?.tags?.order;
  if (typeof tag !== "string") return [];
  return tag.split(",").map((part) => {
    const [attribute = "", direction = "asc"] = part.trim().split(/\s+/);
    if (!(attribute in codec.attributes) || !/^(asc|desc)$/i.test(direction)) {
      throw new Error(`"${part.trim()}" in @order of ${name} is not a column followed by asc or desc`);
    }
    return { attribute, direction: direction.toUpperCase() as Column["direction"] };
  });
}

/** The columns of the primary key, or of another unique key without nulls. */
function keyOf({ uniques, codec }: Table): readonly string[] {
  const keys = uniques.filter(({ attributes }: { attributes: readonly string[] }) =>
    attributes.every((attribute) => codec.attributes[attribute]?.notNull),
  );
  const primary = uniques.find((unique: { isPrimary?: boolean }) => unique.isPrimary);
  return (primary ?? keys[0])?.attributes ?? [];
}

declare module "postgraphile/graphql" {
  interface GraphQLEnumValueExtensions {
    /** Of a value of `orderBy`: what it orders by. */
    orders?: readonly OrderOf[];
  }
}
