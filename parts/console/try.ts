import { tryJson } from "../../config/json-file.ts";
import type { Caller } from "../../db/caller.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import { Html, html } from "../../gate/pages/html.ts";
import { table } from "../../gate/pages/table.ts";
import type { Phase } from "../../telemetry/span.ts";
import { jsonObject } from "../advisor/why/asked-change.ts";
import {
  type AsOptions,
  asFields,
  callerIn,
  FormFault,
  formAndOutcome,
  inputField,
  marksOf,
  messageFor,
  NO_OUTCOME,
  nameOfCaller,
  outcomeOf,
  selectField,
} from "./caller-form.ts";
import { csrfField, type View, type ViewInput } from "./console.ts";
import type { InProcessRequest, InProcessResponse } from "./in-process.ts";
import { CONSOLE } from "./path.ts";
import type { TriedTransaction } from "./trial.ts";

/** What came of a trial. */
export type Tried = {
  /** Null if there was no response in time. */
  readonly response: InProcessResponse | null;
  readonly milliseconds: number;
  readonly phases: readonly Phase[];
  readonly transactions: readonly TriedTransaction[];
};

export type TryOptions = AsOptions & {
  /** Sends the request through the interfaces of the service, for the operator with this id. */
  send(request: InProcessRequest, caller: Caller, operator: string, keepsChanges: boolean): Promise<Tried>;
  /** Records what an operator has tried. */
  onTried(operator: string, as: string, request: InProcessRequest, keepsChanges: boolean): void;
  readonly hasGraphQL: boolean;
  catalog(): Catalog;
};

const METHODS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"];
const MAX_PATH = 8192;
const MAX_HEADERS = 32;
const MAX_LISTED = 500;
const MAX_ROWS = 100;
const MAX_TEXT = 65_536;
const MAX_VALUE = 200;

/** `/console/try`: a request as any caller, with its rows, SQL, plan and times. */
export const tryView = (options: TryOptions): View => ({
  path: `${CONSOLE}/try`,
  name: "Try as",
  icon: "try",
  script: "/assets/console-try.js",
  hasForm: true,
  async render(input) {
    const { form } = input;
    const outcome = form ? await outcomeOf(() => response(form, input, options)) : NO_OUTCOME;
    return html`
<h1>Try as</h1>
${outcome.shown === null ? html`<p>Sends a request as another caller, through the same code as every request. What it changes is rolled back, unless you keep it.</p>` : null}
${formAndOutcome(requestForm(input, options, outcome.fault), form ? sentBy(form) : "", outcome)}`;
  },
});

/** `GET /rest/v1/posts`, or `GraphQL` */
const sentBy = (form: URLSearchParams): string =>
  form.get("kind") === "graphql" ? "GraphQL" : `${form.get("method")} ${form.get("path")}`;

const requestForm = ({ form, operator }: ViewInput, options: TryOptions, fault: FormFault | null): Html => html`
<form method="post" action="${CONSOLE}/try#outcome">
${csrfField(operator.csrf)}
${requestFields(form, options, fault)}
${asFields(form, operator, options, fault)}
<p><label><input type="checkbox" name="keep"> Keep the changes</label></p>
<button>Send</button>
</form>`;

function requestFields(form: URLSearchParams | null, options: TryOptions, fault: FormFault | null): Html {
  const kind = form?.get("kind") ?? "rest";
  const value = (name: string, otherwise = "") => form?.get(name) ?? otherwise;
  const choice = (name: string, label: string) =>
    html`<label><input type="radio" name="kind" value="${name}"${new Html(kind === name ? " checked" : "")}> ${label}</label>`;
  const area = (name: string, label: string, rows: number, placeholder: string) =>
    html`<label for="${name}">${label}</label><textarea id="${name}" name="${name}" rows="${rows}" placeholder="${placeholder}"${marksOf(name, fault)}>${value(name)}</textarea>${messageFor(name, fault)}`;
  const path = {
    name: "path",
    label: "Path",
    value: value("path", "/rest/v1/"),
    maxlength: MAX_PATH,
    list: "paths",
    look: "code wide",
  };
  return html`<fieldset class="request"><legend>Request</legend>
<div class="row">${choice("rest", "REST")}${options.hasGraphQL ? choice("graphql", "GraphQL") : null}</div>
<div class="rest">
<div class="row">${selectField({ name: "method", label: "Method", values: METHODS, value: value("method", "GET") })}
${inputField(path, fault)}</div>
${pathsOf(options.catalog())}
${area("headers", "Headers, one per line", 2, "Prefer: return=representation")}
${area("body", "Body", 3, '{"title": "…"}')}
</div>
<div class="graphql">
${area("operation", "Operation", 6, "query { … }")}
${area("variables", "Variables", 2, "{}")}
</div>
</fieldset>`;
}

/** The paths of the tables and functions of the first schema, which a request needs no header for. */
function pathsOf({ schemas }: Catalog): Html {
  const [first] = schemas.values();
  const tables = [...(first?.tables.values() ?? [])].map(
    ({ name, columns }) =>
      html`<option value="/rest/v1/${encodeURIComponent(name)}" data-columns="${JSON.stringify([...columns.keys()])}">`,
  );
  const functions = [...(first?.functions.keys() ?? [])].map(
    (name) => html`<option value="/rest/v1/rpc/${encodeURIComponent(name)}">`,
  );
  return html`<datalist id="paths">${[...tables, ...functions].slice(0, MAX_LISTED)}</datalist>`;
}

async function response(form: URLSearchParams, { operator }: ViewInput, options: TryOptions): Promise<Html> {
  const caller = await callerIn(form, operator, options);
  const request = form.get("kind") === "graphql" ? graphqlRequest(form) : restRequest(form);
  const keepsChanges = form.has("keep");
  refuseUntried(request);
  options.onTried(operator.name, nameOfCaller(caller), request, keepsChanges);
  const tried = await options.send(request, caller, operator.id, keepsChanges);
  const { response: received, transactions, phases, milliseconds } = tried;
  const isChange = transactions.some(({ isRead }) => !isRead);
  const total = `${milliseconds.toFixed(1)} ms, with the plans`;
  return html`
<h2>Response${received && html`: <span class="${received.status < 400 ? "good" : "bad"}">${received.status}</span>`}</h2>
<p>To ${nameOfCaller(caller)}, in ${total}. ${isChange ? html`<strong>${keepsChanges ? "The changes are kept." : "The changes are rolled back."}</strong>` : null}</p>
${received ? body(received) : html`<p class="bad">There was no complete response in time. Streams and subscriptions cannot be tried.</p>`}
${received && folded(`Headers`, html`<pre tabindex="0"><code>${Object.entries(received.headers).map(([name, text]) => `${name}: ${text}\n`)}</code></pre>`)}
${folded(`Times: ${total}`, phases.length > 0 ? table(["Part", "Begins after (ms)", "Takes (ms)"], phases.map(phaseRow)) : html`<p>The request was refused before any work.</p>`)}
<h2>SQL and plans</h2>
${transactions.length > 0 ? transactions.map(transaction) : html`<p>The request did not reach the database.</p>`}`;
}

const folded = (title: string, content: Html): Html => html`<details><summary>${title}</summary>${content}</details>`;

const phaseRow = ({ name, start, duration }: Phase): Html =>
  html`<tr><th scope="row">${name}</th><td>${start.toFixed(2)}</td><td>${duration.toFixed(2)}</td></tr>`;

/** Credentials are those of the chosen caller. */
const CREDENTIALS = new Set([
  "authorization",
  "proxy-authorization",
  "apikey",
  "x-api-key",
  "cookie",
  "host",
  "connection",
]);

function restRequest(form: URLSearchParams): InProcessRequest {
  const [method, path = ""] = [form.get("method") ?? "", form.get("path")?.trim()];
  if (!METHODS.includes(method)) throw new FormFault(`The method must be one of ${METHODS.join(", ")}.`);
  if (!/^\/[\x21-\x7e]*$/.test(encodeSpaces(path)) || path.length > MAX_PATH)
    throw new FormFault(
      `The path must begin with / and have at most ${MAX_PATH} characters, such as /rest/v1/posts?limit=5.`,
      "path",
    );
  const body = method === "GET" || method === "HEAD" ? "" : (form.get("body") ?? "");
  const headers = headersIn(form.get("headers") ?? "");
  return {
    method,
    path: encodeSpaces(path),
    headers: { ...(body !== "" && { "content-type": "application/json" }), ...headers },
    body,
  };
}

/** Everything but ASCII is escaped, as browsers do. */
const encodeSpaces = (path: string) =>
  path.replace(/[^\x21-\x7e]+/gu, (text) => encodeURIComponent(text.toWellFormed()));

function headersIn(text: string): Record<string, string> {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  if (lines.length > MAX_HEADERS) throw new FormFault(`At most ${MAX_HEADERS} headers are possible.`, "headers");
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):\s*([\x20-\x7e]*)$/.exec(line.trim()) ?? [];
      if (name === undefined || value === undefined)
        throw new FormFault(`“${line}” is not a header: write Name: value.`, "headers");
      if (CREDENTIALS.has(name.toLowerCase()))
        throw new FormFault(`The header ${name} is set by the caller that you choose: leave it out.`, "headers");
      return [name.toLowerCase(), value];
    }),
  );
}

function graphqlRequest(form: URLSearchParams): InProcessRequest {
  const query = form.get("operation") ?? "";
  const text = form.get("variables")?.trim() || "{}";
  if (query.trim() === "") throw new FormFault("Enter a query or a mutation.", "operation");
  const variables = jsonObject(text);
  if (variables === null) throw new FormFault("The variables must be a JSON object.", "variables");
  return {
    method: "POST",
    path: "/graphql",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query, variables }),
  };
}

/** What would run outside of the trial, or without end. */
function refuseUntried({ headers }: InProcessRequest): void {
  if (/respond-async/i.test(headers.prefer ?? ""))
    throw new FormFault("A task runs later, outside of the trial: leave out Prefer: respond-async.", "headers");
  if (/event-stream/i.test(headers.accept ?? ""))
    throw new FormFault(
      "A stream does not end, so it cannot be tried: leave out Accept: text/event-stream.",
      "headers",
    );
}

/** JSON objects as a table; everything else as text. */
function body({ headers, body: bytes, isCut }: InProcessResponse): Html {
  const text = bytes.toString();
  if (text === "") return html`<p>The body is empty.</p>`;
  const isJson = /json/.test(headers["content-type"] ?? "");
  const value = isJson && !isCut ? tryJson(text) : undefined;
  const note = isCut || text.length > MAX_TEXT ? html`<p class="muted">This is only the beginning.</p>` : null;
  if (isRows(value)) return rows(value);
  const shown = value === undefined ? text : JSON.stringify(value, null, 2);
  return html`<pre tabindex="0"><code>${shown.slice(0, MAX_TEXT)}</code></pre>${note}`;
}

type Row = Readonly<Record<string, unknown>>;

const isRows = (value: unknown): value is readonly Row[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((row) => typeof row === "object" && row !== null && !Array.isArray(row));

function rows(all: readonly Row[]): Html {
  const names = [...new Set(all.slice(0, MAX_ROWS).flatMap((row) => Object.keys(row)))];
  const cell = (value: unknown) =>
    value == null
      ? html`<td class="muted">null</td>`
      : html`<td>${(typeof value === "string" ? value : JSON.stringify(value)).slice(0, MAX_VALUE)}</td>`;
  const more = all.length > MAX_ROWS ? html`, of which ${MAX_ROWS} are shown` : null;
  return html`<p>${all.length} ${all.length === 1 ? "row" : "rows"}${more}.</p>
${table(
  names,
  all.slice(0, MAX_ROWS).map((row) => html`<tr>${names.map((name) => cell(row[name]))}</tr>`),
)}`;
}

/** The SQL of a transaction, with values and plans. */
export const transaction = (
  { statements, milliseconds, isRead }: TriedTransaction,
  index: number,
): Html => html`<section>
<h3>Transaction ${index + 1}: ${milliseconds === null ? html`<span class="bad">failed</span>` : html`${milliseconds.toFixed(1)} ms`}</h3>
${statements.map(
  ({ text, values, plan }) => html`<pre tabindex="0"><code>${text}</code></pre>
${values.length > 0 ? html`<p>${values.map((value, i) => html`<code>$${i + 1} = ${value === null ? "null" : JSON.stringify(value.slice(0, MAX_VALUE))}</code> `)}</p>` : null}
${plan && html`<h4>Plan${isRead ? ", measured" : ", estimated"}</h4><pre tabindex="0"><code>${plan}</code></pre>`}`,
)}
</section>`;
