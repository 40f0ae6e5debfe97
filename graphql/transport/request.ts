import { z } from "zod";
import { parseStart } from "../../db/changes/position.ts";
import { withExactNumbers } from "../../db/exact-numbers.ts";
import { parseShape } from "../../gate/pipeline/body.ts";
import { problem } from "../../problems/problem.ts";
import type { GraphQLRequest } from "../execute/operation.ts";

const text = (error: string) => z.string(error).nullish();

/** True: the response has its position. Text: that of a write, which the query must see. */
const POSITION = z
  .unknown()
  .refine((value) => value == null || typeof value === "boolean" || (typeof value === "string" && parseStart(value)), {
    error: "must be true, false or the changePosition of a write",
  });

const REQUEST = z
  .object(
    {
      query: text("must be a GraphQL document"),
      documentId: text("must be a string"),
      operationName: text("must be a string"),
      variables: z.preprocess(withExactNumbers, z.looseObject({}, "must be an object").nullish()),
      extensions: z
        .object(
          {
            after: text("must be the changePosition of an event or of a query"),
            changePosition: z
              .union([z.boolean(), POSITION], "must be true, false or the changePosition of a write")
              .nullish(),
            read: z.literal("primary", "must be primary").nullish(),
            persistedQuery: z.object({ sha256Hash: text("must be a string") }, "must be an object").nullish(),
          },
          "must be an object",
        )
        .nullish(),
    },
    "must be a JSON object with a query",
  )
  .refine(
    ({ query, documentId, extensions }) => query || (documentId ?? extensions?.persistedQuery?.sha256Hash) != null,
    { path: ["query"], error: "must be a GraphQL document" },
  );

/**
 * The body of a request over HTTP, or the payload of `subscribe` over WebSocket:
 *
 *   { "query": "subscription { onTodoCreated { title } }", "extensions": { "after": "k3vd81-1c4e8-2" } }
 *
 * Throws Problem with status 400 if it is not a GraphQL request.
 */
export function requestOf(body: unknown): GraphQLRequest {
  if (Array.isArray(body)) throw refuse("batched requests are not supported: send one operation per request");
  const { query, documentId, operationName, variables, extensions } = parseShape(REQUEST, body, "the body", refuse);
  const position = extensions?.changePosition;
  return {
    query: query || undefined,
    documentId: documentId ?? undefined,
    hash: extensions?.persistedQuery?.sha256Hash ?? undefined,
    variables: variables ?? undefined,
    operationName: operationName || undefined,
    after: extensions?.after || null,
    wantsPosition: position === true,
    readsAfter: typeof position === "string" ? position : undefined,
    read: extensions?.read ?? null,
  };
}

const refuse = (message: string) => problem("invalid request", { message });
