import { parseJson } from "../../gate/pipeline/body.ts";

/** The message types that a client may send. Only the server sends the others. */
const CLIENT_TYPES: ReadonlySet<unknown> = new Set(["connection_init", "ping", "pong", "subscribe", "complete"]);

type ClientMessage = { readonly type: string; readonly payload?: Record<string, any> };

/** A message of `graphql-transport-ws`, or why it is refused. */
export function clientMessageOf(data: Buffer, maxDepth: number): ClientMessage | string {
  let message: ClientMessage | null;
  try {
    message = parseJson(data, maxDepth) as typeof message;
  } catch {
    return "the message is not valid JSON";
  }
  if (message === null || !CLIENT_TYPES.has(message.type)) return "the message type is not allowed for a client";
  // graphql-ws refuses a message without a query; a trusted document has an id instead.
  const payload = message.type === "subscribe" ? message.payload : undefined;
  if (payload && payload.query === undefined && namesDocument(payload)) payload.query = "";
  return message;
}

const namesDocument = ({ documentId, extensions }: Record<string, any>): boolean =>
  documentId != null || extensions?.persistedQuery != null;
