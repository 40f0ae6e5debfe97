import type { Header, RestAnswer } from "./answer.ts";
import { answerOf } from "./answer.ts";
import { contentTag } from "./conditional.ts";
import { linkHeader, linksOf, type Page, type PageLinks } from "./pages.ts";
import type { Parameters } from "./parameters.ts";

/** A page of the list at `path`, in the form that was asked for; `records` is a JSON array. */
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

/** What stands around the records. */
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
