import { type PgResource, pgSelect, TYPES } from "postgraphile/@dataplan/pg";
import { access, constant, context, lambda, listen, type Step } from "postgraphile/grafast";
import { sql } from "postgraphile/pg-sql2";
import type { Change } from "../../db/changes/change.ts";
import type { FilterRequest } from "../../db/rights/filter.ts";

export type Table = PgResource<any, any, any, any, any>;
export type ChangeOperation = Exclude<Change["operation"], "TRUNCATE">;

/** As graphql/execute/change-events.ts expects it. */
type ChangeFilter = {
  readonly schema: string;
  readonly table: string;
  /** The columns of its primary key. */
  readonly key: readonly string[];
  /** Its columns, and their numbers in pg_attribute. */
  readonly columns: ReadonlyMap<string, number>;
  readonly operations: readonly ChangeOperation[];
  /** Columns and their values. */
  readonly where: Readonly<Record<string, string>>;
  readonly filter: FilterRequest | null;
  /** Whether events have the old row, and an UPDATE that takes a row out of view is a DELETE. */
  readonly isWhole: boolean;
};

type Wanted = {
  readonly $operations: Step<ChangeFilter["operations"]>;
  readonly $where: Step<ChangeFilter["where"]>;
  readonly $filter: Step<ChangeFilter["filter"]>;
  readonly isWhole: boolean;
};

/** The committed changes of a table with this operation, whose columns have the values of `$where`, and which fulfil `$filter`. */
export const changes = (
  table: Table,
  operation: ChangeOperation,
  $where: Step<ChangeFilter["where"]>,
  $filter: Step<ChangeFilter["filter"]> = constant(null),
) => listenTo(table, { $operations: constant([operation]), $where, $filter, isWhole: false });

export function listenTo(source: Table, { $operations, $where, $filter, isWhole }: Wanted) {
  const { schemaName: schema, name: table } = source.extensions!.pg!;
  const key = keyOf(source);
  const columns = numbersOf(source);
  const $wanted = lambda(
    [$operations, $where, $filter] as const,
    ([operations, where, filter]): ChangeFilter => ({
      schema: schema!,
      table,
      key,
      columns,
      operations,
      where,
      filter,
      isWhole,
    }),
  );
  return listen(context().get("changes" as never) as any, $wanted as any);
}

/** The row as the subscriber sees it now; null if it is gone, or hidden by a policy. */
export const currentRow = (table: Table) => ($change: any) =>
  table.get(
    Object.fromEntries(keyOf(table).map((attribute) => [attribute, access($change, ["row", attribute])])) as never,
  );

/** The row that was logged, with the columns that the subscriber may read; null if there is none. */
export const oldRow = (table: Table) => ($change: any) => {
  const $rows = pgSelect({
    resource: table as any,
    identifiers: [],
    from: (rows: any) => sql`json_populate_recordset(null::${table.codec.sqlType}, ${rows.placeholder})`,
    args: [{ step: access($change, ["old"]), pgCodec: { ...TYPES.json, toPg: (text: unknown) => text } as never }],
  } as never);
  $rows.setTrusted();
  const $row = $rows.single() as any;
  // Of the columns that cannot be null, only those of the key are always logged: without them, Grafast would take the row for null.
  $row.get(keyOf(table)[0]);
  return $row;
};

const numbersOf = ({ codec }: Table): ReadonlyMap<string, number> =>
  new Map(Object.entries<any>(codec.attributes).map(([name, { extensions }]) => [name, extensions?.number]));

/** The columns of the primary key. */
export const keyOf = ({ uniques }: Table): readonly string[] =>
  (uniques as { isPrimary?: boolean; attributes: string[] }[]).find(({ isPrimary }) => isPrimary)?.attributes ?? [];
