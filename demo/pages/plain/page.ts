import {
  type Article,
  type Comment,
  type Created,
  filterOf,
  isSending,
  newComment,
  type Row,
  timeText,
} from "../shared/model.ts";
import {
  API,
  articleOf,
  type FieldError,
  graphql,
  onSession,
  type Refused,
  read,
  register,
  resetPassword,
  session,
  signIn,
  signOut,
} from "../shared/session.ts";

const find = <Found extends HTMLElement = HTMLElement>(selector: string): Found =>
  document.querySelector<Found>(selector)!;

function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: object,
  ...children: (Node | string)[]
) {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}

// Dialogs and forms

for (const button of document.querySelectorAll<HTMLElement>("[data-opens]"))
  button.addEventListener("click", () => {
    button.closest("dialog")?.close();
    find<HTMLDialogElement>(`#${button.dataset.opens}`).showModal();
  });
for (const button of document.querySelectorAll("[data-closes]"))
  button.addEventListener("click", () => button.closest("dialog")!.close());

type Values = Readonly<Record<string, string>>;

/** Sends the form with `send`. Each error is shown beside its field, the others at the end. The first invalid field gets the focus. */
function handle(form: HTMLFormElement, send: (values: Values) => Promise<unknown>): void {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(form, event.submitter)) as Values;
    const buttons = form.querySelectorAll<HTMLButtonElement>("button");
    for (const button of buttons) button.disabled = true;
    try {
      await send(values);
      show([]);
      form.reset();
    } catch (error) {
      const { fields = [], message } = error as Refused;
      show(fields.length > 0 ? fields : [{ message }]);
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  });
  function show(faults: readonly FieldError[]): void {
    for (const old of form.querySelectorAll(".error")) old.remove();
    for (const input of form.querySelectorAll("input, textarea")) input.removeAttribute("aria-invalid");
    const alert = form.querySelector("[role=alert]")!;
    alert.textContent = "";
    for (const { field, message } of faults) {
      const input = field ? (form.elements.namedItem(field) as HTMLElement | null) : null;
      if (input === null) alert.textContent += `${message} `;
      input?.setAttribute("aria-invalid", "true");
      input?.parentElement?.append(element("span", { className: "error" }, message));
    }
    form.querySelector<HTMLElement>("[aria-invalid]")?.focus();
  }
}

const formIn = (id: string): HTMLFormElement => find(`#${id} form`);
const closing = (id: string, send: (values: Values) => Promise<unknown>) => async (values: Values) => {
  await send(values);
  find<HTMLDialogElement>(`#${id}`).close();
};
handle(formIn("sign-in"), closing("sign-in", signIn));
handle(formIn("register"), closing("register", register));
handle(formIn("reset"), async (values) => {
  await resetPassword(values);
  find("#reset-sent").textContent = "You will get an e-mail with a link to choose a new password.";
});
find("#sign-out").addEventListener("click", signOut);

function showAccount(): void {
  const user = session()?.user;
  for (const id of ["signed-in", "own", "comment"]) find(`#${id}`).hidden = !user;
  for (const id of ["signed-out", "sign-in-to-comment"]) find(`#${id}`).hidden = Boolean(user);
  find("#signed-in strong").textContent = user?.name ?? "";
  if (!user && showsDrafts()) showList(false);
  else if (opened) showArticle(opened);
}
onSession(showAccount);

// The list: what is published, or one's own drafts

type Page<Node> = {
  readonly totalCount: number;
  readonly edges: readonly { readonly node: Node }[];
  readonly pageInfo: { startCursor: string; endCursor: string; hasPreviousPage: boolean; hasNextPage: boolean };
};

const showsDrafts = (): boolean => find("#drafts").ariaPressed === "true";

async function readRows(after: string | null = null): Promise<void> {
  const { articles } = await graphql<{ articles: Page<Row> }>(
    `query ($status: ArticleStatus, $filter: ArticleFilterInput, $after: String) {
      articles(first: 8, after: $after, status: $status, filter: $filter, orderBy: [CREATED_AT_DESC]) {
        totalCount
        edges { node { id title author { name } } }
        pageInfo { endCursor hasNextPage }
      }
    }`,
    { ...filterOf(showsDrafts() ? session()!.user.id : null), after },
  );
  const { totalCount, edges, pageInfo } = articles;
  find("#total").textContent =
    totalCount === 0 ? "Nothing here yet." : `${totalCount} ${totalCount === 1 ? "article" : "articles"}`;
  const rows = edges.map(({ node: { id, title, author } }) =>
    element(
      "li",
      {},
      element("button", { type: "button", className: "link", onclick: () => open(id) }, title),
      element("p", { className: "quiet" }, `by ${author.name}`),
    ),
  );
  if (after === null) find("#articles").replaceChildren(...rows);
  else find("#articles").append(...rows);
  find("#more").hidden = !pageInfo.hasNextPage;
  find("#more").onclick = () => showRows(pageInfo.endCursor);
}

const showRows = (after?: string): Promise<void> =>
  readRows(after).catch(({ message }) => {
    find("#total").textContent = message;
  });

function showList(drafts: boolean): Promise<void> {
  find("#published").ariaPressed = String(!drafts);
  find("#drafts").ariaPressed = String(drafts);
  return showRows();
}
find("#published").addEventListener("click", () => showList(false));
find("#drafts").addEventListener("click", () => showList(true));

handle(
  formIn("create"),
  closing("create", async (input) => {
    const { createArticle } = await graphql<{ createArticle: Created<Row> }>(
      `mutation ($input: CreateArticleInput!) {
        createArticle(input: $input) { article { id } message errors { field message } }
      }`,
      { input },
    );
    const { id } = articleOf(createArticle);
    await Promise.all([showList(input.status === "DRAFT"), open(id)]);
  }),
);

// An article and its comments, which appear as they are written

/** Milliseconds until the comments are opened again after the service has refused them. */
const RETRY = 2000;
let opened: Article | null = null;
let events: EventSource | null = null;
const known = new Set<string>();

const lineOf = (comment: Comment): HTMLElement =>
  element(
    "li",
    { className: isSending(comment) ? "sending" : "", id: `comment-${comment.id}` },
    element("p", { className: "content" }, comment.content),
    element(
      "p",
      { className: "quiet" },
      `${comment.author.name}, ${isSending(comment) ? "sending…" : timeText(comment.createdAt)}`,
    ),
  );

function fault(message: string): void {
  find("#fault").textContent = message;
}

/** In the order of their ids, before those that are being sent. */
function add(comment: Comment): void {
  if (!known.has(comment.id)) {
    const list = find("#comments ul");
    const later = [...list.children].find((line) => !(Number((line as HTMLElement).id.slice(8)) < Number(comment.id)));
    list.insertBefore(lineOf(comment), later ?? null);
  }
  known.add(comment.id);
}

function showArticle({ title, content, author, status }: Article): void {
  find("#title").textContent = title;
  find("#author").textContent = `by ${author.name}${status === "DRAFT" ? " · draft" : ""}`;
  find("#content").textContent = content;
  find("#publish").hidden = status !== "DRAFT" || author.id !== session()?.user.id;
}

const ARTICLE = `query ($id: ID!, $before: String) {
  article(id: $id) {
    id title content status author { id name }
    commentsConnection(last: 10, before: $before, orderBy: [ID_ASC]) {
      edges { node { id content createdAt author { id name } } }
      pageInfo { startCursor hasPreviousPage }
    }
  }
}`;
type WithComments = Article & { readonly commentsConnection: Page<Comment> };

function showEarlier({ pageInfo }: Page<Comment>, id: string): void {
  find("#earlier").hidden = !pageInfo.hasPreviousPage;
  find("#earlier").onclick = async () => {
    const { article } = await graphql<{ article: WithComments }>(ARTICLE, { id, before: pageInfo.startCursor });
    const comments = article.commentsConnection.edges.map(({ node }) => node);
    for (const comment of comments) known.add(comment.id);
    find("#comments ul").prepend(...comments.map(lineOf));
    showEarlier(article.commentsConnection, id);
  };
}

/** After a lost connection, the service may not answer yet: `triesAgain`. */
async function open(id: string, triesAgain = false): Promise<void> {
  try {
    await readArticle(id);
  } catch (error) {
    fault((error as Error).message);
    if (triesAgain) setTimeout(() => events === null && opened?.id === id && open(id, true), RETRY);
  }
}

/** Reads an article, and then what changes: the stream begins where the article has been read, so that no comment is missed. */
async function readArticle(id: string): Promise<void> {
  events?.close();
  events = null;
  fault("");
  const { data, position } = await read<{ article: WithComments | null }>(ARTICLE, { id });
  find("#article").hidden = false;
  find("#comments").hidden = data.article === null;
  opened = data.article;
  if (data.article === null) {
    for (const id of ["title", "author", "content"]) find(`#${id}`).textContent = "";
    return fault("This article no longer exists.");
  }
  const { commentsConnection } = data.article;
  known.clear();
  find("#comments ul").replaceChildren();
  for (const { node } of commentsConnection.edges) add(node);
  showEarlier(commentsConnection, id);
  showArticle(data.article);
  // On a phone, the article is below the list.
  find("#article").scrollIntoView({ block: "nearest" });
  follow(id, position);
}

function follow(id: string, position: string | undefined): void {
  const subscription = `subscription { onCommentAdded(articleId: ${id}) { id content createdAt author { id name } } }`;
  const after = position ? `&extensions=${encodeURIComponent(JSON.stringify({ after: position }))}` : "";
  const stream = new EventSource(`${API}/graphql?query=${encodeURIComponent(subscription)}${after}`);
  events = stream;
  const openAgain = () => void (stream === events && open(id, true));
  stream.addEventListener("next", ({ data: result }) => {
    const { data, errors } = JSON.parse(result);
    if (data) return add(data.onCommentAdded);
    const [{ message, extensions }] = errors;
    if (extensions.code === "CHANGES_MISSED" || extensions.code === "RESOURCE_NOT_FOUND") openAgain();
    else fault(message);
  });
  // The subscription has ended, or was refused: EventSource would connect again.
  stream.addEventListener("complete", () => stream.close());
  // After a lost connection, EventSource continues where it was, but not after a 503 of a service that is starting.
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(openAgain, RETRY);
  });
}

find("#publish").addEventListener("click", async () => {
  const article = opened!;
  showArticle({ ...article, status: "PUBLISHED" });
  try {
    await graphql(`mutation ($id: ID!) { publishArticle(id: $id) { id } }`, { id: article.id });
    opened = { ...article, status: "PUBLISHED" };
    await showRows();
  } catch (error) {
    showArticle(article);
    fault((error as Error).message);
  }
});

handle(find("#comment"), async ({ content = "" }) => {
  const line = lineOf(newComment(content, session()!.user));
  find("#comments ul").append(line);
  try {
    const { createComment } = await graphql<{ createComment: Comment }>(
      `mutation ($id: ID!, $content: String!) {
        createComment(articleId: $id, content: $content) { id content createdAt author { id name } }
      }`,
      { id: opened!.id, content },
    );
    add(createComment);
  } finally {
    line.remove();
  }
});

showAccount();
showRows();
