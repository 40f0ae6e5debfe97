declare global {
  interface JSON {
    /** A number of JSON as it is written, for `JSON.stringify`. */
    rawJSON(text: string): object;
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

/** Characters of the longest text whose numbers are kept. To visit all values of a text takes eight times as long as to parse it. */
const MOST = 65_536;

/** Texts with a number that may have more digits than JavaScript, or an exponent. */
const MAY_LOSE_DIGITS = /(?:^|[[:,\s])-?(?:[\d.]{16}|[\d.]+[eE][+-]?\d)/;

const mayLoseDigits = (text: string) => text.length <= MOST && MAY_LOSE_DIGITS.test(text);

const isExact = (text: string): boolean => {
  const value = Number(text);
  return String(value) === text || (Number.isFinite(value) && !MAY_LOSE_DIGITS.test(text));
};

/** A number whose digits `JSON.stringify` writes as they are here. */
export const exactNumber = (text: string): number | object => (isExact(text) ? Number(text) : JSON.rawJSON(text));

type Source = { readonly source?: string };
type Reviver = (this: object, key: string, value: unknown, context: Source) => unknown;
const parse = JSON.parse as (text: string, reviver?: Reviver) => unknown;

/** As JSON.parse, but numbers that JavaScript would round are written by `JSON.stringify` as they were. */
export const parseExactly = (text: string): unknown =>
  mayLoseDigits(text)
    ? parse(text, (_key, value, { source }) => (typeof value === "number" ? exactNumber(source!) : value))
    : parse(text);

/** The digits of a number that JavaScript would round; undefined for every other value. */
export const digitsOf = (value: unknown): string | undefined => (JSON.isRawJSON(value) ? value.rawJSON : undefined);

/** The objects and arrays in which `parseNoting` has rounded numbers, on any level: the keys of these, and their digits. */
const rounded = new WeakMap<object, Map<string, string>>();

/** As JSON.parse; `withExactNumbers` finds the digits of numbers that it has rounded. */
export const parseNoting = (text: string): unknown =>
  mayLoseDigits(text)
    ? parse(text, function (key, value, { source }) {
        const isRounded = typeof value === "number" && !isExact(source!);
        if (isRounded || isNoted(value)) rounded.set(this, rounded.get(this) ?? new Map());
        if (isRounded) rounded.get(this)!.set(key, source!);
        return value;
      })
    : parse(text);

const isNoted = (value: unknown): value is object => typeof value === "object" && value !== null && rounded.has(value);

/** A value of `parseNoting` whose numbers are written by `JSON.stringify` as they were received. */
export function withExactNumbers(value: unknown): unknown {
  if (!isNoted(value)) return value;
  const sources = rounded.get(value)!;
  const exact = (item: unknown, key: string) => {
    const source = sources.get(key);
    return source === undefined ? withExactNumbers(item) : JSON.rawJSON(source);
  };
  if (Array.isArray(value)) return value.map((item, i) => exact(item, String(i)));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, exact(item, key)]));
}
