import type { Parameters } from "./parameters.ts";
import { badParameter, badRequest } from "./problem.ts";

/** The part of a list to return, and the form of the response. `page` counts from 1 for "envelope", from 0 for "page object". */
export type Paging =
  | { readonly form: "array" | "skip and limit"; readonly offset: number; readonly limit: number }
  | {
      readonly form: "envelope" | "page object";
      readonly page: number;
      readonly offset: number;
      readonly limit: number;
    }
  /** The whole list, for a task. */
  | { readonly form: "export"; readonly offset: 0; readonly limit: null };

/** The maximum page size; larger limits are clamped. */
export const MAX_LIMIT = 100;
/** Larger than any table. */
const MAX_OFFSET = 1_000_000_000_000_000;

export type PagingOptions = {
  /** The default form of a list. */
  readonly usual: "array" | "envelope";
  readonly pageSize: number;
  /** Version 1 has all forms, version 2 only the envelope. */
  readonly hasVariants: boolean;
  /** `Prefer: dialect=envelope` */
  readonly wrapsSkip: boolean;
};

export const pagingParameters = (hasVariants: boolean): readonly string[] =>
  hasVariants ? ["skip", "limit", "page", "size"] : ["page", "limit"];

/**
 * Parses `skip` and `limit`, `page` from 1 and `limit`, or `page` from 0 and `size`. Throws RestError for a value that is
 * not a non-negative integer, and for a mixture of these.
 */
export function parsePaging(parameters: Parameters, options: PagingOptions): Paging {
  const { usual, pageSize, hasVariants, wrapsSkip } = options;
  const skip = readCount(parameters, "skip");
  const limit = readCount(parameters, "limit");
  const page = readCount(parameters, "page");
  const size = readCount(parameters, "size");
  if (skip !== null && page !== null) throw badRequest("use either skip and limit, or page");
  if (size !== null && (limit !== null || skip !== null)) throw badRequest("use either page and size, or limit");

  const isPageObject = hasVariants && usual === "array" && page !== null && limit === null && !wrapsSkip;
  if (size !== null || isPageObject) return pageObject(page ?? 0, size ?? pageSize);
  if (page !== null) return envelope(page, limit ?? pageSize);
  if (skip !== null || usual === "array") {
    const form = wrapsSkip || usual === "envelope" ? "skip and limit" : "array";
    return { form, offset: Math.min(skip ?? 0, MAX_OFFSET), limit: Math.min(limit ?? pageSize, MAX_LIMIT) };
  }
  return envelope(1, limit ?? pageSize);
}

function envelope(page: number, limit: number): Paging {
  if (page < 1) throw badParameter("page", "page must be 1 or more when used with limit");
  return { form: "envelope", page, ...window("limit", page - 1, limit) };
}

const pageObject = (page: number, size: number): Paging => ({
  form: "page object",
  page,
  ...window("size", page, size),
});

function window(name: string, pagesBefore: number, limit: number) {
  if (limit < 1) throw badParameter(name, `${name} must be 1 or more when used with page`);
  const clamped = Math.min(limit, MAX_LIMIT);
  return { limit: clamped, offset: Math.min(pagesBefore * clamped, MAX_OFFSET) };
}

function readCount(parameters: Parameters, name: string): number | null {
  const text = parameters.get(name);
  if (text === null) return null;
  if (!/^[0-9]+$/.test(text)) throw badParameter(name, `${name} must be an integer of 0 or more`);
  return Math.min(Number(text), MAX_OFFSET);
}
