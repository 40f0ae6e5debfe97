// Code can be copied, and the documentation can be searched. Nothing is sent elsewhere.
for (const listing of document.querySelectorAll(".listing")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy quiet";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(listing.querySelector("code").innerText.trimEnd());
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  // Browsers give pages no clipboard without TLS, except on this machine.
  if (navigator.clipboard) listing.append(button);
}

for (const list of document.querySelectorAll("[popover]"))
  list.addEventListener("click", ({ target }) => target.closest("a") && list.matches(":popover-open") && list.hidePopover());

/** The changelog mentions everything and explains little. */
const boostDocument = (_id, _term, { page }) => (page === "Changelog" ? 0.2 : 1);

const form = document.querySelector("form[data-index]");
if (form) prepareSearch(form, form.elements.q, document.getElementById("found"));

function prepareSearch(form, input, found) {
  const index = new URL(form.dataset.index, location.href);
  let loading;
  /** The index is built with the first use, from the text of all sections. */
  async function load() {
    const [{ default: MiniSearch }, response] = await Promise.all([import("./minisearch.js"), fetch(index)]);
    const search = new MiniSearch({
      fields: ["page", "title", "text"],
      storeFields: ["page", "title", "text", "path"],
      searchOptions: { prefix: true, fuzzy: 0.15, boost: { page: 3, title: 4 }, combineWith: "AND", boostDocument },
    });
    const sections = await response.json();
    search.addAll(sections.map(([path, page, title, text], id) => ({ id, path, page, title, text })));
    return search;
  }
  input.addEventListener("focus", () => (loading ??= load()));
  input.addEventListener("input", async () => {
    const search = await (loading ??= load());
    show(input.value.trim(), search);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    found.querySelector("a")?.click();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, textarea, select")) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape") found.hidden = true;
  });
  document.addEventListener("click", ({ target }) => {
    if (!target.closest(".bar")) found.hidden = true;
  });

  function show(words, search) {
    const results = words ? search.search(words).slice(0, 12) : [];
    const list = document.createElement("ul");
    for (const result of results) list.append(itemOf(result));
    const none = document.createElement("p");
    none.textContent = `Nothing contains “${words}”.`;
    found.replaceChildren(results.length > 0 ? list : none);
    found.hidden = words === "";
  }

  function itemOf({ path, page, title, text, terms }) {
    const link = document.createElement("a");
    link.href = new URL(path, index).href;
    link.textContent = title ? `${page}: ${title}` : page;
    const about = document.createElement("small");
    const at = Math.max(0, ...terms.map((term) => text.toLowerCase().indexOf(term)));
    about.textContent = `${at > 60 ? "… " : ""}${text.slice(at > 60 ? text.indexOf(" ", at - 50) + 1 : 0).slice(0, 140)} …`;
    const item = document.createElement("li");
    item.append(link, about);
    link.addEventListener("click", () => (found.hidden = true));
    return item;
  }
}
