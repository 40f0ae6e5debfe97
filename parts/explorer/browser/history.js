import { byId, create } from "./dom.js";

// The operations that were run, newest first. All tabs share them. They stay in this browser until the user clears them.

const KEY = "content-service:graphiql-history";
const MAX_KEPT = 50;
/** A longer operation is not kept. */
const MAX_LENGTH = 20_000;

/** @typedef {{ query: string, variables: string }} Operation */
/** @typedef {Operation & { time: number }} Kept */

/** @returns {Kept[]} */
function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]");
  } catch {
    return [];
  }
}

/** The name of an operation, otherwise its beginning. @param {string} query */
function labelOf(query) {
  const [, name] = /^\s*(?:query|mutation|subscription)\s+(\w+)/m.exec(query) ?? [];
  return name ?? query.replaceAll(/\s+/g, " ").trim().slice(0, 80);
}

/** @param {(operation: Operation) => void} open Shows an operation again. */
export function createHistory(open) {
  const list = byId("history-list");
  const clear = byId("clear-history");

  function render() {
    const items = kept().map(({ query, variables, time }) => {
      const when = new Date(time);
      const button = create(
        "button",
        { type: "button", className: "quiet", title: query.slice(0, 500) },
        create("span", {}, labelOf(query)),
        create("time", { dateTime: when.toISOString() }, when.toLocaleString()),
      );
      button.addEventListener("click", () => open({ query, variables }));
      return create("li", {}, button);
    });
    clear.hidden = items.length === 0;
    const hint = create("p", { className: "hint" }, "Operations that you run appear here. They stay in this browser.");
    list.replaceChildren(...(items.length > 0 ? [create("ul", {}, ...items)] : [hint]));
  }

  clear.addEventListener("click", () => {
    localStorage.removeItem(KEY);
    render();
  });
  addEventListener("storage", ({ key }) => {
    if (key === KEY || key === null) render();
  });
  render();
  return {
    /** Headers are not kept: they may have credentials. @param {Operation} operation */
    add({ query, variables }) {
      if (query.length + variables.length > MAX_LENGTH) return;
      const others = kept().filter((each) => each.query !== query || each.variables !== variables);
      const all = [{ query, variables, time: Date.now() }, ...others].slice(0, MAX_KEPT);
      localStorage.setItem(KEY, JSON.stringify(all));
      render();
    },
  };
}
