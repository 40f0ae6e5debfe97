import { type ArticlesData, articleOf, CREATE, type Created, MOST, PUBLISH } from "../live/articles.ts";
import {
  ADDED,
  type Article,
  COMMENT,
  type Comment,
  isNew,
  newComment,
  READ,
  type Read,
  withComment,
  withEarlier,
  withoutComment,
} from "../live/comments.ts";
import { follow, graphql } from "../live/follow.ts";
import { readLists } from "../live/following.ts";
import { listArticles } from "../live/list.ts";
import { forgotPassword, onSession, onUser, register, session, signIn, signOut } from "../live/session.ts";
import { close, element, find, formIn, handle } from "../shared/dom.ts";
import { messageOf, timeText, totalText } from "../shared/model.ts";

// Dialogs and forms

handle(formIn("sign-in"), async ({ username = "", password = "" }) => {
  await signIn({ username, password });
  close("sign-in");
});
handle(formIn("register"), async ({ name = "", email = "", password = "" }) => {
  const message = await register({ name, email, password });
  find("#registered").textContent = message ?? "";
  if (message === undefined) close("register");
});
handle(formIn("reset"), async ({ email = "" }) => {
  await forgotPassword({ email });
  find("#reset-sent").textContent = "You will get an e-mail with a link to choose a new password.";
});
find("#sign-out").addEventListener("click", () =>
  signOut().catch((error) => {
    find("#sign-out-fault").textContent = messageOf(error);
  }),
);

function showAccount(): void {
  const user = session()?.user;
  find("#sign-out-fault").textContent = "";
  for (const id of ["signed-in", "own", "comment"]) find(`#${id}`).hidden = !user;
  for (const id of ["signed-out", "sign-in-to-comment"]) find(`#${id}`).hidden = Boolean(user);
  find("#signed-in strong").textContent = user?.name ?? "";
}
onSession(showAccount);

// The list: what is published, or one's own drafts

const showsDrafts = (): boolean => find("#drafts").ariaPressed === "true";
let list: ReturnType<typeof listArticles> | undefined;

function showRows({ totalCount, edges, pageInfo }: ArticlesData["articles"]): void {
  const hasMore = pageInfo.hasNextPage && edges.length < MOST;
  find("#total").textContent = totalText(totalCount, edges.length, hasMore);
  const rows = edges.map(({ node: { id, title, author } }) =>
    element(
      "li",
      {},
      element("button", { type: "button", className: "link", onclick: () => open(id) }, title),
      element("p", { className: "quiet" }, `by ${author.name}`),
    ),
  );
  find("#articles").replaceChildren(...rows);
  find("#more").hidden = !hasMore;
}

function showList(drafts: boolean): void {
  find("#published").ariaPressed = String(!drafts);
  find("#drafts").ariaPressed = String(drafts);
  find("#articles").replaceChildren();
  find("#more").hidden = true;
  find("#total").textContent = "Loading…";
  list?.end();
  list = listArticles(drafts ? String(session()?.user.id) : null, showRows, (error) => {
    find("#total").textContent = messageOf(error);
  });
}
find("#published").addEventListener("click", () => showList(false));
find("#drafts").addEventListener("click", () => showList(true));
find("#more").addEventListener("click", () => list?.more());
// Another user must not see what the last one has read.
onUser(() => showList(session() !== null && showsDrafts()));

handle(formIn("create"), async (input) => {
  const { data } = await graphql<{ createArticle: Created }>(CREATE, { input }).finally(readLists);
  open(articleOf(data.createArticle).id);
  close("create");
  const drafts = input.status === "DRAFT";
  if (drafts !== showsDrafts()) showList(drafts);
});

// An article and its comments, which appear as they are written

let current: Read = { article: null };
let stop = (): void => {};

const lineOf = (comment: Comment): HTMLElement =>
  element(
    "li",
    { className: isNew(comment) ? "sending" : "", id: `comment-${comment.id}` },
    element("p", { className: "content" }, comment.content),
    element("p", { className: "quiet" }, `${comment.author.name}, ${isNew(comment) ? "sending…" : timeText(comment)}`),
  );

/** What is shown already stays, so that a screen reader says only what is new. */
function showComments(comments: readonly Comment[]): void {
  const list = find("#comments ul");
  const lines = new Map([...list.children].map((line) => [line.id, line]));
  const shown = comments.map((comment) => lines.get(`comment-${comment.id}`) ?? lineOf(comment));
  for (const line of [...list.children]) if (!shown.includes(line)) line.remove();
  for (const [i, line] of shown.entries())
    if (list.children[i] !== line) list.insertBefore(line, list.children[i] ?? null);
}

/** Null: it is being read. */
function show(read: Read | null): void {
  current = read ?? { article: null };
  const { article } = current;
  find("#gone").hidden = read === null || article !== null;
  find("#comments").hidden = article === null;
  find("#title").textContent = article?.title ?? (read === null ? "Loading…" : "");
  find("#author").textContent = article
    ? `by ${article.author.name}${article.status === "DRAFT" ? " · draft" : ""}`
    : "";
  find("#content").textContent = article?.content ?? "";
  find("#publish").hidden = article?.status !== "DRAFT" || article.author.id !== String(session()?.user.id);
  find("#earlier").hidden = !article?.commentsConnection.pageInfo.hasPreviousPage;
  showComments(article?.commentsConnection.edges.map(({ node }) => node) ?? []);
}

function fault(error: unknown): void {
  find("#fault").textContent = messageOf(error);
}

function open(id: string): void {
  stop();
  fault(undefined);
  show(null);
  find("#article").hidden = false;
  stop = follow<Read, { readonly onCommentAdded: Comment }>({
    query: READ,
    subscription: ADDED,
    variables: { id },
    onRead(read) {
      show(read);
      // On a phone, the article is below the list.
      if (read) find("#article").scrollIntoView({ block: "nearest" });
    },
    onEvent: ({ onCommentAdded }) => show(withComment(current, onCommentAdded)),
    onError: fault,
  });
}

/** Changes the article if it is still the one that is open. */
function change(id: string, changed: (read: Read & { readonly article: object }) => Read): void {
  const { article } = current;
  if (article?.id === id) show(changed({ article }));
}

find("#earlier").addEventListener("click", async () => {
  const { id, commentsConnection } = current.article!;
  const before = commentsConnection.pageInfo.startCursor;
  try {
    const { data } = await graphql<Read>(READ, { id, before });
    change(id, (read) => withEarlier(read, before, data));
    fault(undefined);
  } catch (error) {
    fault(error);
  }
});

find("#publish").addEventListener("click", async () => {
  const { id } = current.article!;
  const as = (status: Article["status"]) => change(id, ({ article }) => ({ article: { ...article, status } }));
  as("PUBLISHED");
  try {
    await graphql(PUBLISH, { id }).finally(readLists);
  } catch (error) {
    as("DRAFT");
    fault(error);
  }
});

handle(find("#comment"), async ({ content = "" }) => {
  const { id } = current.article!;
  const sending = newComment(content, session()!.user);
  change(id, (read) => withComment(read, sending));
  try {
    const { data } = await graphql<{ readonly createComment: Comment }>(COMMENT, { id, content });
    change(id, (read) => withComment(withoutComment(read, sending), data.createComment));
  } catch (error) {
    change(id, (read) => withoutComment(read, sending));
    throw error;
  }
});

showAccount();
showList(false);
