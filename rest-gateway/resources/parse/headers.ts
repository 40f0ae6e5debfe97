import type { IncomingHttpHeaders } from "node:http";
import { parserCache } from "../../../cache/cache.ts";
import { contentOf, parseEntityTags, parseHttpDate } from "../../conventions/conditional.ts";
import { readPair, splitList } from "../../conventions/headers.ts";
import { badRequest } from "../../conventions/problem.ts";
import { DIALECTS, type Dialect } from "../description.ts";
import { malformedPrecondition } from "../problem.ts";
import { NO_DIALECT, type Precondition, type Preferences, type Values } from "../request.ts";

/** Reads the header Prefer: `dialect=envelope, handling=strict`; `dialect="case flat"` names two. */
export class PreferenceParser {
  readonly #usual: ReadonlySet<Dialect>;
  readonly #none: Preferences;
  readonly #cache = parserCache<Preferences>();

  /** `usual` applies when a client names no dialect. */
  constructor(usual: readonly Dialect[]) {
    this.#usual = new Set(usual);
    this.#none = preferencesOf([], this.#usual);
  }

  parse(header: string | readonly string[] | undefined): Preferences {
    if (header === undefined) return this.#none;
    return this.#cache.getOrCompute(String(header), (text) => preferencesOf(splitList(text, ","), this.#usual));
  }
}

/** Throws Problem with `handling=strict`. */
export function refuseUnknown({ handling, unknown }: Preferences): void {
  if (handling === "strict" && unknown.length > 0) throw badRequest(`unknown preferences: ${unknown.join(", ")}`);
}

const isDialect = (name: string): name is Dialect => (DIALECTS as readonly string[]).includes(name);

function preferencesOf(items: readonly string[], usual: ReadonlySet<Dialect>): Preferences {
  const dialects = new Set<Dialect>();
  const unknown: string[] = [];
  let handling: Preferences["handling"] = null;
  let saysNone = false;
  let respondsAsync = false;
  let read: Preferences["read"] = null;
  for (const item of items) {
    const text = splitList(item, ";")[0] ?? "";
    const { name, value } = readPair(text) ?? { name: text.toLowerCase(), value: "" };
    if (name === "respond-async") respondsAsync = true;
    else if (name === "read" && value === "primary") read = value;
    else if (name === "handling" && (value === "strict" || value === "lenient")) handling ??= value;
    else if (name === "dialect") {
      for (const word of value.split(/\s+/)) {
        if (isDialect(word)) dialects.add(word);
        else if (word === NO_DIALECT) saysNone = true;
        else unknown.push(`dialect=${word}`);
      }
    } else if (name !== "wait") unknown.push(item);
  }
  const isNone = saysNone && dialects.size === 0;
  return {
    dialects: isNone || dialects.size > 0 ? dialects : usual,
    named: isNone ? new Set([NO_DIALECT]) : dialects,
    handling,
    respondsAsync,
    read,
    unknown,
  };
}

/** `"v1-734"` → 734, the version of the row. Tags of other forms match no row. */
const ROW_TAG = /^"v[0-9]+[a-z]*-([0-9]+)"$/;

/**
 * If-Match, If-None-Match and If-Unmodified-Since of a change, the last one only if the response `hasDate`. Throws
 * Problem for malformed tags: ignoring them would not protect the record.
 */
export function parsePreconditions(
  headers: IncomingHttpHeaders,
  hasDate: boolean,
  values: Values,
): readonly Precondition[] {
  const matching = tagsOf("If-Match", headers["if-match"]);
  const others = tagsOf("If-None-Match", headers["if-none-match"]);
  const since = headers["if-unmodified-since"];
  const preconditions: Precondition[] = [];
  // `If-Match: *` requires only that the row exists, as every change does.
  if (matching !== null && matching !== "any")
    preconditions.push({ kind: "version in", value: values.add(versionsOf(matching.filter(isStrong))) });
  if (others === "any") preconditions.push({ kind: "never" });
  else if (others !== null) preconditions.push({ kind: "version not in", value: values.add(versionsOf(others)) });
  // Tags take precedence over the date. Source: RFC 9110, 13.2.2.
  const date = hasDate && matching === null && since !== undefined ? parseHttpDate(since) : null;
  if (date) preconditions.push({ kind: "unmodified since", value: values.add(String(date.getTime() / 1000)) });
  return preconditions;
}

/** Null without the header. */
function tagsOf(header: string, text: string | undefined): "any" | readonly string[] | null {
  if (text === undefined) return null;
  const tags = parseEntityTags(text);
  if (tags === null) throw malformedPrecondition(header);
  return tags;
}

/** A weak tag means equivalent content, not identical content. */
const isStrong = (tag: string) => !tag.startsWith("W/");

/** An array literal of Postgres: `{734,735}`. */
const versionsOf = (tags: readonly string[]) =>
  `{${tags.flatMap((tag) => ROW_TAG.exec(contentOf(tag))?.[1] ?? []).join(",")}}`;
