import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";

/** The text of a file that a setting names. */
export function readFile(path: string): string {
  try {
    return readText(path);
  } catch (error) {
    throw new Error(`names a file that cannot be read: ${(error as Error).message}`);
  }
}

/** The text of a file, without the byte order mark of some editors. Throws if it is not UTF-8: other characters would be read. */
export const readText = (path: string): string => readUtf8(path).replace(/^\ufeff/, "");

/** The same with that mark. */
export function readUtf8(path: string): string {
  const bytes = readFileSync(path);
  if (isUtf8(bytes) && !bytes.includes(0)) return bytes.toString();
  throw new Error(`${path} is not text in UTF-8: save it in UTF-8, without a byte order mark`);
}
