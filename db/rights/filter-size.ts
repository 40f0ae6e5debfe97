import type { Watch } from "./watch.ts";

/** What a value of a list takes beside its characters: in the list, and in the lookup. Measured: 85 to 125 bytes. */
const BYTES_PER_VALUE = 128;
const BYTES_PER_CHARACTER = 2;
/** A condition has about 190 characters in the shape. Measured: 490 to 610 bytes for each condition, and more if the shape is new. */
const BYTES_PER_SHAPE_CHARACTER = 5;

/**
 * The memory that a filter takes while a subscriber uses it, and the lists in the claims of the caller: a policy that compares with one
 * keeps its values for a lookup.
 */
export function watchBytes({ filter, caller }: Pick<Watch, "filter" | "caller">): number {
  const ofFilter = filter && valuesBytes(filter.terms.flat()) + filter.shape.length * BYTES_PER_SHAPE_CHARACTER;
  return (ofFilter ?? 0) + listBytes(caller.claims);
}

function listBytes(claim: unknown): number {
  if (typeof claim !== "object" || claim === null) return 0;
  const values = Object.values(claim);
  return values.reduce((sum, value) => sum + listBytes(value), Array.isArray(claim) ? valuesBytes(values) : 0);
}

const valuesBytes = (values: readonly unknown[]): number =>
  values.reduce<number>((sum, value) => sum + BYTES_PER_VALUE + charactersOf(value) * BYTES_PER_CHARACTER, 0);

const charactersOf = (value: unknown): number => (typeof value === "string" ? value.length : 0);
