import type { JsonSchema, Parameter, Reference } from "./document.ts";

/** An object that has all of these. */
export const objectOf = (properties: Readonly<Record<string, JsonSchema>>, description?: string): JsonSchema => ({
  type: "object",
  ...(description && { description }),
  properties,
  required: Object.keys(properties),
});

export const arrayOf = (items: JsonSchema): JsonSchema => ({ type: "array", items });

/**
 * Keys of components, which may hold letters, digits, `-` and `_` alone, for names of the database, which may hold any character. (A `.`
 * could be used too; it is kept to join keys.) Names that would be the same are set apart by a number, and a name that
 * is a key already stays what it is:
 *
 *   componentKeys(["a b", "a_b"])  // "a b" → "a_b_2", "a_b" → "a_b"
 *
 * `endings`: what is put behind a key to make further ones, which must be apart from all others too.
 */
export function componentKeys(
  names: Iterable<string>,
  endings: readonly string[] = [""],
  reserved: Iterable<string> = [],
): ReadonlyMap<string, string> {
  const taken = new Set(reserved);
  const keys = new Map<string, string>();
  for (const name of [...names].sort(keysFirst)) {
    const plain = name.replace(NO_KEY, "_");
    let key = plain;
    for (let n = 2; endings.some((ending) => taken.has(key + ending)); n++) key = `${plain}_${n}`;
    for (const ending of endings) taken.add(key + ending);
    keys.set(name, key);
  }
  return keys;
}

const NO_KEY = /[^a-zA-Z0-9_-]/g;
const keysFirst = (a: string, b: string) => Number(a.search(NO_KEY) !== -1) - Number(b.search(NO_KEY) !== -1);

export const refer = (kind: "schemas" | "parameters" | "headers" | "responses", key: string): Reference => ({
  $ref: `#/components/${kind}/${key}`,
});

export const queryParameter = (
  name: string,
  description: string,
  schema: JsonSchema = { type: "string" },
): Parameter => ({
  name,
  in: "query",
  description,
  required: false,
  schema,
});
export const headerParameter = (
  name: string,
  description: string,
  schema: JsonSchema = { type: "string" },
): Parameter => ({
  ...queryParameter(name, description, schema),
  in: "header",
});
