import { type BodyLimits, parseJson, wrongMediaType } from "../../gate/pipeline/body.ts";
import { Problem, problem } from "../../problems/problem.ts";
import { parseContentType } from "./headers.ts";

/** Plain JSON, and the versioned types of Accept. Other JSON-based types have their own meaning. */
const JSON_TYPE = /^application\/(?:json|vnd\.content\.v[12]\+json)$/;
/** The semantics of every PATCH here. Source: RFC 7396. */
const MERGE_PATCH = "application/merge-patch+json";

/**
 * Parses a JSON body. If a key is repeated, the last value applies. Throws Problem: 415 for another media type,
 * INVALID_JSON for malformed JSON.
 */
export function parseBody(
  bytes: Buffer,
  contentType: string | undefined,
  limits: BodyLimits,
  method = "POST",
): unknown {
  // An empty body needs no Content-Type.
  if (bytes.length === 0 && contentType === undefined) throw problem("invalid JSON", { why: "the body is empty" });
  const media = contentType === undefined ? null : parseContentType(contentType);
  const charset = media?.parameters.get("charset") ?? "utf-8";
  const isJson = media && (JSON_TYPE.test(media.type) || (method === "PATCH" && media.type === MERGE_PATCH));
  if (!isJson || charset.toLowerCase() !== "utf-8")
    throw problem("unsupported body", { message: wrongMediaType(contentType) });
  try {
    return parseJson(bytes, limits.jsonMaxDepth);
  } catch (error) {
    throw error instanceof Problem
      ? problem("invalid JSON", { why: error.message.replace(/^the body (?:is not valid JSON: )?/, "") })
      : error;
  }
}
