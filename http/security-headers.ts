import type { IncomingMessage, ServerResponse } from "node:http";
import helmet from "helmet";

/** Helmet's headers, names and values by turns. They are the same for every answer, so helmet is asked once. */
export function securityHeaders(): readonly string[] {
  const headers: string[] = [];
  const recorder = {
    setHeader: (name: string, value: string) => headers.push(name, value),
    removeHeader: () => {},
  };
  helmet()({} as IncomingMessage, recorder as unknown as ServerResponse, () => {});
  return headers;
}
