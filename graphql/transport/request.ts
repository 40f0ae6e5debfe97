import { problem } from "../../db/problems/problem.ts";
import type { GraphQLRequest } from "../execute/operation.ts";

/**
 * The body of a request over HTTP, or the payload of `subscribe` over WebSocket:
 *
 *   { "query": "subscription { onTodoCreated { title } }", "extensions": { "after": "k3vd81-1c4e8-2" } }
 *
 * Throws Problem with status 400 if it is not a GraphQL request.
 */
export function requestOf(body: unknown): GraphQLRequest {
  if (Array.isArray(body)) throw refuse("batched requests are not supported: send one operation per request");
  if (typeof body !== "object" || body === null) throw refuse("the body must be a JSON object with a query");
  const { query, documentId, variables, operationName, extensions } = body as Record<string, any>;
  const hash = extensions?.persistedQuery?.sha256Hash;
  const isNamed = documentId != null || hash != null;
  if (isNamed ? query != null && typeof query !== "string" : typeof query !== "string" || query === "")
    throw refuse("query must be a GraphQL document");
  if (documentId != null && typeof documentId !== "string") throw refuse("documentId must be a string");
  if (hash != null && typeof hash !== "string") throw refuse("extensions.persistedQuery.sha256Hash must be a string");
  if (variables != null && (typeof variables !== "object" || Array.isArray(variables)))
    throw refuse("variables must be an object");
  if (operationName != null && typeof operationName !== "string") throw refuse("operationName must be a string");
  return {
    query: query || undefined,
    documentId: documentId ?? undefined,
    hash: hash ?? undefined,
    variables: variables ?? undefined,
    operationName: operationName || undefined,
    ...positionsOf(extensions),
  };
}

/** What the extensions of a request say about positions in the changes. */
function positionsOf(extensions: any): Pick<GraphQLRequest, "after" | "wantsPosition"> {
  const { after, changePosition = false } = extensions ?? {};
  if (after != null && typeof after !== "string")
    throw refuse("extensions.after must be the changePosition of an event or of a query");
  if (typeof changePosition !== "boolean") throw refuse("extensions.changePosition must be true or false");
  return { after: after || null, wantsPosition: changePosition };
}

const refuse = (message: string) => problem("invalid request", { message });
