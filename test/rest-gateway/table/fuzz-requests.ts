import fc from "fast-check";
import {
  AGGREGATES,
  BODIES,
  CHANGES,
  COLUMNS,
  COMMITS,
  HEADERS,
  OPERATORS,
  PATHS,
  PIECES,
  PLACES,
  PREFERENCES,
  RAW_PIECES,
  READS,
  TYPES,
  VALUES,
} from "./fuzz-samples.ts";

/** A request to `/rest/v1/`; `path` and the header values contain only characters that Node can send. */
export type FuzzRequest = {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
};

/** Percent-encodes text for a URL; a lone surrogate becomes invalid UTF-8. */
const encode = (text: string) =>
  text.replace(/[^\w.,:()*!~-]/gu, (character) =>
    character.isWellFormed() ? encodeURIComponent(character) : "%ed%a0%80",
  );
/** Encodes a path as a browser does. */
const sendable = (path: string) => path.replace(/[^\x21-\x7e]|#/gu, encode);

const piece = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom(...PIECES) },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 8 }) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 4 }) },
);
const encodedPiece = fc.oneof(
  { weight: 6, arbitrary: piece.map(encode) },
  { weight: 1, arbitrary: fc.constantFrom(...RAW_PIECES) },
);
const value = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...VALUES) }, { weight: 1, arbitrary: piece });
const header = fc.oneof(
  ...Object.entries(HEADERS).map(([name, known]) => {
    const latin1 = fc.integer({ min: 0x20, max: 0xff }).filter((code) => code !== 0x7f);
    const any = fc.string({ unit: latin1.map((code) => String.fromCharCode(code)), maxLength: 12 });
    const text = fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...known) }, { weight: 1, arbitrary: any });
    return text.map((text) => [name, text] as const);
  }),
);
const headers = fc.array(header, { maxLength: 2 }).map((all) => Object.fromEntries(all));

const get = (path: string): FuzzRequest => ({ method: "GET", path: sendable(path), headers: {}, body: null });

/** Every operator on every type with every value. */
export const filters = fc
  .tuple(fc.constantFrom(...COLUMNS), fc.constantFrom(...PATHS), fc.constantFrom(...OPERATORS), value)
  .map(([column, path, operator, value]) => get(`things?select=id&${column}${path}=${operator}.${encode(value)}`));

const condition = fc.tuple(fc.constantFrom(...COLUMNS), fc.constantFrom(...OPERATORS), value);
export const logic = fc
  .array(condition, { minLength: 1, maxLength: 3 })
  .map((all) => all.map(([column, operator, value]) => `${column}.${operator}.${encode(value)}`).join())
  .map((conditions) => get(`things?select=id&or=(${conditions})`));

/** Casts of every type to every type, with aggregates. */
export const casts = fc
  .tuple(
    fc.constantFrom(...COLUMNS),
    fc.constantFrom(...PATHS),
    fc.constantFrom(...TYPES),
    fc.constantFrom(...AGGREGATES),
    fc.constantFrom("", "&order=v"),
  )
  .map(([column, path, type, aggregate, order]) =>
    get(`things?select=v:${column}${path}::${encode(type)}${aggregate}${order}`),
  );

/** Any text in any part of the URL. */
export const texts = fc
  .tuple(fc.constantFrom(...PLACES), fc.array(encodedPiece, { minLength: 1, maxLength: 2 }))
  .map(([[method, path], pieces]): FuzzRequest => {
    const body = method === "GET" || method === "DELETE" ? null : '{"id":7,"name":"x"}';
    return { ...get(path.replace("…", () => pieces.join(""))), method, body };
  });

const change = fc.record({
  at: fc.nat(999),
  kind: fc.constantFrom("replace", "delete", "double", "insert", "cut"),
  by: encodedPiece,
});
type Change = typeof change extends fc.Arbitrary<infer Value> ? Value : never;
const changes = fc.oneof(fc.constant([]), fc.array(change, { maxLength: 3 }));

const TOKENS = /->>|->|::|\.\.\.|%[0-9a-fA-F]{2}|\w+|./gsu;

/** The text with some words and characters replaced, deleted or repeated, or cut off at some point. */
function changed(text: string, all: readonly Change[]): string {
  let parts: readonly string[] = text.match(TOKENS) ?? [];
  for (const { at, kind, by } of all) {
    const i = at % (parts.length + 1);
    const [before, part = "", after] = [parts.slice(0, i), parts[i], parts.slice(i + 1)];
    const middle = { replace: [by], delete: [], double: [part, part], insert: [by, part], cut: [] }[kind];
    parts = [...before, ...middle, ...(kind === "cut" ? [] : after)];
  }
  return parts.join("");
}

/** Valid requests with changes. */
export const reads = fc
  .tuple(fc.constantFrom(...READS), changes, headers, fc.constantFrom("GET", "GET", "GET", "HEAD"))
  .map(([path, all, headers, method]): FuzzRequest => ({ ...get(changed(path, all)), method, headers }));

const column = fc.constantFrom(...COLUMNS, "id", "name", "nowhere", "__proto__", "", `${"a23456789_".repeat(6)}1234`);
const json = fc.oneof(fc.jsonValue({ maxDepth: 2 }), value, fc.constantFrom("\u0000", "\ud800", 1e300, -1));
const row = fc
  .tuple(fc.integer({ min: 1, max: 999 }), fc.array(fc.tuple(column, json), { maxLength: 3 }))
  .map(([id, pairs]) => Object.fromEntries([["id", id], ...pairs]));
const body = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(...BODIES) },
  { weight: 3, arbitrary: row.map((object) => JSON.stringify(object)) },
  { weight: 1, arbitrary: fc.array(row, { maxLength: 3 }).map((objects) => JSON.stringify(objects)) },
  {
    weight: 1,
    arbitrary: fc.tuple(row, changes).map(([object, all]) => changed(JSON.stringify(object), all).toWellFormed()),
  },
);

/** Writes and calls with changes. Deletions are always rolled back, so that later requests find the rows. */
export const writes = fc
  .tuple(
    fc.constantFrom(...CHANGES),
    changes,
    headers,
    body,
    fc.oneof(
      { weight: 1, arbitrary: fc.constantFrom(...PREFERENCES) },
      { weight: 2, arbitrary: fc.constantFrom(...COMMITS) },
    ),
  )
  .map(([[method, path], all, headers, body, prefer]): FuzzRequest => {
    const request = { ...get(changed(path, all)), method };
    if (method === "DELETE") return { ...request, headers };
    return { ...request, headers: { prefer, ...headers }, body };
  });
