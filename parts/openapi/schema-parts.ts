import type { Header, JsonSchema, Parameter, Reference, Response } from "./document.ts";

/** An object whose properties are all required, unless `required` names fewer. */
export const objectOf = (
  properties: Readonly<Record<string, JsonSchema>>,
  description = "",
  required: readonly string[] = Object.keys(properties),
): JsonSchema => ({
  type: "object",
  ...(description && { description }),
  properties,
  ...(required.length > 0 && { required }),
});

/** The object with further properties, which are not required. */
export const withOptional = (object: JsonSchema, properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  ...object,
  properties: { ...object.properties, ...properties },
});

export const arrayOf = (items: JsonSchema): JsonSchema => ({ type: "array", items });

const TEXT: JsonSchema = { type: "string" };

export const textOf = (description: string): JsonSchema => ({ ...TEXT, description });

export const countOf = (description: string, minimum = 0): JsonSchema => ({ type: "integer", minimum, description });

export const timeOf = (description: string): JsonSchema => ({ type: "string", format: "date-time", description });

/** Joins those that are not empty. */
export const paragraphs = (...texts: readonly string[]): string => texts.filter((text) => text !== "").join("\n\n");

/**
 * The default of a property of a body, "" for undefined. With the keyword `default`, validators would fill in what a client leaves out,
 * which resets a column in a PATCH, and generators would make the property required.
 */
export const defaultText = (value: unknown): string =>
  value === undefined ? "" : `Default: \`${JSON.stringify(value)}\`.`;

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

export const queryParameter = (name: string, description: string, schema = TEXT): Parameter => ({
  name,
  in: "query",
  description,
  required: false,
  schema,
});

export const headerParameter = (name: string, description: string, schema = TEXT): Parameter => ({
  ...queryParameter(name, description, schema),
  in: "header",
});

export const pathParameter = (name: string, description: string, schema = TEXT): Parameter => ({
  ...queryParameter(name, description, schema),
  in: "path",
  required: true,
});

/** A preference, its effect, and the operations for which it has one, separated by spaces. */
export type Preference = readonly [name: string, effect: string, operations: string];

/** The header `Prefer` of an operation. */
export function preferParameter(introduction: string, all: readonly Preference[], operation: string): Parameter {
  const own = all.filter(([, , operations]) => operations.split(" ").includes(operation));
  const lines = own.map(([name, effect]) => `- \`${name}\`: ${effect}`);
  return headerParameter("Prefer", [introduction, ...lines].join("\n"));
}

/** References to parameters of the document. */
export const shared = <Key extends string>(...keys: readonly Key[]): Reference[] =>
  keys.map((key) => refer("parameters", key));

export const headerOf = (description: string, schema = TEXT): Header => ({ description, schema });

/** The header of a read. */
export const CHANGE_POSITION = headerOf(
  "The position from which a subscription receives exactly the changes after this read. Absent if changes cannot be read.",
);

/** Error responses of an interface by status: the key and description of a component, and its headers. */
export type ErrorResponses = Readonly<
  Record<number, readonly [key: string, description: string, ...headers: string[]]>
>;

/** The components of error responses, whose body is the component `schema`. */
export const errorComponents = (all: ErrorResponses, schema: string): Readonly<Record<string, Response>> =>
  Object.fromEntries(
    Object.values(all).map(([key, description, ...headers]) => [
      key,
      {
        description,
        ...(headers.length > 0 && { headers: headerReferences(...headers) }),
        content: { "application/json": { schema: refer("schemas", schema) } },
      },
    ]),
  );

/** `{ "400": { $ref: … }, … }` */
export const errorReferences = (
  all: ErrorResponses,
  statuses: readonly number[],
): Readonly<Record<string, Reference>> =>
  Object.fromEntries(statuses.map((status) => [String(status), refer("responses", all[status]![0])]));

export const headerReferences = (...names: readonly string[]): Readonly<Record<string, Reference>> =>
  Object.fromEntries(names.map((name) => [name, refer("headers", name)]));

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
