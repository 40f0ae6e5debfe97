// Completes the columns of a table in the path: /rest/v1/posts?sel… → /rest/v1/posts?select=, ?title=eq., ?order=title
const path = document.getElementById("path");
const list = document.getElementById("paths");
const paths = [...list.options].map(({ value, dataset }) => ({ value, columns: JSON.parse(dataset.columns ?? "null") }));

/** What may follow at the end of the path. */
function completions(text) {
  const [start, query] = text.split(/\?(.*)/s, 2);
  const columns = paths.find(({ value }) => value === start)?.columns;
  if (query === undefined || !columns) return paths.map(({ value }) => value);
  const last = query.slice(query.lastIndexOf("&") + 1);
  const names = /^(select|order)=/.test(last);
  const begun = names ? /[^=,]*$/.exec(last)[0] : last;
  const before = text.slice(0, text.length - begun.length);
  const escaped = columns.map(encodeURIComponent);
  if (names) return escaped.map((column) => before + column);
  return [...escaped.map((column) => `${before}${column}=eq.`), `${before}select=`, `${before}order=`, `${before}limit=`];
}

path.addEventListener("input", () => {
  const options = completions(path.value).map((value) => Object.assign(document.createElement("option"), { value }));
  list.replaceChildren(...options);
});
