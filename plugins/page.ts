import type { PgResource, PgSelectStep } from "postgraphile/@dataplan/pg";
import { SafeError } from "postgraphile/grafast";

const DEFAULT_PAGE_SIZE = 10;
const DEFAULT_MAX_PAGE_SIZE = 1000;

/**
 * Returns a function that converts the argument `first` or `limit` to a page size, which is 10 without a value. The
 * function throws if the value is negative or above the maximum, which is at least 10.
 */
export function pageSize(name: "first" | "limit", { options }: GraphileBuild.Build): (value: unknown) => number {
  const max = Math.max(options.maxPageSize ?? DEFAULT_MAX_PAGE_SIZE, DEFAULT_PAGE_SIZE);
  return (value) => {
    const size = (value as number | null | undefined) ?? DEFAULT_PAGE_SIZE;
    if (size >= 0 && size <= max) return size;
    throw new SafeError(`${name} must be from 0 to ${max}`, { code: "VALIDATION_ERROR" });
  };
}

/** Converts the argument `offset` to an offset, which is 0 without a value. Throws if it is negative. */
export function pageOffset(value: unknown): number {
  const offset = (value as number | null | undefined) ?? 0;
  if (offset >= 0) return offset;
  throw new SafeError("offset must not be negative", { code: "VALIDATION_ERROR" });
}

type Table = PgResource<any, any, any, any, any>;
type Order = { readonly attribute: string; readonly direction: "ASC" | "DESC" };

/**
 * Returns a function that orders a collection: by the table's smart tag (`@order created_at desc, id desc`), then by the primary
 * key. With the key the order is unique, so that a cursor marks exactly one row.
 */
export function orderCollection(table: Table): ($select: PgSelectStep) => void {
  const order = parseOrder(table);
  const key = keyOf(table);
  const rest = key.filter((attribute) => !order.some((column) => column.attribute === attribute));
  return ($select) => {
    for (const { attribute, direction } of order) $select.orderBy({ attribute, direction });
    for (const attribute of rest) $select.orderBy({ attribute, direction: "ASC" });
    if (key.length > 0) $select.setOrderIsUnique();
  };
}

/** `created_at desc, id` → descending by created_at, then ascending by id. Throws for an unknown column. */
function parseOrder({ name, codec, extensions }: Table): Order[] {
  const tag = extensions?.tags?.order;
  if (typeof tag !== "string") return [];
  return tag.split(",").map((part) => {
    const [attribute = "", direction = "asc"] = part.trim().split(/\s+/);
    if (!(attribute in codec.attributes) || !/^(asc|desc)$/i.test(direction)) {
      throw new Error(`@order ${tag} of ${name}: "${part.trim()}" is not a column followed by asc or desc`);
    }
    return { attribute, direction: direction.toUpperCase() as Order["direction"] };
  });
}

/** The columns of the primary key, or of another unique key. */
function keyOf({ uniques }: Table): readonly string[] {
  const unique = uniques.find((candidate: { isPrimary?: boolean }) => candidate.isPrimary) ?? uniques[0];
  return unique?.attributes ?? [];
}

declare global {
  namespace GraphileBuild {
    interface SchemaOptions {
      /** Maximum value of `first` and `limit`. */
      maxPageSize?: number;
    }
  }
}
