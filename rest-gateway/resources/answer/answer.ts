import type { Result } from "../../../db/transaction.ts";
import { contentTag } from "../../conventions/conditional.ts";
import { answerOf, type Header, type RestAnswer } from "../../conventions/endpoint.ts";
import { answerList } from "../../conventions/list.ts";
import { noSuchRow, notPermitted, preconditionFailed } from "../problem.ts";
import { isOfOneRow, type ResourceRequest, type Target } from "../request.ts";
import type { Resource } from "../resource.ts";
import { RESULT, reasonOf, textAt } from "../runner.ts";

/** The row of the statement as a response. Throws RestError when nothing was read or written. */
export function answer(request: ResourceRequest, result: Result, target: Target): RestAnswer {
  const { operation, resource } = request;
  const reason = reasonOf(result, request);
  if (reason === "missing") throw noSuchRow(missingOf(request));
  if (reason === "stale") throw preconditionFailed();
  if (reason === "forbidden") throw notPermitted(resource, operation.kind === "delete" ? "delete" : "change");

  const row = result.rows[0];
  const text = (column: number) => textAt(row, column);
  const body = row![RESULT.body] ?? null;
  if (operation.kind === "delete") return answerOf(204);
  if (operation.kind === "list") {
    const { paging } = operation;
    if (paging.form === "export") return answerOf(200, body);
    return answerList(paging, body!, Number(text(RESULT.total)), pathOf(target), target.parameters);
  }
  if (operation.kind === "create" && operation.isMany) return answerOf(201, body);
  const created = operation.kind === "create";
  const headers: Header[] = created ? [["Location", locationOf(request, text(RESULT.id)!)]] : [];
  const modified = text(RESULT.modified);
  return {
    ...answerOf(created ? 201 : 200, body, headers),
    etag: etagOf(request, text(RESULT.version), body!),
    lastModified: modified === null || !isOfOneRow(request.selection) ? null : new Date(Number(modified) * 1000),
  };
}

/** What is missing: the record, or the parent of the collection. */
const missingOf = ({ operation, resource }: ResourceRequest): Resource =>
  ("parent" in operation && operation.parent?.resource) || resource;

/** The path of page links: that of the same version, however it was chosen. */
const pathOf = ({ style, path, prefix }: Target): string => style.prefix + path.slice(prefix.length);

export const locationOf = ({ resource, style }: ResourceRequest, id: string): string =>
  `${style.prefix}/${resource.description.name}/${id}`;

/** `"v1-734"`: the form of the response and the version of the row. With other rows in it, a hash of the body. */
function etagOf({ style, selection }: ResourceRequest, version: string | null, body: Buffer): string {
  if (version === null || !isOfOneRow(selection)) return contentTag(body);
  return `"v${style.version}${style.version === 1 && style.isCamel ? "c" : ""}-${version}"`;
}
