import type { Address } from "../parse/address.ts";
import type { Parameters } from "../parse/parameters.ts";
import type { Paging } from "../request.ts";

/** Addresses of the pages around this one; null where there is no such page. */
export type PageLinks = {
  readonly first: string | null;
  readonly prev: string | null;
  readonly next: string | null;
  readonly last: string | null;
};

export type Page = Exclude<Paging, { form: "export" }>;

export function linksOf(page: Page, total: number, address: Address, parameters: Parameters): PageLinks {
  const { limit } = page;
  if (limit === 0) return { first: null, prev: null, next: null, last: null };
  const at = (number: number) => `${address.path}?${parameters.with(parametersOf(page, number))}`;
  const last = Math.max(0, Math.ceil(total / limit) - 1);
  const { offset } = page;
  const hasNext = offset + limit < total;
  return {
    first: at(0),
    // Beyond the end the page before is the last one there is.
    prev: offset === 0 ? null : at(Math.min(Math.ceil(offset / limit) - 1, last)),
    next: hasNext ? nextOf(page, at, address, parameters) : null,
    last: at(last),
  };
}

/** Of a list that begins between two pages the next part begins there as well. */
function nextOf(page: Page, at: (number: number) => string, address: Address, parameters: Parameters): string {
  const next = page.offset + page.limit;
  if (next % page.limit === 0) return at(next / page.limit);
  return `${address.path}?${parameters.with({ skip: next, limit: page.limit })}`;
}

/** The parameters that ask for a page, by its number from 0. */
function parametersOf({ form, limit }: Page, number: number): Readonly<Record<string, number>> {
  if (form === "envelope") return { page: number + 1, limit };
  if (form === "page object") return { page: number, size: limit };
  return { skip: number * limit, limit };
}

/** `</users?skip=10&limit=10>; rel="next", …`; "" when there is none. */
export const linkHeader = (links: PageLinks): string =>
  Object.entries(links)
    .filter(([, href]) => href !== null)
    .map(([rel, href]) => `<${href}>; rel="${rel}"`)
    .join(", ");
