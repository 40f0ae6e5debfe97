import { contentTag } from "./conditional.ts";
import { answerOf, type Header, type RestAnswer } from "./endpoint.ts";
import type { Paging } from "./paging.ts";
import type { Parameters } from "./parameters.ts";

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
export type PageLinks = {
  readonly first: string | null;
  readonly prev: string | null;
  readonly next: string | null;
  readonly last: string | null;
};

export type Page = Exclude<Paging, { form: "export" }>;

export function linksOf(page: Page, total: number, path: string, parameters: Parameters): PageLinks {
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
