import { caller, showCaller } from "./caller.js";
import { createDocumentation } from "./documentation.js";
import { byId, create } from "./dom.js";
import { createJsonEditor, createQueryEditor, createViewer } from "./editors.js";
import { createExplorer } from "./explorer.js";
import { withoutFragments } from "./fragments.js";
import { createHistory } from "./history.js";
import { buildClientSchema, getIntrospectionQuery, print } from "./library.js";
import { documentOf, operationsOf } from "./operation.js";
import { send, subscribe } from "./run.js";

const KEPT = "content-service:graphiql";
/** Results of a subscription that are shown. */
const MAX_EVENTS = 50;

const runButton = byId("run", HTMLButtonElement);
const choice = byId("operation", HTMLSelectElement);
const examples = byId("examples", HTMLSelectElement);
const summary = byId("summary");
const notice = byId("notice");

/** @type {{ name: string, query: string, variables: string }[]} */
const EXAMPLES = JSON.parse(byId("main").dataset.examples ?? "[]");

const options = { run: () => void run(), onChange: changed };
const documentation = createDocumentation();
const query = createQueryEditor(byId("query"), {
  ...options,
  onLookUp(name) {
    showPanel("documentation");
    documentation.show(name);
  },
});
const variables = createJsonEditor(byId("variables"), "Variables", { ...options, hint: '{ "first": 10 }' });
const headers = createJsonEditor(byId("headers"), "Headers", { ...options, hint: '{ "Accept-Language": "de" }' });
const viewer = createViewer(byId("response"));
const explorer = createExplorer({ text: () => query.text, change: (text) => query.set(text) });
const past = createHistory((operation) => {
  show(operation);
  if (isNarrow()) showPanel(null);
});

/** Null until it is loaded. @type {import("graphql").GraphQLSchema | null} */
let schema = null;
/** Stops the subscription or the request that runs. @type {(() => void) | null} */
let stop = null;
let isSubscribed = false;

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
function changed() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const { text: operation } = query;
    sessionStorage.setItem(KEPT, JSON.stringify({ query: operation, variables: variables.text }));
    // The URL must not name another operation than the page shows.
    if (location.hash && !isShared()) history.replaceState(null, "", location.pathname);
    showOperations();
    if (!byId("tree").contains(document.activeElement)) explorer.render();
  }, 150);
}

/** What a link asks for: `#query=…&variables=…`, or after `?`, as other servers have it. */
function given() {
  for (const text of [location.hash.slice(1), location.search.slice(1)]) {
    const parameters = new URLSearchParams(text);
    const linked = parameters.get("query");
    if (linked !== null) return { query: linked, variables: parameters.get("variables") ?? "" };
  }
  return null;
}
const isShared = () => {
  const linked = given();
  return linked?.query === query.text && linked.variables === variables.text;
};

function showOperations() {
  const document = documentOf(query.text);
  byId("merge").hidden = (document?.definitions.length ?? 0) === operationsOf(document).length;
  const names = operationsOf(document).map(({ name }) => name?.value ?? "");
  const chosen = choice.value;
  choice.hidden = names.length < 2;
  choice.replaceChildren(...names.map((name) => create("option", { selected: name === chosen }, name)));
}

/** @param {{ query: string, variables: string }} operation */
function show(operation) {
  query.set(operation.query);
  variables.set(operation.variables);
  if (operation.variables) byId("variables-tab").click();
  showOperations();
  explorer.render();
}

/** An object in JSON; {} if it is empty. @param {string} text @param {string} name */
function objectOf(text, name) {
  if (text.trim() === "") return {};
  const value = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Error(`${name}: an object is required.`);
  return value;
}

/** @param {string} text */
function refuse(text) {
  summary.textContent = text;
  summary.className = "bad";
}

/** @param {import("./run.js").Outcome} outcome */
function showOutcome({ body, summary: text, isFault = false }) {
  summary.textContent = text;
  summary.className = isFault ? "bad" : "muted";
  if (body !== undefined)
    viewer.set(typeof body === "string" ? body : body === null ? "" : JSON.stringify(body, null, 2));
}

function ended() {
  stop = null;
  isSubscribed = false;
  runButton.textContent = "Run";
}

async function run() {
  stop?.();
  ended();
  const found = operationsOf(documentOf(query.text));
  if (found.length === 0) return refuse("There is no operation to run: write one, or correct its syntax.");
  const chosen = found.find(({ name }) => name?.value === choice.value) ?? found[0];
  /** @type {import("./run.js").Operation} */
  let operation;
  try {
    operation = {
      query: query.text,
      variables: objectOf(variables.text, "Variables"),
      headers: objectOf(headers.text, "Headers"),
      ...(chosen.name && { operationName: chosen.name.value }),
    };
  } catch (error) {
    return refuse(
      error instanceof SyntaxError
        ? `Variables or headers are not JSON: ${error.message}`
        : String(error).replace(/^Error: /, ""),
    );
  }
  past.add({ query: query.text, variables: variables.text });
  runButton.textContent = "Stop";
  summary.className = "muted";
  if (chosen.operation === "subscription") {
    /** @type {unknown[]} */
    const events = [];
    viewer.set("");
    summary.textContent = "Connecting.";
    isSubscribed = true;
    stop = subscribe(
      operation,
      ({ body, ...outcome }) => {
        if (body) events.unshift(body);
        events.length = Math.min(events.length, MAX_EVENTS);
        showOutcome({ ...outcome, body: body && (events.length === 1 ? events[0] : events) });
      },
      ended,
    );
    return;
  }
  const controller = new AbortController();
  const own = () => controller.abort();
  stop = own;
  summary.textContent = "Running.";
  const outcome = await send(operation, controller.signal);
  showOutcome(outcome);
  if (stop === own) ended();
}

async function loadSchema() {
  const introspection = getIntrospectionQuery({ inputValueDeprecation: true });
  const { body, summary: text } = await send({ query: introspection, headers: {} });
  const result = /** @type {any} */ (body);
  const views = [explorer, documentation];
  if (!result?.data?.__schema) {
    const reason = result?.errors?.[0]?.message ?? `The schema cannot be read. ${text}`;
    for (const view of views) view.fail(reason);
    return;
  }
  const loaded = buildClientSchema(result.data);
  schema = loaded;
  query.use(loaded);
  for (const view of views) view.use(loaded);
}

/** @param {string} text */
function say(text) {
  notice.textContent = text;
  setTimeout(() => {
    if (notice.textContent === text) notice.textContent = "";
  }, 4000);
}

runButton.addEventListener("click", () => {
  if (stop) stop();
  else void run();
});
examples.addEventListener("change", () => {
  const example = EXAMPLES[Number(examples.value)];
  if (example) show(example);
  examples.value = "";
});
byId("format").addEventListener("click", () => {
  const document = documentOf(query.text);
  if (!document || document.definitions.length === 0) return say("The operation has a syntax error.");
  query.set(print(document));
});
byId("merge").addEventListener("click", () => {
  const document = documentOf(query.text);
  if (!schema || !document || operationsOf(document).length === 0) return say("There is no operation with fragments.");
  query.set(print(withoutFragments(document, schema)));
  showOperations();
});
byId("share").addEventListener("click", async () => {
  const text = variables.text.trim();
  location.hash = String(new URLSearchParams({ query: query.text, ...(text && { variables: variables.text }) }));
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied. It has the operation and its variables, and no headers.");
  } catch {
    say("The link is in the address bar.");
  }
});
for (const name of ["variables", "headers"])
  byId(`${name}-tab`).addEventListener("click", () => {
    for (const each of ["variables", "headers"]) {
      byId(each).hidden = each !== name;
      byId(`${each}-tab`).setAttribute("aria-pressed", String(each === name));
    }
  });
const PANELS = ["explorer", "documentation", "history"];
const isNarrow = () => !matchMedia("(min-width: 50rem)").matches;
/** Shows one panel beside the operation, or none. @param {string | null} shown */
function showPanel(shown) {
  byId("explorer").classList.remove("initial");
  for (const name of PANELS) {
    byId(name).hidden = name !== shown;
    byId(`toggle-${name}`).ariaPressed = String(name === shown);
  }
}
for (const name of PANELS)
  byId(`toggle-${name}`).addEventListener("click", () => showPanel(byId(name).hidden ? name : null));
showPanel(isNarrow() ? null : "explorer");

const linked = () => {
  const operation = given();
  if (operation && !isShared()) show(operation);
};
addEventListener("hashchange", linked);
/** @type {{ query: string, variables: string }} */
const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null") ??
  EXAMPLES[0] ?? { query: "{ __typename }", variables: "" };
show(given() ?? kept);
await showCaller();
await loadSchema();
caller.onChange(() => {
  void loadSchema();
  // A subscription goes on as the new caller.
  if (isSubscribed) void run();
});
document.body.dataset.ready = "true";
