import type { Catalog, Table } from "../../../db/catalog/catalog.ts";
import type { Change, ChangedTable, Image } from "../../../db/changes/change.ts";
import { parseRow } from "../../../db/changes/json.ts";
import type { TableState } from "../../../db/changes/publication-state.ts";

/** A change that a subscriber may receive. TRUNCATE has no row. */
export const EVENTS = ["INSERT", "UPDATE", "DELETE"] as const;
export type AskedEvent = (typeof EVENTS)[number];

/** A change as a developer describes it. */
export type AskedChange = {
  readonly event: AskedEvent;
  /**
   * Reads the row that the rest begins with, as Postgres writes it: `(1,"a title",{})`, with the values of a JSON object in place of its
   * own. Null if the change is not about a row that exists.
   */
  readonly readRow: ((changes: string) => Promise<string>) | null;
  /** The values of the old row and of the new row that differ, as JSON objects; "" for none. */
  readonly old: string;
  readonly new: string;
};

/** Both rows as Postgres writes them; null if the change has none. */
export type AskedRows = { readonly old: string | null; readonly new: string | null };

type RowName = "old" | "new";

/** What has to be corrected in a question. The message is for the person who asks. */
export class QuestionFault extends Error {
  /** Whose values are wrong; null for another part of the question. */
  readonly row: RowName | null;
  constructor(message: string, row: RowName | null = null) {
    super(message);
    this.row = row;
  }
}

/** Characters of a primary key. */
export const MAX_KEY = 1000;
const MAX_JSON = 65_536;

/** The table with this name, whose schema may be left out. Throws QuestionFault. */
export function askedTable(text: string, catalog: Catalog): Table {
  const name = text.trim();
  const all = [...catalog.schemas.values()].flatMap(({ tables }) => [...tables.values()]);
  const found = all.find((each) => `${each.schema}.${each.name}` === name) ?? all.find((each) => each.name === name);
  if (!found) throw new QuestionFault(`“${name}” is not a table of the served schemas.`);
  if (!hasRows(found))
    throw new QuestionFault(`${name} is a ${found.kind}: its rows are those of its tables, so ask for one of these.`);
  return found;
}

/** Whether a table has rows and policies of its own. */
export const hasRows = ({ kind }: Table): boolean => kind === "table" || kind === "partitioned table";

/** The values of a primary key, separated by commas. Throws QuestionFault. */
export function askedKey(given: string, { name, primaryKey }: Table): readonly string[] {
  const text = given.trim();
  if (primaryKey.length === 0) throw new QuestionFault(`${name} has no primary key, so a single row cannot be named.`);
  if (text.length > MAX_KEY) throw new QuestionFault(`The key must not have more than ${MAX_KEY} characters.`);
  const key = primaryKey.length === 1 ? [text] : text.split(",").map((part) => part.trim());
  if (key.length === primaryKey.length && text !== "") return key;
  throw new QuestionFault(
    `The key has ${primaryKey.length} ${primaryKey.length === 1 ? "value" : "values"}: ${primaryKey.join(", ")}.`,
  );
}

/** The rows of a change. `write` makes a row of a JSON object alone. Rejects with QuestionFault. */
export async function askedRows(
  { event, readRow, old, new: current }: AskedChange,
  table: Table,
  write: (values: string) => Promise<string>,
): Promise<AskedRows> {
  const rowOf = (text: string, name: RowName) => {
    const values = valuesIn(text, name, table);
    if (readRow) return readRow(values);
    if (values === "{}") throw new QuestionFault(`Give a primary key, or the values of the ${name} row.`, name);
    return write(values);
  };
  if (event === "INSERT" && old.trim() !== "") throw new QuestionFault("An INSERT has no old row.", "old");
  if (event === "DELETE" && current.trim() !== "") throw new QuestionFault("A DELETE has no new row.", "new");
  return {
    old: event === "INSERT" ? null : await rowOf(old, "old"),
    new: event === "DELETE" ? null : await rowOf(current, "new"),
  };
}

function valuesIn(text: string, name: RowName, { columns }: Table): string {
  if (text.trim() === "") return "{}";
  if (text.length > MAX_JSON)
    throw new QuestionFault(`The values of the ${name} row must not have more than ${MAX_JSON} characters.`, name);
  const values = jsonObject(text);
  if (values === null)
    throw new QuestionFault(`The values of the ${name} row must be a JSON object, such as {"id": 1}.`, name);
  const unknown = Object.keys(values).filter((column) => !columns.has(column));
  if (unknown.length > 0) throw new QuestionFault(`The table has no column ${unknown.join(", ")}.`, name);
  return text;
}

/** Null if the text is not a JSON object. */
export function jsonObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** The change as the feed would have it: without the columns that are not published, and of the old row only what is logged. */
export function changeOf(
  event: AskedEvent,
  rows: AskedRows,
  { oid, schema, name, columns }: Table,
  state: TableState,
): Change {
  const names = [...columns.keys()];
  const table: ChangedTable = {
    oid,
    schema,
    name,
    columns: [...columns.values()].map(({ name, number }) => ({ name, number, type: 0, typeName: "", shape: TEXT })),
  };
  const published = new Set(state.publishedColumns);
  const isLogged = (column: string) => state.relations.every(({ oldColumns }) => oldColumns.includes(column));
  const imageOf = (row: string | null, isKnown: (column: string) => boolean): Image | null =>
    row === null ? null : parseRow(row).map((value, i) => (isKnown(names[i]!) ? value : undefined));
  const current = imageOf(rows.new, (column) => published.has(column));
  const old = imageOf(rows.old, isLogged);
  const isWhole = state.relations.every(({ identity }) => identity === "f");
  // PostgreSQL logs the old key of an update only if it changes.
  const isOmitted =
    event === "UPDATE" && !isWhole && old!.every((value, i) => value === undefined || value === current![i]);
  return { ...NOWHERE, table, operation: event, new: current, old: isOmitted ? null : old };
}

const TEXT = { kind: "text" } as const;
const NOWHERE = { position: { lsn: 0n, index: 1 }, committedAt: 0, xid: 0 };

/** The table as the publication has it. */
export const stateOf = (tables: readonly TableState[], { schema, name }: Table): TableState | undefined =>
  tables.find((each) => each.schema === schema && each.table === name);
