import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestHandler } from "express";
import helmet from "helmet";

/** Helmet's headers. They are the same for every answer, so helmet is asked once, and not for each request. */
export function securityHeaders(): RequestHandler {
  const headers = new Map<string, string>();
  const recorder = {
    setHeader: (name: string, value: string) => headers.set(name, value),
    removeHeader: () => {},
  };
  helmet()({} as IncomingMessage, recorder as unknown as ServerResponse, () => {});
  return (_request, response, next) => {
    response.setHeaders(headers);
    next();
  };
}
