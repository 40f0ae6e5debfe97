import type { Client, Reply } from "./http-client.ts";

/** Posts JSON. */
export const sendJson = (
  client: Pick<Client, "send">,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> =>
  client.send(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
