import type { Caller } from "../../db/caller.ts";
import type { Column } from "../../db/catalog/catalog.ts";
import { Html, html } from "../../gate/pages/html.ts";
import { records } from "../../gate/pages/table.ts";
import { jsonObject } from "../advisor/why/asked-change.ts";
import { FormFault, marksOf, messageFor, nameOfCaller } from "./caller-form.ts";
import { csrfField, type Rendered, type ViewInput } from "./console.ts";
import {
  changeRequest,
  keyFilters,
  type Row,
  readRequest,
  refusalIn,
  refusedColumnIn,
  rowsIn,
  type Selection,
  stringsIn,
  versionOf,
} from "./data-request.ts";
import { nameOf } from "./diagram.ts";
import type { InProcessRequest } from "./in-process.ts";
import { CONSOLE } from "./path.ts";
import { type Tried, transaction } from "./try.ts";

export type RowOptions = {
  readonly selection: Selection;
  /** The columns that the caller may update. */
  readonly updatable: readonly string[];
  readonly caller: Caller;
  /** Sends a request as the caller. Unless `keeps`, its changes are rolled back. */
  send(request: InProcessRequest, keeps?: boolean): Promise<Tried>;
  /** A link to the rows with other parameters. */
  link(changes: Readonly<Record<string, string | readonly string[] | null>>): string;
};

/** Characters of a value that can be changed here. */
const MAX_EDITED = 60_000;
const LONG = 60;

/** The page of one row: its values to change, the SQL of the change before it is made, and the change. */
export async function rowPage(
  keyText: string,
  options: RowOptions,
  { form, operator, query }: ViewInput,
): Promise<Rendered> {
  const { selection, link, caller } = options;
  const key = stringsIn(keyText);
  const row = key && (await readRow(key, options));
  if (!key || !row)
    return html`${title(options)}<p class="alert" role="alert">No row with this key is visible to ${nameOfCaller(caller)}.</p>`;
  const shown = (part: Html) =>
    html`${title(options)}<p>As ${nameOfCaller(caller)}. Policies and constraints hold, and triggers run.</p>${part}`;
  const action = link({ key: keyText });
  const csrf = operator.csrf;
  try {
    if (form === null) {
      const done = query.has("done") ? html`<p class="notice" role="status">The change is made.</p>` : null;
      return shown(html`${done}${editForm(row, options, { action, csrf, entered: null, fault: null })}`);
    }
    if (form.get("version") !== versionOf(row))
      throw new FormFault(
        "The row has changed since you opened it. Its values now are below: enter your change again.",
      );
    const body = form.get("action") === "apply" ? (form.get("body") ?? "") : bodyOf(form, row, options);
    if (jsonObject(body) === null) throw new FormFault("The change is not a JSON object.");
    if (body === "{}") throw new FormFault("Nothing differs from the row: change a value first.");
    const isApplied = form.get("action") === "apply";
    const tried = await options.send(changeRequest(selection, key, body), isApplied);
    const changed = changedRow(tried, editableColumns(row, options));
    if (isApplied)
      return {
        location: link({ key: JSON.stringify(selection.table.primaryKey.map((name) => changed[name])), done: "on" }),
      };
    return shown(confirmation(row, changed, body, tried, { action, csrf }));
  } catch (error) {
    if (!(error instanceof FormFault)) throw error;
    const alert = error.field === null ? html`<p class="alert" role="alert">${error.message}</p>` : null;
    // A confirmation has the change alone.
    const hasValues = form?.get("version") === versionOf(row) && form.get("action") !== "apply";
    const entered = hasValues ? form : null;
    return shown(html`${alert}${editForm(row, options, { action, csrf, entered, fault: error })}`);
  }
}

const title = ({ selection, link }: RowOptions): Html =>
  html`<p><a href="${link({})}">All rows</a></p><h1>A row of <code>${nameOf(selection.table)}</code></h1>`;

async function readRow(key: readonly string[], { selection, send }: RowOptions): Promise<Row | null> {
  const conditions = keyFilters(selection.table, key);
  const { response } = await send(readRequest({ ...selection, conditions, order: null }, { limit: 1, offset: 0 }));
  return (response && rowsIn(response)?.[0]) ?? null;
}

/** The row after the change. Throws FormFault if there is none. */
function changedRow({ response }: Tried, editable: readonly Column[]): Row {
  if (response === null) throw new FormFault("There was no response in time, and nothing is changed.");
  const rows = rowsIn(response);
  if (rows === null) {
    const column = editable.find(({ name }) => name === refusedColumnIn(response));
    throw new FormFault(refusalIn(response), column ? `value ${column.name}` : null);
  }
  const [row] = rows;
  if (!row)
    throw new FormFault("No row is changed: no policy lets the caller update it. The page Why? names the policy.");
  return row;
}

/** The values that differ from the row, as a JSON object. JSON is sent as it is; all else as text, which Postgres reads. */
function bodyOf(form: URLSearchParams, row: Row, options: RowOptions): string {
  const members = editableColumns(row, options).flatMap((column) => {
    const { name } = column;
    const entered = enteredValue(form, name, row[name] ?? null, column);
    if (entered === undefined || entered === (row[name] ?? null)) return [];
    return [
      `${JSON.stringify(name)}: ${entered === null ? "null" : isJson(column) ? validJson(entered, name) : JSON.stringify(entered)}`,
    ];
  });
  return `{${members.join(", ")}}`;
}

/** Undefined if the form does not have the field. A text that is entered where the row has null is a value, even if “null” is still checked. */
function enteredValue(
  form: URLSearchParams,
  name: string,
  present: string | null,
  { isNullable }: Column,
): string | null | undefined {
  const sent = form.get(`value ${name}`);
  if (sent === null) return undefined;
  const text = present?.includes("\r\n") ? sent : sent.replaceAll("\r\n", "\n");
  const isNull = isNullable && form.has(`null ${name}`) && (present !== null || text === "");
  return isNull ? null : text;
}

const isJson = ({ shape }: Column) => !shape.isArray && (shape.name === "json" || shape.name === "jsonb");

function validJson(text: string, name: string): string {
  try {
    JSON.parse(text);
    return text;
  } catch (error) {
    throw new FormFault(`This is not JSON: ${(error as Error).message}.`, `value ${name}`);
  }
}

const editableColumns = (row: Row, { selection, updatable }: RowOptions): readonly Column[] =>
  [...selection.table.columns.values()].filter(
    ({ name, generated }) =>
      selection.columns.includes(name) &&
      updatable.includes(name) &&
      generated !== "always" &&
      (row[name]?.length ?? 0) <= MAX_EDITED,
  );

type FormState = {
  readonly action: string;
  readonly csrf: string;
  readonly entered: URLSearchParams | null;
  readonly fault: FormFault | null;
};

function editForm(row: Row, options: RowOptions, { action, csrf, entered, fault }: FormState): Html {
  const editable = editableColumns(row, options);
  const columns = options.selection.columns.map((name) => options.selection.table.columns.get(name)!);
  return html`<form method="post" action="${action}" class="values">
${csrfField(csrf)}<input type="hidden" name="version" value="${versionOf(row)}">
${columns.map((column, i) => (editable.includes(column) ? field(column, i, row, entered, fault) : fixed(column, row, options)))}
${editable.length > 0 ? html`<button>Show the change</button>` : html`<p>The caller may update no column of this row.</p>`}
</form>`;
}

function field(column: Column, i: number, row: Row, entered: URLSearchParams | null, fault: FormFault | null): Html {
  const { name, type, isNullable } = column;
  const present = row[name] ?? null;
  const value = entered?.get(`value ${name}`) ?? present ?? "";
  const isNull = entered ? entered.has(`null ${name}`) : present === null;
  const marks = fault?.field === `value ${name}` ? marksOf(`v${i}`, new FormFault(fault.message, `v${i}`)) : null;
  const attributes = html`id="v${i}" name="value ${name}"${marks}`;
  const labels = column.shape.isArray ? [] : column.shape.name === "bool" ? ["true", "false"] : column.shape.labels;
  const options = value === "" && present === null ? ["", ...labels] : labels;
  const isLong = isJson(column) || value.length > LONG || value.includes("\n");
  const control =
    labels.length > 0
      ? html`<select ${attributes}>${options.map((label) => html`<option${new Html(label === value ? " selected" : "")}>${label}</option>`)}</select>`
      : isLong
        ? html`<textarea ${attributes} rows="${Math.min(14, Math.max(3, value.split("\n").length + Math.floor(value.length / 90)))}">\n${value}</textarea>`
        : html`<input ${attributes} class="code" value="${value}">`;
  return html`<div class="value-field"><label for="v${i}">${name} <small class="muted">${type}</small></label>${control}
${isNullable ? html`<label class="null"><input type="checkbox" name="null ${name}"${new Html(isNull ? " checked" : "")}> null<span class="unseen"> for ${name}</span></label>` : null}
${marks && messageFor(`v${i}`, new FormFault(fault!.message, `v${i}`))}</div>`;
}

function fixed({ name, type, generated }: Column, row: Row, { updatable }: RowOptions): Html {
  const value = row[name] ?? null;
  const reason =
    generated === "always"
      ? "generated"
      : !updatable.includes(name)
        ? "not granted for update"
        : "too long to change here";
  return html`<div class="value-field"><span class="label">${name} <small class="muted">${type}, ${reason}</small></span><div class="fixed">${value === null ? html`<i class="muted">null</i>` : value.slice(0, 2000)}</div></div>`;
}

const shortText = (value: string | null): Html =>
  value === null ? html`<i class="muted">null</i>` : html`<span class="value">${value.slice(0, 2000)}</span>`;

/** The change as the database made it before it was rolled back, with its SQL. */
function confirmation(
  row: Row,
  changed: Row,
  body: string,
  { transactions }: Tried,
  { action, csrf }: Pick<FormState, "action" | "csrf">,
): Html {
  const names = Object.keys(changed).filter((name) => changed[name] !== row[name]);
  return html`<section id="outcome">
<h2>What will change</h2>
<p>The database has made the change and rolled it back. Nothing is changed yet.</p>
${
  names.length === 0
    ? html`<p class="warn">No value differs afterwards.</p>`
    : records(
        ["Column", "Now", "After the change"],
        names.map((name) => [
          html`<code>${name}</code>`,
          shortText(row[name] ?? null),
          shortText(changed[name] ?? null),
        ]),
      )
}
<form method="post" action="${action}" class="row">
${csrfField(csrf)}<input type="hidden" name="version" value="${versionOf(row)}"><input type="hidden" name="body" value="${body}">
<button name="action" value="apply">Make this change</button><a href="${action}">Cancel</a>
</form>
<h2>SQL</h2>
${transactions.map(transaction)}
<p class="muted"><a href="${CONSOLE}/why">Why?</a> explains which policies hold for a row.</p>
</section>`;
}
