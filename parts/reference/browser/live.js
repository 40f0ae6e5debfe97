import { byId, create } from "./dom.js";
import { signedIn } from "./signed-in.js";

// The page /docs/live: subscribes to the changes of a table on a channel of supabase-js, and shows each change as it arrives.

/** Changes that are shown, and those that wait while the page is paused. */
const MAX_SHOWN = 200;
const MAX_WAITING = 1000;

/** @typedef {{ type: "INSERT" | "UPDATE" | "DELETE", commit_timestamp: string, record?: Record<string, unknown>, old_record?: Record<string, unknown>, errors: unknown }} Change */

const form = byId("live", HTMLFormElement);
const table = byId("table", HTMLSelectElement);
const token = byId("token", HTMLInputElement);
const list = byId("changes");
const status = byId("status");
const pauseButton = byId("pause", HTMLButtonElement);
const stopButton = byId("stop", HTMLButtonElement);
const key = form.dataset.key ?? "";
/** The served schemas. @type {string[]} */
const schemas = JSON.parse(form.dataset.schemas ?? "[]");

/** @type {WebSocket | null} */
let socket = null;
/** The changes since the pause, oldest first; null if the page is not paused. @type {Change[] | null} */
let waiting = null;
let missed = 0;

const givenToken = () => token.value.trim() || signedIn.token();

/** @param {string} text @param {boolean} [isFault] */
function say(text, isFault = false) {
  status.textContent = text;
  status.className = isFault ? "alert" : "notice";
}

/** The tables of a schema that the caller may read; null if the service does not say. @param {string} schema */
async function tablesOf(schema) {
  const bearer = givenToken();
  const headers = {
    "accept-profile": schema,
    ...(key && { apikey: key }),
    ...(bearer && { authorization: `Bearer ${bearer}` }),
  };
  const response = await fetch("/rest/v1/openapi.json", { headers }).catch(() => null);
  if (!response?.ok) return null;
  const { paths } = await response.json();
  return Object.entries(paths)
    .filter(([path, item]) => !path.startsWith("/rpc/") && path !== "/" && item.get)
    .map(([path]) => path.slice(1))
    .sort();
}

/** `todos`; of another schema than the first, `shop.todos`. The value of an option. @param {string} schema @param {string} name */
const choiceOf = (schema, name) => (schema === schemas[0] ? name : `${schema}.${name}`);

/** Offers the tables that the caller may read, by schema. */
async function listTables() {
  const chosen = table.value;
  const lists = await Promise.all(schemas.map(tablesOf));
  const groups = schemas.flatMap((schema, i) => {
    const options = (lists[i] ?? []).map((name) => {
      const option = create(
        "option",
        { value: choiceOf(schema, name), selected: choiceOf(schema, name) === chosen },
        name,
      );
      Object.assign(option.dataset, { schema, name });
      return option;
    });
    if (schemas.length === 1 || options.length === 0) return options;
    return [create("optgroup", { label: schema }, ...options)];
  });
  const hint = lists.some(Boolean) ? "This caller may read no table." : "The tables cannot be read.";
  table.replaceChildren(...(groups.length > 0 ? groups : [create("option", { value: "" }, hint)]));
  table.disabled = groups.length === 0;
}

function showControls() {
  stopButton.hidden = pauseButton.hidden = socket === null;
  byId("subscribe").textContent = socket ? "Subscribe again" : "Subscribe";
  showWaiting();
}

function showWaiting() {
  const count = (waiting?.length ?? 0) + missed;
  pauseButton.textContent = waiting ? `Continue (${count} waiting)` : "Pause";
  byId("empty").hidden = list.childElementCount > 0;
}

/** @param {string} [text] */
function stop(text = "Stopped.") {
  const own = socket;
  socket = null;
  own?.close();
  resume();
  say(text);
  showControls();
}

function subscribe() {
  socket?.close();
  resume();
  const url = new URL("/realtime/v1/websocket", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.search = String(new URLSearchParams({ vsn: "2.0.0", apikey: key }));
  const own = new WebSocket(url);
  socket = own;
  const send = (/** @type {unknown[]} */ ...message) => own.send(JSON.stringify(message));
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let timer;
  say("Connecting.");
  own.onopen = () => {
    const { schema, name } = table.selectedOptions[0]?.dataset ?? {};
    const binding = { event: "*", schema, table: name, filter: byId("filter", HTMLInputElement).value.trim() };
    const bearer = givenToken();
    send("1", "1", "realtime:live", "phx_join", {
      config: { postgres_changes: [binding] },
      ...(bearer && { access_token: bearer }),
    });
    timer = setInterval(() => send(null, "2", "phoenix", "heartbeat", {}), 25000);
  };
  own.onclose = ({ reason }) => {
    clearInterval(timer);
    if (own !== socket) return;
    socket = null;
    say(`${reason || "The connection is lost"}. Subscribe again.`, true);
    showControls();
  };
  own.onmessage = ({ data }) => {
    if (own !== socket) return;
    const [, ref, , event, payload] = JSON.parse(data);
    if (event === "phx_reply" && ref === "1" && payload.status !== "ok") refuse(payload.response.reason);
    else if (event === "phx_reply" && ref === "1") say(`Subscribed to ${table.value}: waiting for changes.`);
    else if (event === "system" && payload.status === "error") refuse(payload.message);
    else if (event === "postgres_changes") receive(payload.data);
  };
  showControls();
}

/** @param {string} reason */
function refuse(reason) {
  stop();
  say(reason, true);
}

/** @param {Change} change */
function receive(change) {
  if (!waiting) show(change);
  else if (waiting.length < MAX_WAITING) waiting.push(change);
  else missed++;
  showWaiting();
}

/** Shows what has waited. */
function resume() {
  const changes = waiting ?? [];
  waiting = null;
  for (const change of changes) show(change);
  if (missed > 0)
    list.prepend(
      create("li", { className: "hint" }, `${missed} more changes came during the pause, and are not shown.`),
    );
  missed = 0;
  showWaiting();
}

const TONES = { INSERT: "good", UPDATE: "warn", DELETE: "bad" };

/** @param {unknown} value */
const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** @param {Change} change */
function show({ type, commit_timestamp, record, old_record: old = {} }) {
  const time = new Date(commit_timestamp);
  const head = create(
    "div",
    { className: "row" },
    create("span", { className: `badge ${TONES[type]}` }, type),
    create("time", { dateTime: commit_timestamp }, time.toLocaleTimeString()),
  );
  const row = record ?? old;
  const item = create("li", {}, head);
  if (type === "UPDATE") {
    const changed = Object.keys(row).filter(
      (name) => name in old && JSON.stringify(old[name]) !== JSON.stringify(row[name]),
    );
    const values = changed.flatMap((name) => [
      create("dt", {}, name),
      create("dd", {}, create("del", {}, textOf(old[name])), " → ", create("ins", {}, textOf(row[name]))),
    ]);
    const knowsOld = Object.keys(row).every((name) => name in old);
    const hint = knowsOld
      ? "No shown column has changed."
      : "The old values are not sent: they need replica identity full.";
    item.append(values.length > 0 ? create("dl", {}, ...values) : create("p", { className: "hint" }, hint));
  }
  item.append(create("code", {}, JSON.stringify(row)));
  list.prepend(item);
  while (list.childElementCount > MAX_SHOWN) list.lastElementChild?.remove();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  subscribe();
});
stopButton.addEventListener("click", () => stop());
pauseButton.addEventListener("click", () => {
  if (waiting) resume();
  else waiting = [];
  showWaiting();
});
byId("clear").addEventListener("click", () => {
  list.replaceChildren();
  showWaiting();
});
token.addEventListener("change", listTables);
function showCaller() {
  token.placeholder = signedIn.token() ? `of ${signedIn.name()}` : "for the rights of a user";
}
signedIn.onChange(async () => {
  showCaller();
  await listTables();
  // A subscription goes on as the new caller.
  if (socket) subscribe();
});
showCaller();
await listTables();
