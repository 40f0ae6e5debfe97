import type { Caller } from "../db/caller.ts";
import type { TriedTransaction } from "../db/transaction/trial.ts";
import { CONSOLE, Html, html, table } from "../http/pages/html.ts";
import type { InProcessRequest, InProcessResponse } from "../http/pipeline/in-process.ts";
import type { Phase } from "../telemetry/span.ts";
import { type AsOptions, asFields, callerIn, FormFault, nameOfCaller, orFault, selectField } from "./caller-form.ts";
import { csrfField, type View, type ViewInput } from "./console.ts";

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
};

const METHODS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"];
const MAX_PATH = 8192;
const MAX_HEADERS = 32;
const MAX_ROWS = 100;
const MAX_TEXT = 65_536;
const MAX_VALUE = 200;

/** `/console/try`: a request as any caller, with its rows, SQL, plan and times. */
export const tryView = (options: TryOptions): View => ({
  path: `${CONSOLE}/try`,
  name: "Try as",
  hasForm: true,
  async render(input) {
    const { form, operator } = input;
    return html`
<h1>Try as</h1>
<p>Sends a request as another caller, through the same code as every request. What it changes is rolled back, unless you keep it.</p>
<form method="post" action="${CONSOLE}/try">
${csrfField(operator.csrf)}
${asFields(form, operator, options)}
${requestFields(form, options)}
<p><label><input type="checkbox" name="keep"> Keep the changes</label></p>
<button>Send</button>
</form>
${form && (await orFault(() => outcome(form, input, options)))}`;
  },
});

function requestFields(form: URLSearchParams | null, { hasGraphQL }: TryOptions): Html {
  const kind = form?.get("kind") ?? "rest";
  const value = (name: string, otherwise = "") => form?.get(name) ?? otherwise;
  const choice = (name: string, label: string) =>
    html`<label><input type="radio" name="kind" value="${name}"${new Html(kind === name ? " checked" : "")}> ${label}</label>`;
  return html`<fieldset class="request"><legend>Request</legend>
<div class="row">${choice("rest", "REST")}${hasGraphQL ? choice("graphql", "GraphQL") : null}</div>
<div class="rest">
<div class="row">${selectField({ name: "method", label: "Method", values: METHODS, value: value("method", "GET") })}
<label for="path">Path</label><input id="path" name="path" class="code wide" value="${value("path", "/rest/v1/")}" maxlength="${MAX_PATH}"></div>
<label for="headers">Headers, one per line</label><textarea id="headers" name="headers" rows="2" placeholder="Prefer: return=representation">${value("headers")}</textarea>
<label for="body">Body</label><textarea id="body" name="body" rows="3" placeholder="{&quot;title&quot;: &quot;…&quot;}">${value("body")}</textarea>
</div>
<div class="graphql">
<label for="operation">Operation</label><textarea id="operation" name="operation" rows="6" placeholder="query { … }">${value("operation")}</textarea>
<label for="variables">Variables</label><textarea id="variables" name="variables" rows="2" placeholder="{}">${value("variables")}</textarea>
</div>
</fieldset>`;
}

async function outcome(form: URLSearchParams, { operator }: ViewInput, options: TryOptions): Promise<Html> {
  const caller = await callerIn(form, operator, options);
  const request = form.get("kind") === "graphql" ? graphqlRequest(form) : restRequest(form);
  const keepsChanges = form.has("keep");
  refuseUntried(request);
  options.onTried(operator.name, nameOfCaller(caller), request, keepsChanges);
  const tried = await options.send(request, caller, operator.id, keepsChanges);
  const { response, transactions, phases, milliseconds } = tried;
  const isChange = transactions.some(({ isRead }) => !isRead);
  return html`<section aria-labelledby="response">
<h2 id="response">Response${response && html`: <span class="${response.status < 400 ? "good" : "bad"}">${response.status}</span>`}</h2>
<p>To ${nameOfCaller(caller)}, in ${milliseconds.toFixed(1)} ms, with the plans. ${isChange ? html`<strong>${keepsChanges ? "The changes are kept." : "The changes are rolled back."}</strong>` : null}</p>
${response ? body(response) : html`<p class="bad">There was no complete response in time. Streams and subscriptions cannot be tried.</p>`}
${response && html`<h3>Headers</h3><pre tabindex="0"><code>${Object.entries(response.headers).map(([name, text]) => `${name}: ${text}\n`)}</code></pre>`}
<h2>Times</h2>
${phases.length > 0 ? table(["Part", "Begins after (ms)", "Takes (ms)"], phases.map(phaseRow)) : html`<p>The request was refused before any work.</p>`}
<h2>SQL and plans</h2>
${transactions.length > 0 ? transactions.map(transaction) : html`<p>The request did not reach the database.</p>`}
</section>`;
}

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
  if (lines.length > MAX_HEADERS) throw new FormFault(`At most ${MAX_HEADERS} headers are possible.`);
  return Object.fromEntries(
    lines.map((line) => {
      const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):\s*([\x20-\x7e]*)$/.exec(line.trim()) ?? [];
      if (name === undefined || value === undefined)
        throw new FormFault(`“${line}” is not a header: write Name: value.`);
      if (CREDENTIALS.has(name.toLowerCase()))
        throw new FormFault(`The header ${name} is set by the caller that you choose: leave it out.`);
      return [name.toLowerCase(), value];
    }),
  );
}

function graphqlRequest(form: URLSearchParams): InProcessRequest {
  const query = form.get("operation") ?? "";
  const text = form.get("variables")?.trim() || "{}";
  let variables: unknown;
  try {
    variables = JSON.parse(text);
  } catch {
    throw new FormFault("The variables must be a JSON object.");
  }
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
    throw new FormFault("A task runs later, outside of the trial: leave out Prefer: respond-async.");
  if (/event-stream/i.test(headers.accept ?? ""))
    throw new FormFault("A stream does not end, so it cannot be tried: leave out Accept: text/event-stream.");
}

/** JSON objects as a table; everything else as text. */
function body({ headers, body: bytes, isCut }: InProcessResponse): Html {
  const text = bytes.toString();
  if (text === "") return html`<p>The body is empty.</p>`;
  const isJson = /json/.test(headers["content-type"] ?? "");
  const value = isJson && !isCut ? parsed(text) : undefined;
  const note = isCut || text.length > MAX_TEXT ? html`<p class="muted">This is only the beginning.</p>` : null;
  if (isRows(value)) return rows(value);
  const shown = value === undefined ? text : JSON.stringify(value, null, 2);
  return html`<pre tabindex="0"><code>${shown.slice(0, MAX_TEXT)}</code></pre>${note}`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
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

const transaction = ({ statements, milliseconds, isRead }: TriedTransaction, index: number): Html => html`<section>
<h3>Transaction ${index + 1}: ${milliseconds === null ? html`<span class="bad">failed</span>` : html`${milliseconds.toFixed(1)} ms`}</h3>
${statements.map(
  ({ text, values, plan }) => html`<pre tabindex="0"><code>${text}</code></pre>
${values.length > 0 ? html`<p>${values.map((value, i) => html`<code>$${i + 1} = ${value === null ? "null" : JSON.stringify(value.slice(0, MAX_VALUE))}</code> `)}</p>` : null}
${plan && html`<h4>Plan${isRead ? ", measured" : ", estimated"}</h4><pre tabindex="0"><code>${plan}</code></pre>`}`,
)}
</section>`;
