import type { IncomingHttpHeaders } from "node:http";
import { parseEntityTags, parseHttpDate } from "../../conventions/conditional.ts";
import { malformedPrecondition } from "../problem.ts";
import type { Preconditions, Values } from "../request.ts";

const NONE: Preconditions = { isOneOf: null, isNoneOf: null, unmodifiedSince: null, isImpossible: false };

/** `"v1-734"` → 734, the version of the row. Tags of other forms match no row. */
const ROW_TAG = /^"v[0-9]+[a-z]*-([0-9]+)"$/;

/**
 * If-Match, If-None-Match and If-Unmodified-Since of a change, the last one only if the response `hasDate`. Throws
 * RestError for malformed tags: ignoring them would not protect the record.
 */
export function parsePreconditions(headers: IncomingHttpHeaders, hasDate: boolean, values: Values): Preconditions {
  const ifMatch = headers["if-match"];
  const ifNoneMatch = headers["if-none-match"];
  const since = hasDate ? headers["if-unmodified-since"] : undefined;
  if (ifMatch === undefined && ifNoneMatch === undefined && since === undefined) return NONE;
  const matching = ifMatch === undefined ? null : tagsOf("If-Match", ifMatch);
  const others = ifNoneMatch === undefined ? null : tagsOf("If-None-Match", ifNoneMatch);
  // Tags take precedence over the date. Source: RFC 9110, 13.2.2.
  const date = matching === null && since !== undefined ? parseHttpDate(since) : null;
  return {
    isOneOf: matching === null || matching === "any" ? null : values.add(versionsOf(matching.filter(isStrong))),
    isNoneOf: others === null || others === "any" ? null : values.add(versionsOf(others)),
    unmodifiedSince: date && values.add(String(date.getTime() / 1000)),
    isImpossible: others === "any",
  };
}

function tagsOf(header: string, text: string): "any" | readonly string[] {
  const tags = parseEntityTags(text);
  if (tags === null) throw malformedPrecondition(header);
  return tags;
}

/** A weak tag means equivalent content, not identical content. */
const isStrong = (tag: string) => !tag.startsWith("W/");

/** An array literal of Postgres: `{734,735}`. */
const versionsOf = (tags: readonly string[]) =>
  `{${tags.flatMap((tag) => ROW_TAG.exec(tag.replace(/^W\//, ""))?.[1] ?? []).join(",")}}`;
