import { type Client, type Reply, sentJson } from "./http-client.ts";

/** Posts JSON. */
export const sendJson = (
  client: Pick<Client, "send">,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> => client.send(path, { method: "POST", ...sentJson({ body: JSON.stringify(body), headers }) });
