/** Of the object itself, and of each of its fields, in V8. */
const OBJECT_BYTES = 32;
const FIELD_BYTES = 16;
const STRING_BYTES = 16;

/** The bytes that a value takes which is plain data, such as the claims of a token. What it shares with others is counted too. */
export function bytesOf(value: unknown): number {
  // V8 keeps one byte for each character of most texts, otherwise two.
  if (typeof value === "string") return STRING_BYTES + Buffer.byteLength(value);
  if (typeof value !== "object" || value === null) return 0;
  let sum = OBJECT_BYTES;
  if (Array.isArray(value) || value instanceof Set) {
    for (const item of value) sum += FIELD_BYTES + bytesOf(item);
  } else if (value instanceof Map) {
    for (const [key, item] of value) sum += 2 * FIELD_BYTES + bytesOf(key) + bytesOf(item);
  } else {
    for (const key in value) sum += FIELD_BYTES + bytesOf((value as Record<string, unknown>)[key]);
  }
  return sum;
}
