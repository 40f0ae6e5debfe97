import { once } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Transform } from "node:stream";
import { promisify } from "node:util";
import zlib from "node:zlib";

const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN } = zlib.constants;

/** The fastest levels: the next ones take two to four times as long and save a few per cent more. */
const GZIP = { level: 1, chunkSize: 65_536 };
/** For bodies up to SMALL: a sixth of the memory, of which V8 collects the whole heap for every 64 MB. */
const GZIP_SMALL = { level: 1, windowBits: 13, memLevel: 5, chunkSize: 8192 };
const SMALL = 8192;
const BROTLI = { params: { [BROTLI_PARAM_QUALITY]: 1, [BROTLI_PARAM_LGWIN]: 18 }, chunkSize: 65_536 };

type Compression = {
  now(body: Buffer): Buffer;
  /** In a thread of its own. */
  later(body: Buffer): Promise<Buffer>;
  stream(): Transform;
};

const gzip = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gzip);
const brotli = promisify<Buffer, zlib.BrotliOptions, Buffer>(zlib.brotliCompress);

/** Brotli is preferred: it takes half as long for large bodies, and as long for others. */
const CODINGS = {
  br: {
    now: (body) => zlib.brotliCompressSync(body, BROTLI),
    later: (body) => brotli(body, BROTLI),
    stream: () => zlib.createBrotliCompress(BROTLI),
  },
  gzip: {
    now: (body) => zlib.gzipSync(body, body.length > SMALL ? GZIP : GZIP_SMALL),
    later: (body) => gzip(body, GZIP),
    stream: () => zlib.createGzip(GZIP),
  },
} as const satisfies Record<string, Compression>;

export type Coding = keyof typeof CODINGS;

/** Bytes of the shortest body that is compressed. With its head, a shorter one has place in a packet or two as it is. */
export const MIN_BYTES = 1024;

/** Bytes that are compressed at once, which takes less than half a millisecond. */
const MAX_AT_ONCE = 65_536;

/** Of what a stream holds: the state of the compression, by measurement. */
export const STREAM_BYTES = 700_000;

/** Not for images and other formats that are compressed themselves, nor for events, which must not wait for further ones. */
const COMPRESSIBLE = /^text\/(?!event-stream)|[/+](?:json|xml|yaml|javascript|x-ndjson|jsonl)\b/i;

/** Whether the client may want a body of so many bytes compressed: a quick answer for most requests. */
export function mayBeCompressed({ headers: { "accept-encoding": accepted } }: IncomingMessage, bytes: number): boolean {
  // With `identity;q=0`, short ones too.
  return accepted !== undefined && (bytes >= MIN_BYTES || String(accepted).includes("q=0"));
}

/**
 * The coding in which a body is sent; null if it is sent as it is. Not for a page of another origin that lets the browser add the
 * credentials: from the length of the response it could learn a secret beside a text that it has sent (BREACH).
 */
export function codingOf(request: IncomingMessage, type: string, bytes: number): Coding | null {
  const { headers } = request;
  if (!mayBeCompressed(request, bytes) || !COMPRESSIBLE.test(type) || isForeign(headers)) return null;
  const { coding, isRequired } = acceptedCoding(String(headers["accept-encoding"]));
  return bytes >= MIN_BYTES || isRequired ? coding : null;
}

function isForeign({ "sec-fetch-site": site, cookie, authorization = "" }: IncomingHttpHeaders): boolean {
  return (site === "cross-site" || site === "same-site") && (cookie !== undefined || /^basic\b/i.test(authorization));
}

type Accepted = {
  readonly coding: Coding | null;
  /** Whether the client refuses a body that is not compressed. */
  readonly isRequired: boolean;
};

/**
 * The coding that a client prefers. `*` stands for gzip, which more clients know. A coding is preferred to `identity` unless its `q` is
 * lower.
 *
 *   acceptedCoding("gzip, deflate, br")         // { coding: "br", isRequired: false }
 *   acceptedCoding("gzip;q=0.5, identity;q=1")  // { coding: null, isRequired: false }
 *   acceptedCoding("gzip, *;q=0")               // { coding: "gzip", isRequired: true }
 * Source: RFC 9110, 12.5.3.
 */
export function acceptedCoding(header: string): Accepted {
  const qualities = new Map(header.toLowerCase().split(",").map(qualityOf));
  const others = qualities.get("*");
  const identity = qualities.get("identity") ?? (others === 0 ? 0 : null);
  const br = qualities.get("br") ?? 0;
  const gzip = qualities.get("gzip") ?? qualities.get("x-gzip") ?? others ?? 0;
  const best = Math.max(br, gzip);
  const isRefused = best === 0 || best < (identity ?? 0);
  return { coding: isRefused ? null : br === best ? "br" : "gzip", isRequired: identity === 0 };
}

/** ` gzip;q=0.5` → `["gzip", 0.5]`. A malformed `q` refuses the coding. */
function qualityOf(part: string): [name: string, quality: number] {
  const [name = "", ...parameters] = part.split(";").map((each) => each.trim());
  const q = parameters.find((parameter) => parameter.startsWith("q="));
  return [name, q === undefined ? 1 : Number(/^q=([01](?:\.\d*)?)$/.exec(q)?.[1] ?? 0)];
}

/** The body in this coding. */
export const compress = async (body: Buffer, coding: Coding): Promise<Buffer> =>
  body.length > MAX_AT_ONCE ? CODINGS[coding].later(body) : CODINGS[coding].now(body);

/** A body that arrives in parts, in this coding. A part is no longer used when the next one is asked for. */
export async function* compressParts(parts: AsyncIterable<Buffer>, coding: Coding): AsyncGenerator<Buffer, void> {
  const stream = CODINGS[coding].stream();
  const compressed: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => compressed.push(chunk));
  // Whatever is written rejects with it.
  stream.on("error", () => {});
  try {
    for await (const part of parts) {
      await new Promise<void>((resolve, reject) => stream.write(part, (error) => (error ? reject(error) : resolve())));
      yield* compressed.splice(0);
    }
    stream.end();
    await once(stream, "end");
    yield* compressed;
  } finally {
    stream.destroy();
  }
}
