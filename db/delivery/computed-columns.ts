import type { ChangedTable, Image } from "../changes/change.ts";
import { computedJson } from "../changes/json.ts";
import { CheckError } from "../rights/checker.ts";
import type { Rights } from "../rights/rights.ts";
import type { ChangeVisibility, Watch } from "../rights/watch.ts";
import { quoteIdentifier } from "../sql.ts";
import type { Statement } from "../transaction/transaction.ts";
import { writeArray } from "../wire/array-text.ts";

/**
 * Has Postgres write the computed columns of changes that subscribers see, in the role of one of them. A column that it cannot write
 * is sent as text, and a generated one not at all.
 */
export async function computeColumns<W extends Watch>(
  seen: readonly ChangeVisibility<W>[],
  { checker, onInternalError }: Pick<Rights, "checker" | "onInternalError">,
): Promise<void> {
  const visible = seen.filter((each) => each.visible.length > 0);
  for (const [table, ofTable] of Map.groupBy(visible, ({ change }) => change.table)) {
    if (!table.columns.some((column) => column.computed)) continue;
    const { caller } = ofTable[0]!.visible[0]!.watch;
    const all = ofTable.flatMap(({ change }) => [change.new, change.old]);
    const images = all.filter((image) => image !== null && !computedJson.has(image)) as Image[];
    if (images.length === 0) continue;
    const statement = writeStatement(table, images);
    const [rows] = await checker.each([caller], statement, checker.inquiry("alone"));
    if (rows instanceof CheckError) onInternalError(rows);
    else for (const [i, image] of images.entries()) computedJson.set(image, columnsOf(table, image, rows![i]!));
  }
}

type Computed = ChangedTable["columns"][number] & { readonly computed: object };

const isComputed = (column: ChangedTable["columns"][number]): column is Computed => column.computed !== undefined;

/** A row for each image, with the JSON of the computed columns in order. No column has a name that begins with "§". */
function writeStatement({ columns }: ChangedTable, images: readonly Image[]): Statement {
  const computedColumns = columns.filter(isComputed);
  const inputs = new Map(
    computedColumns.flatMap(({ computed }) => computed.inputs.map((input) => [input.number, input] as const)),
  );
  const given = [...inputs.values()].map(({ name, type }, i) => `given."§${i}"::${type} as ${quoteIdentifier(name)}`);
  const json = computedColumns.map(
    (column) => `coalesce(pg_catalog.to_json(${column.computed!.expression})::text, 'null')`,
  );
  // The first array makes the rows of a table whose expressions have no inputs.
  const arrays = [null, ...inputs].map((_, i) => `$${i + 1}::text[]`);
  const names = ['"§"', ...[...inputs].map((_, i) => `"§${i}"`)];
  return {
    text: `select ${json.join()} from (
      select ${[...given, '"§n"'].join()} from unnest(${arrays.join()}) with ordinality as given (${[...names, '"§n"'].join()})
    ) as "§row" order by "§n"`,
    values: [
      writeArray(images.map(() => "")),
      ...[...inputs.keys()].map((number) => {
        const at = columns.findIndex((column) => column.number === number);
        return writeArray(images.map((image) => image[at] ?? null));
      }),
    ],
  };
}

/** Without those that an image has not all inputs of. */
function columnsOf({ columns }: ChangedTable, image: Image, row: readonly unknown[]): ReadonlyMap<number, string> {
  const valueAt = (number: number) => image[columns.findIndex((column) => column.number === number)];
  const known = new Map<number, string>();
  let at = 0;
  for (const [i, { computed: column }] of columns.entries()) {
    if (!column) continue;
    const json = String(row[at++]);
    if (column.inputs.every(({ number }) => valueAt(number) !== undefined)) known.set(i, json);
  }
  return known;
}
