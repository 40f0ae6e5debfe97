import type { TypeShape } from "../../../db/catalog/catalog.ts";
import { isUuid } from "../../conventions/parameters.ts";
import { invalidId, noSuchRow } from "../problem.ts";
import type { Resource } from "../resource.ts";

const WHOLE_NUMBER = /^-?(?:0|[1-9][0-9]*)$/;

/** Bits of the types that keys may have. */
const BITS: Readonly<Record<string, number>> = { int2: 16, int4: 32, int8: 64 };

/**
 * The id as Postgres takes it. Throws RestError: INVALID_ID for what can't be one (`abc`, `1.0`, `+1`), not found for a
 * number that is too large to be one.
 */
export function parseId(text: string, resource: Resource): string {
  const { shape } = resource.key.column;
  if (shape.name === "uuid") {
    if (!isUuid(text)) throw invalidId(text.slice(0, 50), resource);
    return text;
  }
  if (!WHOLE_NUMBER.test(text)) throw invalidId(text.slice(0, 50), resource);
  if (!fits(text, shape)) throw noSuchRow(resource);
  return text;
}

/** Whether a whole number is in the range of a type. */
export function fits(text: string, { name }: TypeShape): boolean {
  // Longer texts are no numbers of these types, and slow to read.
  if (text.length > 20) return false;
  const value = BigInt(text);
  return BigInt.asIntN(BITS[name] ?? 64, value) === value;
}
