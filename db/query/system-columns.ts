import type { Table } from "../catalog/catalog.ts";
import type { RowsPlan, SourceColumn } from "./plan.ts";

/** Every table has these columns, though `*` leaves them out. Source: PostgreSQL, "System Columns". */
const SYSTEM_COLUMNS: ReadonlyMap<string, SourceColumn> = new Map(
  ["tableoid oid", "xmin xid", "cmin cid", "xmax xid", "cmax cid", "ctid tid"].map((text) => {
    const [name, type] = text.split(" ") as [string, string];
    const shape = {
      name: type,
      schema: "pg_catalog",
      category: "base",
      isArray: false,
      domain: null,
      labels: [],
    } as const;
    return [name, { name, type, shape }];
  }),
);

/** Views have none, but may have columns of these names. */
export const systemColumn = ({ kind }: Table, name: string): SourceColumn | undefined =>
  kind === "view" ? undefined : SYSTEM_COLUMNS.get(name);

const isSystemColumn = (column: SourceColumn): boolean => SYSTEM_COLUMNS.get(column.name) === column;

/** The names of the system columns that the rows depend on. */
export function systemColumnsOf({ outputs, order }: RowsPlan): readonly string[] {
  const fields = [
    ...outputs.flatMap((output) => (output.kind === "field" ? [output.value.field] : [])),
    ...order.flatMap(({ key }) => (key.kind === "field" ? [key.field] : [])),
  ];
  const columns = fields.flatMap((field) => (field?.origin.kind === "column" ? [field.origin.column] : []));
  return [...new Set(columns.filter(isSystemColumn).map(({ name }) => name))];
}
