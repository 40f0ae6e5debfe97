import type { Caller } from "../../db/caller.ts";
import type { Catalog, Table } from "../../db/catalog/catalog.ts";
import { withoutSmartTags } from "../../db/catalog/constraints.ts";
import { tableExposure } from "../../db/catalog/exposure.ts";
import { mayUseSchema } from "../../db/catalog/grants.ts";
import { type Html, html } from "../../gate/pages/html.ts";
import { table as tableOf } from "../../gate/pages/table.ts";
import { type AsOptions, asFields, callerIn, FormFault, nameOfCaller, selectField } from "./caller-form.ts";
import type { Rendered, View, ViewInput } from "./console.ts";
import {
  allTables,
  FILTER_TEXTS,
  isFilter,
  type Row,
  type RowFilter,
  readRequest,
  refusalIn,
  rowsIn,
  type Selection,
  selectionIn,
} from "./data-request.ts";
import { type RowOptions, rowPage } from "./data-row.ts";
import { nameOf } from "./diagram.ts";
import type { InProcessRequest } from "./in-process.ts";
import { CONSOLE } from "./path.ts";
import type { Tried, TryOptions } from "./try.ts";

export type DataOptions = AsOptions & Pick<TryOptions, "send" | "onTried"> & { catalog(): Catalog };

export const DATA = `${CONSOLE}/data`;

const PAGE_SIZE = 50;
const MAX_VALUE = 120;
const LONG = 30;
const MAX_LISTED = 1000;
/** Tables with a link of their own. All are in the list of the form. */
const MAX_LINKS = 60;
/** Rows of an export, and of each request that reads them. */
const MAX_EXPORTED = 10_000;
const EXPORT_STEP = 500;
const CALLER_FIELDS = ["as", "user", "role", "claims"];

/** `/console/data?table=public.posts&as=user&user=ada`: the rows of a table as a caller sees them, and one row to change. */
export const dataView = (options: DataOptions): View => ({
  path: DATA,
  name: "Data",
  icon: "data",
  hasForm: true,
  async render(input) {
    const query = withCaller(input);
    const found = allTables(options.catalog()).find((each) => nameOf(each) === query.get("table")) ?? null;
    try {
      if (found === null) return chooser(query, input, options, missing(query));
      const caller = await callerIn(query, input.operator, options);
      return await pageOf(found, caller, query, input, options);
    } catch (error) {
      if (!(error instanceof FormFault)) throw error;
      return chooser(query, input, options, error);
    }
  },
});

/** At first, the caller is the operator. */
function withCaller({ query, operator }: ViewInput): URLSearchParams {
  const all = new URLSearchParams(query);
  if (!all.has("as"))
    for (const [name, value] of [
      ["as", "role"],
      ["role", operator.caller.role],
    ])
      all.set(name!, value!);
  return all;
}

const missing = (query: URLSearchParams) =>
  query.get("table") ? new FormFault(`“${query.get("table")}” is not a table of the served schemas.`) : null;

async function pageOf(
  table: Table,
  caller: Caller,
  query: URLSearchParams,
  input: ViewInput,
  options: DataOptions,
): Promise<Rendered> {
  const catalog = options.catalog();
  const isOpen = mayUseSchema(catalog, caller.role, catalog.schemas.get(table.schema)!);
  const { select, update } = tableExposure(catalog, caller.role, table).columns;
  const namesOf = (columns: readonly string[] | "all") =>
    !isOpen ? [] : columns === "all" ? [...table.columns.keys()] : columns;
  const selection = selectionIn(query, table, namesOf(select));
  if (selection.columns.length === 0)
    throw new FormFault(`${nameOfCaller(caller)} may read no column of ${nameOf(table)}: choose another caller.`);
  const added = addedCondition(query, selection);
  if (added !== null) return { location: `${DATA}?${added}` };
  const send = (request: InProcessRequest, keeps = false): Promise<Tried> => {
    options.onTried(input.operator.name, nameOfCaller(caller), request, keeps);
    return options.send(request, caller, input.operator.id, keeps);
  };
  const key = query.get("key");
  if (query.get("export") === "csv") return exported(selection, send);
  const link = (changes: Changes) => linkTo(query, changes);
  const row: RowOptions = { selection, updatable: namesOf(update), caller, send, link };
  if (key !== null) return rowPage(key, row, input);
  return html`${head(query, input, options, table)}${await rowsPart(query, row)}`;
}

type Changes = Readonly<Record<string, string | readonly string[] | null>>;

/** The same page with other parameters: null leaves one out. A link begins at the first page unless it says otherwise. */
function linkTo(query: URLSearchParams, changes: Changes): string {
  const all = new URLSearchParams(query);
  for (const name of ["offset", "export", "key", "done", "column", "operator", "value"]) all.delete(name);
  for (const [name, value] of Object.entries(changes)) {
    all.delete(name);
    for (const each of value === null ? [] : [value].flat()) all.append(name, each);
  }
  return `${DATA}?${all}`;
}

/** Where a condition that was entered in the form becomes one of the conditions of the page; null if there is none. */
function addedCondition(query: URLSearchParams, { conditions, columns }: Selection): URLSearchParams | null {
  if (!query.has("column")) return null;
  const all = new URLSearchParams(query);
  const added: RowFilter = [query.get("column")!, query.get("operator") ?? "", query.get("value") ?? ""];
  for (const name of ["column", "operator", "value", "offset", "where"]) all.delete(name);
  for (const each of isFilter(added, columns) ? [...conditions, added] : conditions)
    all.append("where", JSON.stringify(each));
  return all;
}

const chooser = (query: URLSearchParams, input: ViewInput, options: DataOptions, fault: FormFault | null): Html => html`
<h1>Data</h1>
<p>The rows of a table as a caller sees them, through the table interface: grants and policies hold. A change is shown with its SQL before it is made.</p>
${fault && fault.field === null ? html`<p class="alert" role="alert">${fault.message}</p>` : null}
${tableForm(query, input, options, fault)}
${tableLinks(allTables(options.catalog()))}`;

const head = (query: URLSearchParams, input: ViewInput, options: DataOptions, table: Table): Html => html`
<h1>Data</h1>
<details class="sent"><summary><span>${nameOf(table)} as ${callerText(query)}</span></summary>${tableForm(query, input, options, null)}</details>`;

const callerText = (query: URLSearchParams): string =>
  query.get("as") === "user"
    ? `user ${query.get("user")}`
    : query.get("as") === "role"
      ? `role ${query.get("role")}`
      : "an anonymous caller";

function tableForm(
  query: URLSearchParams,
  { operator }: ViewInput,
  options: DataOptions,
  fault: FormFault | null,
): Html {
  const names = allTables(options.catalog()).slice(0, MAX_LISTED).map(nameOf);
  return html`<form method="get" action="${DATA}">
${names.length === 0 ? html`<p>The served schemas have no tables yet.</p>` : html`<div class="row">${selectField({ name: "table", label: "Table", values: names, value: query.get("table") ?? names[0]! })}</div>`}
${asFields(query, operator, options, fault)}
<button>Show</button>
</form>`;
}

/** The tables, as links to their rows. */
const tableLinks = (tables: readonly Table[]): Html | null =>
  tables.length === 0
    ? null
    : html`<h2>Tables</h2>
<ul class="offers">${tables
        .slice(0, MAX_LINKS)
        .map(
          (each) =>
            html`<li><strong><a href="${DATA}?${new URLSearchParams({ table: nameOf(each) }).toString()}">${nameOf(each)}</a></strong>${each.comment && html`<p>${withoutSmartTags(each.comment)}</p>`}</li>\n`,
        )}</ul>`;

async function rowsPart(
  query: URLSearchParams,
  { selection, send, link, updatable, caller }: RowOptions,
): Promise<Html> {
  const offset = Math.max(0, Math.min(1e9, Number.parseInt(query.get("offset") ?? "0", 10) || 0));
  const { response } = await send(readRequest(selection, { limit: PAGE_SIZE + 1, offset }));
  const rows = response && rowsIn(response);
  const filters = filterForm(query, selection, link);
  if (rows === null)
    return html`${filters}<p class="alert" role="alert">${response ? refusalIn(response) : "There was no response in time: filter by a column that has an index."}</p>`;
  const shown = rows.slice(0, PAGE_SIZE);
  const previous =
    offset > 0 ? html`<a href="${link({ offset: String(Math.max(0, offset - PAGE_SIZE)) })}">Previous rows</a>` : null;
  const next =
    rows.length > PAGE_SIZE ? html`<a href="${link({ offset: String(offset + PAGE_SIZE) })}">Next rows</a>` : null;
  const isEditable = updatable.length > 0 && isKeyReadable(selection);
  return html`${filters}
${shown.length === 0 ? html`<p class="empty">${offset > 0 ? "No more rows." : `No row is visible to ${nameOfCaller(caller)}.`}</p>` : rowsTable(shown, selection, link, isEditable)}
<p class="row">${shown.length > 0 ? html`<span class="muted">Rows ${offset + 1} to ${offset + shown.length}</span>` : null} ${previous} ${next} <a href="${link({ export: "csv" })}" download>Export as CSV</a></p>`;
}

const isKeyReadable = ({ table, columns }: Selection): boolean =>
  table.primaryKey.length > 0 && table.primaryKey.every((name) => columns.includes(name));

function filterForm(query: URLSearchParams, { columns, conditions }: Selection, link: RowOptions["link"]): Html {
  const kept = [...query].filter(([name]) => ["table", "where", "order", "direction", ...CALLER_FIELDS].includes(name));
  const removal = (i: number) =>
    link({ where: conditions.filter((_, other) => other !== i).map((each) => JSON.stringify(each)) });
  return html`<form method="get" action="${DATA}" class="row filter" role="search">
${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
${selectField({ name: "column", label: "Filter", values: columns, value: columns[0]! })}
<select name="operator" aria-label="Operator">${Object.entries(FILTER_TEXTS).map(([name, text]) => html`<option value="${name}">${text}</option>`)}</select>
<input name="value" aria-label="Value" maxlength="1000"><button class="quiet">Add</button>
</form>
${conditions.length === 0 ? null : html`<ul class="chips">${conditions.map(([column, operator, value], i) => html`<li><code>${column} ${FILTER_TEXTS[operator]!}${operator.endsWith(".null") ? "" : ` ${value}`}</code> <a href="${removal(i)}" aria-label="Remove the filter ${column} ${FILTER_TEXTS[operator]!} ${value}">×</a></li>`)}</ul>`}`;
}

function rowsTable(
  rows: readonly Row[],
  { table, columns, order }: Selection,
  link: RowOptions["link"],
  isEditable: boolean,
): Html {
  const heading = (name: string) => {
    const isChosen = order?.column === name;
    const direction = isChosen && order.direction === "asc" ? "desc" : "asc";
    return html`<a href="${link({ order: name, direction })}">${name}${isChosen ? (order.direction === "asc" ? " ↑" : " ↓") : ""}</a>`;
  };
  const keyOf = (row: Row) => JSON.stringify(table.primaryKey.map((name) => row[name]));
  const edit = (row: Row) =>
    html`<td><a href="${link({ key: keyOf(row) })}" aria-label="Edit ${keyOf(row)}">Edit</a></td>`;
  return tableOf(
    [...(isEditable ? ["Row"] : []), ...columns.map(heading)],
    rows.map((row) => html`<tr>${isEditable ? edit(row) : null}${columns.map((name) => cell(row[name] ?? null))}</tr>`),
  );
}

const cell = (value: string | null): Html => {
  if (value === null) return html`<td class="muted"><i>null</i></td>`;
  const shown = value.length > MAX_VALUE ? `${value.slice(0, MAX_VALUE)}…` : value;
  return html`<td class="value${value.length > LONG ? " long" : ""}">${shown}</td>`;
};

/** All rows of the selection as CSV, read in steps. Rejects with FormFault. */
async function exported(selection: Selection, send: RowOptions["send"]): Promise<Rendered> {
  const parts: Buffer[] = [];
  for (let offset = 0; ; offset += EXPORT_STEP) {
    if (offset > 0 && !isKeyReadable(selection))
      throw new FormFault(`Without a primary key, an export has at most ${EXPORT_STEP} rows: filter the rows.`);
    if (offset >= MAX_EXPORTED) throw new FormFault(`An export has at most ${MAX_EXPORTED} rows: filter the rows.`);
    const { response } = await send(readRequest(selection, { limit: EXPORT_STEP, offset }, "text/csv"));
    if (response === null || response.isCut) throw new FormFault("The rows are too large for an export: filter them.");
    if (response.status >= 300) throw new FormFault(refusalIn(response));
    const count =
      Number(/-(\d+)\//.exec(String(response.headers["content-range"] ?? ""))?.[1] ?? offset - 1) + 1 - offset;
    const { body } = response;
    if (offset === 0) parts.push(body);
    else if (count > 0) parts.push(Buffer.from("\n"), body.subarray(body.indexOf(10) + 1));
    if (count < EXPORT_STEP)
      return {
        file: `${selection.table.name.replace(/[^\w-]/g, "_")}.csv`,
        type: "text/csv",
        body: Buffer.from(Buffer.concat(parts).toString().replace(CELL, asText)),
      };
  }
}

/** A cell of CSV, with its quotes. */
const CELL = /"(?:[^"]|"")*"|[^",\n]+/g;
const FORMULA = /^"?[=+\-@\t\r]/;
const NUMBER = /^[+-](\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A spreadsheet would calculate a value like `=1+1`, which anyone may have written. With an apostrophe before it, it stays text. */
const asText = (cell: string): string => (FORMULA.test(cell) && !NUMBER.test(cell) ? cell.replace(/^"?/, "$&'") : cell);
