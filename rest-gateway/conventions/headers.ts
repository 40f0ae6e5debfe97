import { parserCache } from "../../cache/cache.ts";
import type { ChangeFeed } from "../../db/changes/feed.ts";
import type { ReplicatedRequest } from "../../db/replicas/replicas.ts";

export type Header = readonly [name: string, value: string];

/** Puts headers in place of those of the same name. In `all` and in the result, names and values alternate. */
export function replaced(all: readonly string[], given: readonly Header[]): string[] {
  const names = new Set(given.map(([name]) => name.toLowerCase()));
  const kept = all.filter((_, i) => !names.has(all[i - (i % 2)]!.toLowerCase()));
  return [...kept, ...given.flat()];
}

/** `a, b="c, d"` → `["a", "b=\"c, d\""]`: splits at separators outside quotes and drops empty parts. */
export function splitList(text: string, separator: "," | ";"): string[] {
  const parts: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted && character === "\\") i++;
    else if (!isQuoted && character === separator) {
      parts.push(text.slice(start, i));
      start = i + 1;
    }
  }
  parts.push(text.slice(start));
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}

/** `Name = "a \"b\""` → `{ name: "name", value: "a \"b\"" }`; null for anything else. */
export function readPair(text: string): { readonly name: string; readonly value: string } | null {
  const equals = text.indexOf("=");
  if (equals === -1) return null;
  const name = text.slice(0, equals).trim().toLowerCase();
  const value = unquote(text.slice(equals + 1).trim());
  return TOKEN.test(name) && value !== null ? { name, value } : null;
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

function unquote(text: string): string | null {
  if (!text.startsWith('"')) return text.includes('"') ? null : text;
  const inner = /^"((?:[^"\\]|\\.)*)"$/.exec(text)?.[1];
  return inner === undefined ? null : inner.replace(/\\(.)/g, "$1");
}

/** `application/vnd.pgrst.plan+json; for="text/csv"; options=analyze|buffers` */
export type MediaType = {
  readonly type: string;
  /** Names in lower case, sorted. */
  readonly parameters: ReadonlyMap<string, string>;
};

type Wanted = MediaType & { readonly quality: number; readonly precision: number };

const ANYTHING: readonly MediaType[] = [{ type: "*/*", parameters: new Map() }];
const TYPE = /^[!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** Also `.2`, as Java sends it. */
const QUALITY = /^(?:0?\.[0-9]+|0\.?|1(?:\.0*)?)$/;

const accepts = parserCache<readonly MediaType[]>();

/**
 * The media types of the header Accept, most preferred first: by `q`, then by precision, then in order. Malformed types count only if
 * there are no others: `undefined` is none that is available. Without the header, or if all its types have `q=0`, anything is acceptable.
 */
export const parseAccept = (header: string | undefined): readonly MediaType[] =>
  header === undefined ? ANYTHING : accepts.getOrCompute(header, parseAcceptHeader);

function parseAcceptHeader(text: string): readonly MediaType[] {
  const parts = splitList(text, ",");
  const read = parts.map(parseWanted).filter((each) => each !== null);
  const wanted = read.filter(({ quality }) => quality > 0);
  if (wanted.length === 0)
    return read.length === 0 && parts.length > 0 ? parts.map((type) => ({ type, parameters: new Map() })) : ANYTHING;
  wanted.sort((a, b) => b.quality - a.quality || b.precision - a.precision);
  return wanted.map(({ type, parameters }) => ({ type, parameters }));
}

function parseWanted(text: string): Wanted | null {
  const media = parseContentType(text);
  if (media === null) return null;
  const q = media.parameters.get("q") ?? "1";
  const quality = QUALITY.test(q) ? Number(q) : 0;
  const parameters = new Map(media.parameters);
  parameters.delete("q");
  const stars = media.type.split("*").length - 1;
  return { type: media.type, parameters, quality, precision: parameters.size - stars };
}

/**
 * Parses a media type, such as the header Content-Type; null if it is malformed. Malformed parameters are ignored.
 *
 *   parseContentType('text/csv; Charset="utf-8"; x')  // { type: "text/csv", parameters: { charset → utf-8 } }
 * Source: MIME Sniffing Standard, "Parsing a MIME type".
 */
export function parseContentType(text: string): MediaType | null {
  const [first = "", ...others] = splitList(text, ";");
  const type = first.toLowerCase();
  if (!TYPE.test(type)) return null;
  const pairs = others.map(readPair).filter((pair) => pair !== null);
  const values = new Map(pairs.map(({ name, value }) => [name, value]));
  return { type, parameters: new Map([...values.keys()].sort().map((name) => [name, values.get(name)!])) };
}

/**
 * The position in the changes that follow a read: a subscriber that starts there misses nothing and gets nothing twice. `mark` was
 * read before the query, and `snapshot` is its pg_current_snapshot(). No header if either is missing. With replicas, a write has the position of its
 * commit.
 */
export function positionHeader(
  feed: Pick<ChangeFeed, "textAfter">,
  mark: ChangeFeed["mark"],
  snapshot: Buffer | null | undefined,
  replicated?: Pick<ReplicatedRequest, "reading" | "position">,
): Header[] {
  const written = replicated?.position ?? null;
  const replayed = replicated?.reading?.replayed ?? null;
  if (written !== null) return changePosition(written);
  return changePosition(mark && snapshot ? feed.textAfter(mark, snapshot.toString(), replayed) : null);
}

/** No header without a position. */
const changePosition = (text: string | null): Header[] => (text === null ? [] : [["Change-Position", text]]);
