import { contentTag } from "./conditional.ts";
import { answerOf, type RestAnswer } from "./endpoint.ts";
import type { Header } from "./headers.ts";
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

type PagingOptions = {
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
 * Parses `skip` and `limit`, `page` from 1 and `limit`, or `page` from 0 and `size`. Throws Problem for a value that is
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

/** A page of the list at `path`, in the requested form. `records` is a JSON array. */
export function answerList(
  page: Page,
  records: Buffer,
  total: number,
  path: string,
  parameters: Parameters,
): RestAnswer {
  const links = linksOf(page, total, path, parameters);
  const [before, after] = frameOf(page, total, links);
  const body = before === "" ? records : Buffer.concat([Buffer.from(before), records, Buffer.from(after)]);
  const link = linkHeader(links);
  const headers: Header[] = [["X-Total-Count", String(total)], ...(link === "" ? [] : [["Link", link] as const])];
  return { ...answerOf(200, body, headers), etag: contentTag(body) };
}

/** The JSON before and after the records. */
function frameOf(page: Page, total: number, links: PageLinks): readonly [before: string, after: string] {
  const { form, limit } = page;
  switch (form) {
    case "array":
      return ["", ""];
    case "skip and limit":
      return ['{"data":', `,"pagination":${JSON.stringify({ skip: page.offset, limit, total })}}`];
    case "envelope": {
      const pagination = { page: page.page, limit, total, totalPages: Math.ceil(total / limit) };
      return ['{"data":', `,"pagination":${JSON.stringify(pagination)},"links":${JSON.stringify(links)}}`];
    }
    case "page object": {
      const more = { page: page.page, size: limit, totalElements: total, totalPages: Math.ceil(total / limit) };
      return ['{"content":', `,${JSON.stringify(more).slice(1)}`];
    }
  }
}

/** Links to other pages; null for a page that does not exist. */
type PageLinks = {
  readonly first: string | null;
  readonly prev: string | null;
  readonly next: string | null;
  readonly last: string | null;
};

type Page = Exclude<Paging, { form: "export" }>;

function linksOf(page: Page, total: number, path: string, parameters: Parameters): PageLinks {
  const { limit, offset } = page;
  if (limit === 0) return { first: null, prev: null, next: null, last: null };
  const last = Math.max(0, Math.ceil(total / limit) - 1) * limit;
  const from = (start: number) => `${path}?${parameters.with(parametersOf(page, start))}`;
  return {
    first: from(0),
    // Beyond the end, the previous page is the last page.
    prev: offset === 0 ? null : from(Math.min(Math.max(0, offset - limit), last)),
    next: offset + limit < total ? from(offset + limit) : null,
    last: from(last),
  };
}

/** The parameters for the page that begins at `start`. Only `skip` can begin between two pages. */
function parametersOf({ form, limit }: Page, start: number): Readonly<Record<string, number>> {
  if (form === "envelope") return { page: start / limit + 1, limit };
  if (form === "page object") return { page: start / limit, size: limit };
  return { skip: start, limit };
}

/** `</users?skip=10&limit=10>; rel="next", …`; "" for no links. */
const linkHeader = (links: PageLinks): string =>
  Object.entries(links)
    .filter(([, href]) => href !== null)
    .map(([rel, href]) => `<${href}>; rel="${rel}"`)
    .join(", ");
