import type { RequestHandler } from "express";
import { contentTag, isNotModified } from "./conditional.ts";

/** What stays the same while the service runs. */
export type Content = {
  readonly type: string;
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
};

/** Serves a content to those who don't have it yet. Express itself would not heed If-None-Match of `fetch`. */
export function contentHandler({ type, text, headers }: Content): RequestHandler {
  const body = Buffer.from(text);
  const etag = contentTag(body);
  return (request, response) => {
    response.set(headers).set("ETag", etag);
    if (isNotModified(request.headers, { etag, lastModified: null })) response.status(304).end();
    else response.set("Content-Type", type).send(body);
  };
}
