import type { Caller } from "../caller.ts";
import type { Term } from "../filters/evaluate.ts";
import type { PreparedFilter } from "./filter.ts";

/** What a value of a list takes beside its characters: in the list, and in the lookup. Measured: 85 to 125 bytes. */
const BYTES_PER_VALUE = 128;
const BYTES_PER_CHARACTER = 2;
/** A condition has about 190 characters in the shape. Measured: 490 to 610 bytes for each condition, and more if the shape is new. */
const BYTES_PER_SHAPE_CHARACTER = 5;

/** The memory that a filter takes while a subscriber uses it. */
export function filterBytes(filter: PreparedFilter | null): number {
  if (filter === null) return 0;
  return filter.terms.reduce((sum, term) => sum + termBytes(term), filter.shape.length * BYTES_PER_SHAPE_CHARACTER);
}

function termBytes(term: Term): number {
  if (!Array.isArray(term)) return BYTES_PER_VALUE + ((term as string | null)?.length ?? 0) * BYTES_PER_CHARACTER;
  let sum = 0;
  for (const value of term) sum += BYTES_PER_VALUE + (value?.length ?? 0) * BYTES_PER_CHARACTER;
  return sum;
}

/** The memory that the lists in the claims of a subscriber take: a policy that compares with one keeps its values for a lookup. */
export const claimsBytes = ({ claims }: Pick<Caller, "claims">): number => listBytes(claims);

function listBytes(claim: unknown): number {
  if (typeof claim !== "object" || claim === null) return 0;
  const values = Object.values(claim);
  const own = Array.isArray(claim) ? values.reduce((sum, value) => sum + valueBytes(value), 0) : 0;
  return values.reduce((sum, value) => sum + listBytes(value), own);
}

const valueBytes = (value: unknown): number =>
  BYTES_PER_VALUE + (typeof value === "string" ? value.length * BYTES_PER_CHARACTER : 0);
