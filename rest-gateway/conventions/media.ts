import { parserCache } from "../../cache/text-cache.ts";
import { readPair, splitList } from "./header-list.ts";

/** `application/vnd.pgrst.plan+json; for="text/csv"; options=analyze|buffers` */
export type MediaType = {
  readonly type: string;
  /** Names in lower case, sorted. */
  readonly parameters: ReadonlyMap<string, string>;
};

type Wanted = MediaType & { readonly quality: number; readonly precision: number };

const ANYTHING: readonly MediaType[] = [{ type: "*/*", parameters: new Map() }];
const TYPE = /^[!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+$/;
const QUALITY = /^(?:0(?:\.[0-9]*)?|1(?:\.0*)?)$/;

const accepts = parserCache<readonly MediaType[]>();

/**
 * The media types of the header Accept, most preferred first: by `q`, then by precision, then in order. Without the header,
 * or if all its types are malformed or have `q=0`, anything is acceptable.
 */
export const parseAccept = (header: string | undefined): readonly MediaType[] =>
  header === undefined ? ANYTHING : accepts.getOrCompute(header, parseAcceptHeader);

function parseAcceptHeader(text: string): readonly MediaType[] {
  const wanted = splitList(text, ",")
    .map(parseWanted)
    .filter((each) => each !== null && each.quality > 0) as Wanted[];
  if (wanted.length === 0) return ANYTHING;
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
 * Parses a media type, such as the header Content-Type; null if it is malformed.
 *
 *   parseContentType('text/csv; Charset="utf-8"')  // { type: "text/csv", parameters: { charset → utf-8 } }
 */
export function parseContentType(text: string): MediaType | null {
  const [first = "", ...others] = splitList(text, ";");
  const type = first.toLowerCase();
  const pairs = others.map(readPair);
  if (!TYPE.test(type) || pairs.includes(null)) return null;
  const values = new Map(pairs.map((pair) => [pair!.name, pair!.value]));
  return { type, parameters: new Map([...values.keys()].sort().map((name) => [name, values.get(name)!])) };
}
