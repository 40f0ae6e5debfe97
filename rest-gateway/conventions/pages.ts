import type { Paging } from "./paging.ts";
import type { Parameters } from "./parameters.ts";

/** Addresses of the pages around this one; null where there is no such page. */
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
    // Beyond the end the page before is the last one there is.
    prev: offset === 0 ? null : from(Math.min(Math.max(0, offset - limit), last)),
    next: offset + limit < total ? from(offset + limit) : null,
    last: from(last),
  };
}

/** The parameters that ask for the page that begins there. Only with `skip` may it begin between two pages. */
function parametersOf({ form, limit }: Page, start: number): Readonly<Record<string, number>> {
  if (form === "envelope") return { page: start / limit + 1, limit };
  if (form === "page object") return { page: start / limit, size: limit };
  return { skip: start, limit };
}

/** `</users?skip=10&limit=10>; rel="next", …`; "" when there is none. */
export const linkHeader = (links: PageLinks): string =>
  Object.entries(links)
    .filter(([, href]) => href !== null)
    .map(([rel, href]) => `<${href}>; rel="${rel}"`)
    .join(", ");
