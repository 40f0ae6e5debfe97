import { readFileSync } from "node:fs";
import type { RequestHandler } from "express";
import { contentHandler } from "../../conventions/conditional.ts";

const FILE = new URL("../../../docs/errors.md", import.meta.url);

/** `GET /docs/errors`: what the codes mean that problems have. */
export const errorsHandler = (): RequestHandler =>
  contentHandler({
    type: "text/plain; charset=utf-8",
    text: readFileSync(FILE, "utf8"),
    headers: { "Cache-Control": "public, max-age=300" },
  });
