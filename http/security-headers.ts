import type { IncomingMessage, ServerResponse } from "node:http";
import helmet from "helmet";

/** Helmet's headers. They are the same for every answer, so helmet is asked once, and not for each request. */
export function securityHeaders(): (response: ServerResponse) => void {
  const headers = new Map<string, string>();
  const recorder = {
    setHeader: (name: string, value: string) => headers.set(name, value),
    removeHeader: () => {},
  };
  helmet()({} as IncomingMessage, recorder as unknown as ServerResponse, () => {});
  return (response) => void response.setHeaders(headers);
}
