import { API, articleOf, graphql, register, session, signIn, signOut } from "../session.js";

const PAGE = 5;
const find = (selector) => document.querySelector(selector);

function element(name, properties, ...children) {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}

/** Sends the form with `send`. Each error is shown beside its field, the others at the end of the form. */
function handle(form, send) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    show([]);
    try {
      await send(Object.fromEntries(new FormData(form)));
      form.reset();
    } catch (error) {
      show(error.fields?.length ? error.fields : [{ message: error.message }]);
    }
  });
  function show(errors) {
    for (const old of form.querySelectorAll(".error")) old.remove();
    for (const input of form.querySelectorAll("input, textarea")) input.removeAttribute("aria-invalid");
    form.querySelector("[role=alert]").textContent = "";
    for (const { field, message } of errors) {
      const input = field && form.elements.namedItem(field);
      if (!input) form.querySelector("[role=alert]").textContent += `${message} `;
      input?.setAttribute("aria-invalid", "true");
      input?.parentElement.append(element("span", { className: "error", textContent: message }));
    }
  }
}

// Account

function showAccount() {
  const user = session()?.user;
  find("#sign-in").hidden = find("#register").hidden = Boolean(user);
  find("#signed-in").hidden = !user;
  find("#signed-in strong").textContent = user?.name ?? "";
}
addEventListener("session", showAccount);
handle(find("#sign-in"), signIn);
handle(find("#register"), register);
find("#signed-in button").addEventListener("click", signOut);
showAccount();

// List, with pages in both directions

async function showPage(page) {
  const { articles } = await graphql(
    `query ($first: Int, $after: String, $last: Int, $before: String) {
      articles(first: $first, after: $after, last: $last, before: $before, status: PUBLISHED, orderBy: [CREATED_AT_DESC]) {
        totalCount
        edges { node { id title author { name } } }
        pageInfo { startCursor endCursor hasPreviousPage hasNextPage }
      }
    }`,
    page,
  );
  const { startCursor, endCursor, hasPreviousPage, hasNextPage } = articles.pageInfo;
  find("#total").textContent = `${articles.totalCount} articles`;
  find("#articles").replaceChildren(
    ...articles.edges.map(({ node }) => {
      const link = element("button", {
        className: "link",
        textContent: node.title,
        onclick: () => openOrShowFault(node),
      });
      return element("li", {}, link, ` by ${node.author.name}`);
    }),
  );
  find("#previous").disabled = !hasPreviousPage;
  find("#next").disabled = !hasNextPage;
  find("#previous").onclick = () => showPage({ last: PAGE, before: startCursor });
  find("#next").onclick = () => showPage({ first: PAGE, after: endCursor });
}
const firstPage = () => showPage({ first: PAGE });
firstPage().catch(({ message }) => (find("#total").textContent = message));

handle(find("#create"), async (input) => {
  const { createArticle } = await graphql(
    `mutation ($input: CreateArticleInput!) {
      createArticle(input: $input) { article { id } message errors { field message } }
    }`,
    { input },
  );
  await graphql(`mutation ($id: ID!) { publishArticle(id: $id) { id } }`, articleOf(createArticle));
  await firstPage();
});

// Comments, which appear as they are written

const GONE = "This article no longer exists.";
/** Milliseconds until the comments are opened again after the service has refused them. */
const RETRY = 2000;
let events;
let opened;

const line = ({ content, author }) => element("li", {}, `${author.name}: ${content}`);

const openOrShowFault = (article) => open(article).catch(({ message }) => showFault(message));

function showFault(message) {
  find("#fault").textContent = message;
  find("#fault").hidden = message === "";
  find("#comment").hidden = message === GONE;
}

async function open(article) {
  opened = article;
  find("#article").hidden = false;
  find("#article h2").textContent = article.title;
  showFault("");
  const list = find("#comments");
  const known = new Set();
  const add = (comment) => {
    if (!known.has(comment.id)) list.append(line(comment));
    known.add(comment.id);
  };
  list.replaceChildren();
  events?.close();
  // First subscribe, then read: no comment is missed. After a lost connection, EventSource continues where it was.
  const subscription = `subscription { onCommentAdded(articleId: ${article.id}) { id content author { name } } }`;
  const stream = new EventSource(`${API}/graphql?query=${encodeURIComponent(subscription)}`);
  events = stream;
  const openAgain = () => stream === events && openOrShowFault(article);
  stream.addEventListener("next", ({ data: result }) => {
    const { data, errors } = JSON.parse(result);
    if (data) return add(data.onCommentAdded);
    const [{ message, extensions }] = errors;
    if (extensions.code === "CHANGES_MISSED") openAgain();
    else showFault(extensions.code === "RESOURCE_NOT_FOUND" ? GONE : message);
  });
  // The subscription has ended, or was refused: EventSource would connect again.
  stream.addEventListener("complete", () => stream.close());
  // EventSource connects again while connections are refused, but not after a 503 of a service that is starting.
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(openAgain, RETRY);
  });
  await new Promise((resolve) => stream.addEventListener("open", resolve, { once: true }));
  const { article: read } = await graphql(
    `query ($id: ID!) { article(id: $id) { comments { id content author { name } } } }`,
    article,
  );
  if (opened !== article) return;
  if (!read) return showFault(GONE);
  for (const comment of read.comments) add(comment);
}

handle(find("#comment"), ({ content }) =>
  graphql(`mutation ($id: ID!, $content: String!) { createComment(articleId: $id, content: $content) { id } }`, {
    id: opened.id,
    content,
  }),
);
