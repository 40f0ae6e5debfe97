import { ApiError } from "../../db/errors.ts";
import { type BodyLimits, parseJson } from "../../http/body.ts";
import { parseContentType } from "./media.ts";
import { invalidJson, unsupportedMediaType } from "./problem.ts";

/** Plain JSON, and that of a version as it is asked for in Accept; other types on top of JSON mean something else by it. */
const JSON_TYPE = /^application\/(?:json|vnd\.content\.v[12]\+json)$/;
/** What PATCH means anyway. Source: RFC 7396. */
const MERGE_PATCH = "application/merge-patch+json";

/** The body as JSON. Throws RestError: 415 for another media type, INVALID_JSON for what is none. Of a key that comes twice the last counts. */
export function parseBody(
  bytes: Buffer,
  contentType: string | undefined,
  limits: BodyLimits,
  method = "POST",
): unknown {
  // Nothing has no type either.
  if (bytes.length === 0 && contentType === undefined) throw invalidJson("it is empty");
  const media = contentType === undefined ? null : parseContentType(contentType);
  const charset = media?.parameters.get("charset") ?? "utf-8";
  const isJson = media && (JSON_TYPE.test(media.type) || (method === "PATCH" && media.type === MERGE_PATCH));
  if (!isJson || charset.toLowerCase() !== "utf-8") throw unsupportedMediaType();
  try {
    return parseJson(bytes, limits.depth);
  } catch (error) {
    throw error instanceof ApiError
      ? invalidJson(error.message.replace(/^the body (?:is not valid JSON: )?/, ""))
      : error;
  }
}
