import { isUtf8 } from "node:buffer";

/** Why bytes are not JSON that is accepted. */
export class InvalidJson extends Error {}

/** Throws InvalidJson: bytes that are not UTF-8, brackets that are nested too deeply, a syntax error. */
export function parseJsonText(bytes: Buffer, maxDepth: number, parse: (text: string) => unknown = JSON.parse): unknown {
  if (!isUtf8(bytes)) throw new InvalidJson("the body is not valid UTF-8");
  if (scan(bytes, maxDepth, () => {}) > maxDepth)
    throw new InvalidJson(`the body is nested more than ${maxDepth} levels deep`);
  try {
    return parse(bytes.toString());
  } catch (error) {
    throw new InvalidJson(`the body is not valid JSON: ${(error as Error).message}`);
  }
}

/**
 * Where the elements of a valid JSON array begin, `[` and `,` excluded, and then the end of the array: element i is the text from
 * position i to the byte before position i + 1.
 */
export function elementsOf(bytes: Buffer): Uint32Array<ArrayBuffer> {
  const starts: number[] = [];
  scan(bytes, Number.POSITIVE_INFINITY, (at) => starts.push(at + 1));
  return Uint32Array.from(starts);
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const isOpening = (byte: number) => byte === 0x7b || byte === 0x5b;
const isClosing = (byte: number) => byte === 0x7d || byte === 0x5d;

/**
 * The deepest level of brackets outside strings; stops counting above `max`. JSON.parse itself has no limit. Visits the outermost
 * brackets and the commas between them.
 */
function scan(bytes: Buffer, max: number, visit: (at: number) => void): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < bytes.length && deepest <= max; i++) {
    const byte = bytes[i]!;
    if (inString) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (isOpening(byte)) {
      deepest = Math.max(deepest, ++depth);
      if (depth === 1) visit(i);
    } else if (isClosing(byte)) {
      if (--depth === 0) visit(i);
    } else if (byte === COMMA && depth === 1) visit(i);
  }
  return deepest;
}
