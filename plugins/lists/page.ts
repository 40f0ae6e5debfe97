import type { PgResource } from "postgraphile/@dataplan/pg";
import { SafeError } from "postgraphile/grafast";

export const DEFAULT_PAGE_SIZE = 10;

/** Descriptions of the arguments that connections and lists have. */
export const FILTER = "Only items that match.";
export const ORDER = "The order: by the first value, then by the next.";
const DEFAULT_MAX_PAGE_SIZE = 1000;

type Count = number | null | undefined;
type FirstAndLast = readonly [first: Count, last: Count];

const refuse = (message: string) => new SafeError(message, { code: "VALIDATION_ERROR" });

/** A function tagged `@unpaged` returns all its rows without `limit`. */
export const isPaged = ({ pgFieldResource }: { readonly pgFieldResource?: Table | undefined }): boolean =>
  !pgFieldResource?.extensions?.tags?.unpaged;

/**
 * Returns functions that convert the arguments `first` and `last` to the numbers of rows to read. Without either, `first`
 * is 10. The functions throw if a number is negative or above the maximum, which is at least 10, or if both are given.
 */
export function pageSizes(build: GraphileBuild.Build) {
  const check = sizeCheck(build);
  return {
    first([first, last]: FirstAndLast): number | null {
      if (last == null) return Math.max(check("first", first ?? DEFAULT_PAGE_SIZE), 1);
      if (first != null) throw refuse("use either first or last, not both");
      return null;
    },
    last: ([, last]: FirstAndLast): number | null => (last == null ? null : Math.max(check("last", last), 1)),
  };
}

/** Returns a function that converts the argument `limit`, which is 10 without a value, and throws as above. */
export function listSize(build: GraphileBuild.Build): (limit: unknown) => number {
  const check = sizeCheck(build);
  return (limit) => check("limit", (limit as Count) ?? DEFAULT_PAGE_SIZE);
}

/** The same for a list that is not paged: without a value it has all rows. */
export function unpagedSize(build: GraphileBuild.Build): (limit: unknown) => number | null {
  const check = sizeCheck(build);
  return (limit) => (limit == null ? null : check("limit", limit as number));
}

function sizeCheck({ options }: GraphileBuild.Build): (name: string, size: number) => number {
  const max = Math.max(options.maxPageSize ?? DEFAULT_MAX_PAGE_SIZE, DEFAULT_PAGE_SIZE);
  return (name, size) => {
    if (size >= 0 && size <= max) return size;
    throw refuse(`${name} must be from 0 to ${max}`);
  };
}

/** Converts the argument `offset`, which is 0 without a value. Throws if it is negative. */
export function listOffset(value: unknown): number {
  const offset = (value as Count) ?? 0;
  if (offset >= 0) return offset;
  throw refuse("offset must not be negative");
}

/** Converts the argument `offset` of a connection. Throws also with `last`. */
export function pageOffset([offset, last]: readonly [offset: Count, last: Count]): number | null {
  if (offset == null) return null;
  if (last == null) return listOffset(offset);
  throw refuse("offset cannot be used with last");
}

type Table = PgResource<any, any, any, any, any>;
declare global {
  namespace GraphileBuild {
    interface SchemaOptions {
      /** Maximum value of `first`, `last` and `limit`. */
      maxPageSize?: number;
    }
  }
}
