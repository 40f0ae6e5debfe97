import type { ChangedColumn, ChangedTable } from "./change.ts";
/** A table as a source describes it. `type` is the OID of the column's type. */
export type DescribedTable = Omit<ChangedTable, "columns"> & {
  readonly columns: readonly Pick<ChangedColumn, "name" | "number" | "isLogged" | "type" | "computed">[];
};

/**
 * A column as it is now, by its number in pg_attribute. `changedBy` is the last transaction that has changed it, modulo 2³²; null if that
 * is so long ago that its number does not say when.
 */
export type NumberedRow = {
  readonly name: string;
  readonly number: number;
  readonly isDropped: boolean;
  readonly isGenerated: boolean;
  readonly changedBy: number | null;
};

/** The columns that a table has had. `isListed`: a publication leaves out some of them. */
export type NumberedRows = { readonly rows: readonly NumberedRow[]; readonly isListed: boolean };

/** What is known about a table when it is described. */
export type Knowledge = {
  /** An earlier description. */
  readonly before?: DescribedTable | undefined;
  /** Whether the transaction was committed before the changes that are described: what it has changed has been the same since. */
  isSettled(xid: number): boolean;
};

type Columns = DescribedTable["columns"];
type Numbers = (number | undefined)[];

const NOTHING: Knowledge = { isSettled: () => false };

/**
 * The columns that the log contains, in the order of their numbers. The log has only the names that they had, and DDL may have changed
 * them since. A column whose number is not certain has none: its values must never appear under the name of another column, which others
 * may read.
 */
export function withNumbers({ columns }: DescribedTable, found: NumberedRows, knowledge: Knowledge = NOTHING): Columns {
  const sent = columns.filter(({ computed }) => computed?.isSent !== false);
  const { before } = knowledge;
  const numbers = numbersOf(sent, found, knowledge) ?? numbersOf(sent, found, { before, ...NOTHING }) ?? [];
  return sent.map(({ name, number, isLogged, type }, i) => ({ name, number: number ?? numbers[i], isLogged, type }));
}

/** Null if the rows do not fit the columns: one was not settled. */
function numbersOf(sent: Columns, { rows, isListed }: NumberedRows, { before, isSettled }: Knowledge): Numbers | null {
  const isOld = ({ changedBy }: NumberedRow) => changedBy === null || isSettled(changedBy);
  const settled = new Map(rows.flatMap((row) => (!row.isDropped && isOld(row) ? [[row.name, row.number]] : [])));
  const certain = sent.map(({ name, number }) => number ?? settled.get(name));
  const open = rows.filter((row) => !isOld(row) && !certain.includes(row.number));
  const numbers: Numbers = [];
  while (numbers.length < sent.length) {
    const start = numbers.length;
    if (certain[start] !== undefined) {
      numbers.push(certain[start]);
      continue;
    }
    // Columns and rows between two that are certain.
    const next = certain.findIndex((number, i) => i > start && number !== undefined);
    const end = next < 0 ? sent.length : next;
    const [low, high] = [certain[start - 1] ?? 0, certain[end] ?? Number.POSITIVE_INFINITY];
    const names = sent.slice(start, end).map(({ name }) => name);
    const between = open.filter(({ number }) => number > low && number < high);
    if (between.length < names.length) return null;
    const logged = between.filter(({ isGenerated, name }) => !isGenerated || names.includes(name));
    const candidates = logged.length < names.length ? between : logged;
    // Those that were added since are the last ones: what is there now, and precedes a column of the log, was in the log too.
    const isInOrder = !isListed && next < 0 && candidates.every(({ isDropped }) => !isDropped);
    const places = isInOrder ? [...names.keys()] : placesOf(names, candidates, before?.columns ?? []);
    numbers.push(...places.map((place) => candidates[place!]?.number));
  }
  return isPossible(numbers.map(placeAt), rows.length) ? numbers : null;
}

/** Numbers of columns begin with 1. */
const placeAt = (number: number | undefined) => (number === undefined ? undefined : number - 1);

/** Which of the rows the columns are, which had these names. */
function placesOf(names: readonly string[], rows: readonly NumberedRow[], before: Columns): Numbers {
  if (names.length === rows.length) return [...rows.keys()];
  const placeOf = (isSame: (row: NumberedRow) => boolean) => {
    const place = rows.findIndex(isSame);
    return place < 0 ? undefined : place;
  };
  const earlier = names.map((name) => {
    const column = before.find((each) => each.name === name);
    return placeOf(({ number }) => number === column?.number);
  });
  const present = names.map((name) => placeOf((row) => row.name === name && !row.isDropped));
  const free = earlier.map((place) => (present.includes(place) ? undefined : place));
  const all = [earlier.map((place, i) => place ?? present[i]), present.map((place, i) => place ?? free[i]), earlier];
  const found = all.find((places) => isPossible(places, rows.length)) ?? [];
  // Another column with its name may have been dropped in between.
  const isDoubtful = (place: number, i: number) => {
    const last = found.findLast((each, j) => j < i && each !== undefined) ?? -1;
    return place !== earlier[i] && rows.slice(last + 1, place).some(({ isDropped }) => isDropped);
  };
  return names.map((_, i) => (found[i] === undefined || isDoubtful(found[i], i) ? undefined : found[i]));
}

/** Whether columns can have these places, as far as they are known, among `count`. */
function isPossible(places: Readonly<Numbers>, count: number): boolean {
  let [at, last] = [-1, -1];
  return [...places, count].every((place, i) => {
    if (place === undefined) return true;
    const fits = place - last >= i - at;
    [at, last] = [i, place];
    return fits;
  });
}
