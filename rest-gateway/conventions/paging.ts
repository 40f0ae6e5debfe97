import type { Parameters } from "./parameters.ts";
import { badParameter, badRequest } from "./problem.ts";

/** Which part of a list, and in which form it is told. `page` of "envelope" counts from 1, of "page object" from 0. */
export type Paging =
  | { readonly form: "array" | "skip and limit"; readonly offset: number; readonly limit: number }
  | {
      readonly form: "envelope" | "page object";
      readonly page: number;
      readonly offset: number;
      readonly limit: number;
    }
  /** Everything, for a task. */
  | { readonly form: "export"; readonly offset: 0; readonly limit: null };

/** Records on a page; more are not given whatever is asked for. */
export const MAX_LIMIT = 100;
/** Beyond the end of every table. */
const MAX_OFFSET = 1_000_000_000_000_000;

export type PagingOptions = {
  /** The form of a list when nobody asks for another one. */
  readonly usual: "array" | "envelope";
  readonly pageSize: number;
  /** Version 1 knows all forms, version 2 the envelope alone. */
  readonly hasVariants: boolean;
  /** `Prefer: dialect=envelope` */
  readonly wrapsSkip: boolean;
};

export const pagingParameters = (hasVariants: boolean): readonly string[] =>
  hasVariants ? ["skip", "limit", "page", "size"] : ["page", "limit"];

/**
 * Which part of the list: `skip` and `limit`, `page` from 1 and `limit`, or `page` from 0 and `size`. Throws RestError for
 * what is no whole number, is negative, or mixes two of these.
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
  if (page < 1) throw badParameter("page", "page must be 1 or more: it counts from 1 beside limit");
  return { form: "envelope", page, ...window("limit", page - 1, limit) };
}

const pageObject = (page: number, size: number): Paging => ({
  form: "page object",
  page,
  ...window("size", page, size),
});

function window(name: string, pagesBefore: number, limit: number) {
  if (limit < 1) throw badParameter(name, `${name} must be 1 or more where pages are counted`);
  const clamped = Math.min(limit, MAX_LIMIT);
  return { limit: clamped, offset: Math.min(pagesBefore * clamped, MAX_OFFSET) };
}

function readCount(parameters: Parameters, name: string): number | null {
  const text = parameters.get(name);
  if (text === null) return null;
  if (!/^[0-9]+$/.test(text)) throw badParameter(name, `${name} must be a whole number, not negative`);
  return Math.min(Number(text), MAX_OFFSET);
}
