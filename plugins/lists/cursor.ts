import { createHash } from "node:crypto";
import type { PgCodec } from "postgraphile/@dataplan/pg";
import { SafeError } from "postgraphile/grafast";
import { type SQL, sql } from "postgraphile/pg-sql2";

/** One part of the order of a collection: a column, or an expression, with its direction. */
export type KeyPart = {
  readonly fragment: SQL;
  readonly codec: PgCodec;
  readonly direction: "ASC" | "DESC";
  readonly nullable: boolean;
  readonly nulls?: "FIRST" | "LAST";
};

/** The arguments `after` and `before` of a connection. */
export type Cursors = { readonly [argument in "after" | "before"]?: string | null | undefined };
type Value = string | null;

const invalid = (argument: string) =>
  new SafeError(`Invalid '${argument}' cursor: use a cursor of this list, in the same order`, {
    code: "VALIDATION_ERROR",
  });

/**
 * Returns the conditions for the rows between two cursors in this order. A cursor is the Base64 of
 * `["<digest of the order>", "<text of each value>", …]`, as Grafast's PgCursorStep writes it. Throws for any other text.
 */
export function conditionsOf(cursors: Cursors, order: readonly KeyPart[]): SQL[] {
  const given = (["after", "before"] as const).filter((argument) => cursors[argument] != null);
  // Grafast adds the number of a row to the offset instead.
  if (given.length === 0 || order.length === 0) return [];
  const digest = digestOf(order);
  return given.map((argument) => {
    const [cursorDigest, ...values] = parseCursor(cursors[argument]!, argument);
    if (cursorDigest !== digest || values.length !== order.length) throw invalid(argument);
    return beyond(argument, order, values as Value[]);
  });
}

/** The number of a row in a collection without an order: the Base64 of `["natural", 3]`; 0 without a cursor. */
export function naturalPosition(cursor: string | null | undefined): number {
  if (cursor == null) return 0;
  const [kind, position, ...rest] = parseCursor(
    cursor,
    "after",
    (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  );
  if (kind !== "natural" || position === undefined || rest.length > 0) throw invalid("after");
  return position as number;
}

const isText = (value: unknown): boolean => value === null || typeof value === "string";

function parseCursor(text: string, argument: string, isValue = isText): readonly unknown[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(text, "base64").toString());
  } catch {
    throw invalid(argument);
  }
  if (!Array.isArray(parsed) || typeof parsed[0] !== "string" || !parsed.slice(1).every(isValue))
    throw invalid(argument);
  return parsed;
}

/** As Grafast computes it: 10 digits of the SHA-256 of the SQL. */
export const digestOf = (order: readonly KeyPart[]): string =>
  createHash("sha256")
    .update(JSON.stringify(order.map(({ fragment }) => sql.compile(fragment).text)))
    .digest("hex")
    .slice(0, 10);

/** The condition for the rows that come after (or before) the row with these values. */
function beyond(argument: "after" | "before", order: readonly KeyPart[], values: readonly Value[]): SQL {
  const literals = order.map(({ codec }, i) => sql`${sql.value(values[i] ?? null)}::${codec.sqlType}`);
  const isGreater = order.map(({ direction }) => (direction === "ASC") === (argument === "after"));
  // One comparison of rows can use an index on all columns.
  if (order.length > 1 && order.every(({ nullable }, i) => !nullable && isGreater[i] === isGreater[0])) {
    const row = sql.join(
      order.map(({ fragment }) => fragment),
      ", ",
    );
    return sql`(${row}) ${isGreater[0] ? sql`>` : sql`<`} (${sql.join(literals, ", ")})`;
  }
  return order.reduceRight<SQL>((rest, part, i) => {
    const { fragment, nullable } = part;
    const isNull = values[i] === null;
    const isNullBeyond = nullable && areNullsFirst(part) === (argument === "before");
    const equal = isNull ? sql`${fragment} is null` : sql`${fragment} = ${literals[i]!}`;
    const further = isNull
      ? isNullBeyond
        ? sql`false`
        : sql`${fragment} is not null`
      : sql`${fragment} ${isGreater[i] ? sql`>` : sql`<`} ${literals[i]!}${isNullBeyond ? sql` or ${fragment} is null` : sql.blank}`;
    return i === order.length - 1 ? further : sql`(${further}) or (${equal} and (${rest}))`;
  }, sql.blank);
}

const areNullsFirst = ({ nulls, direction }: KeyPart): boolean =>
  nulls === undefined ? direction === "DESC" : nulls === "FIRST";
