import type { JsonSchema, Parameter, Reference } from "./document.ts";

/** An object whose properties are all required. */
export const objectOf = (properties: Readonly<Record<string, JsonSchema>>, description?: string): JsonSchema => ({
  type: "object",
  ...(description && { description }),
  properties,
  required: Object.keys(properties),
});

/** The object with further properties, which are not required. */
export const withOptional = (object: JsonSchema, properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  ...object,
  properties: { ...object.properties, ...properties },
});

export const arrayOf = (items: JsonSchema): JsonSchema => ({ type: "array", items });

export const textOf = (description: string): JsonSchema => ({ type: "string", description });

export const timeOf = (description: string): JsonSchema => ({ type: "string", format: "date-time", description });

/**
 * A property of a body with its default as text, unless the default is undefined. With the keyword `default`, validators would fill in what a client
 * leaves out, which resets a column in a PATCH, and generators would make the property required.
 */
export function withDefaultText(schema: JsonSchema, value: unknown): JsonSchema {
  if (value === undefined) return schema;
  const text = `Default: \`${JSON.stringify(value)}\`.`;
  return { ...schema, description: schema.description ? `${schema.description}\n\n${text}` : text };
}

/** The description of the header `Change-Position`. */
export const CHANGE_POSITION =
  "The position from which a subscription receives exactly the changes after this read. Absent if changes cannot be read.";

/**
 * Maps names of the database, which may contain any character, to component keys, which contain only letters, digits,
 * `-` and `_`. (OpenAPI also allows `.`, which joins keys here.) A name that is a valid key is its own key. A number makes
 * the other keys unique:
 *
 *   componentKeys(["a b", "a_b"])  // "a b" → "a_b_2", "a_b" → "a_b"
 *
 * `endings` are appended to a key to form further keys, which are unique as well.
 */
export function componentKeys(
  names: Iterable<string>,
  endings: readonly string[] = [""],
  reserved: Iterable<string> = [],
): ReadonlyMap<string, string> {
  const taken = new Set(reserved);
  const keys = new Map<string, string>();
  for (const name of [...names].sort(validKeysFirst)) {
    const plain = name.replace(INVALID_CHARACTER, "_");
    let key = plain;
    for (let n = 2; endings.some((ending) => taken.has(key + ending)); n++) key = `${plain}_${n}`;
    for (const ending of endings) taken.add(key + ending);
    keys.set(name, key);
  }
  return keys;
}

const INVALID_CHARACTER = /[^a-zA-Z0-9_-]/g;
const validKeysFirst = (a: string, b: string) =>
  Number(a.search(INVALID_CHARACTER) !== -1) - Number(b.search(INVALID_CHARACTER) !== -1);

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

/** A database comment, split for documentation. */
type Documentation = { readonly summary: string; readonly description: string };

/** `@behavior -select`: a smart tag, which only the GraphQL interface uses. */
const SMART_TAG = /^@[A-Za-z]/;

/**
 * Splits a comment, without the smart tags at its beginning, into its first line and the rest. Both are "" for an empty
 * comment.
 *
 *   documentationOf("Sends a letter.\n\nIt costs a stamp.")  // { summary: "Sends a letter.", description: "It costs a stamp." }
 */
export function documentationOf(comment: string | null): Documentation {
  const lines = plainText(comment).split("\n");
  return { summary: lines[0]!.trim(), description: lines.slice(1).join("\n").trim() };
}

/** The comment without smart tags. */
export function plainText(comment: string | null): string {
  const lines = (comment ?? "").trim().split(/\r?\n/);
  const first = lines.findIndex((line) => !SMART_TAG.test(line.trim()));
  return first === -1 ? "" : lines.slice(first).join("\n").trim();
}
