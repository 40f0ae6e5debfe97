/// <reference types="vite/client" />
import { createClient, type Session } from "@supabase/supabase-js";
import { idOf, type Row, readArticles } from "../live/article-list.ts";
import { authorizationOf } from "../live/authorization.ts";
import { checkSession } from "../live/check-session.ts";
import { limitedFetch } from "../live/limited-fetch.ts";
import { COLUMNS, followComments, type LiveComment } from "../live/live-comments.ts";
import { close, element, find, formIn, handle } from "../shared/dom.ts";
import { messageOf, totalText } from "../shared/model.ts";

const key = import.meta.env.VITE_ANON_KEY;
if (!key) {
  find("#total").textContent = "Start the page with the anon key that the service prints: VITE_ANON_KEY=… npm run dev";
  throw new Error("VITE_ANON_KEY is missing");
}
const supabase = createClient(location.origin, key, { global: { fetch: limitedFetch } });

/** Milliseconds until a read that failed is repeated. */
const PAUSE = 2000;
const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE * (0.5 + Math.random())));

type Result<Data> = { readonly data: Data; readonly error: unknown };
function refused<Refusal>(error: Refusal): Refusal {
  checkSession(supabase, error).catch(console.error);
  return error;
}
async function dataOf<Data>(request: PromiseLike<Result<Data>>): Promise<NonNullable<Data>> {
  const { data, error } = await request;
  if (error) throw refused(error);
  return data!;
}

/** Calls `show` with what `read` returns, as soon as that succeeds; until then, `fail` with each error. */
async function showRead<Data>(read: () => Promise<Data>, show: (data: Data) => void, fail: (error: unknown) => void) {
  try {
    show(await read());
  } catch (error) {
    fail(error);
    await pause();
    await showRead(read, show, fail);
  }
}

// Who is signed in

/** The inputs of the errors of `supabase.auth`. */
const FIELDS: Readonly<Record<string, string>> = {
  ...{ user_already_exists: "email", email_exists: "email", email_address_invalid: "email" },
  weak_password: "password",
};
function refuse(error: { readonly code?: string | undefined; readonly message: string } | null): void {
  if (error === null) return;
  const invalid =
    error.code === "validation_failed" ? (/password/.test(error.message) ? "password" : "email") : undefined;
  const field = invalid ?? FIELDS[error.code ?? ""];
  throw Object.assign(new Error(error.message), field && { fields: [{ field, message: error.message }] });
}

handle(formIn("sign-in"), async ({ username = "", password = "" }) => {
  refuse((await supabase.auth.signInWithPassword({ email: username, password })).error);
  close("sign-in");
});
handle(formIn("register"), async ({ name = "", email = "", password = "" }) => {
  const { data, error } = await supabase.auth.signUp({ email, password, options: { data: { name } } });
  refuse(error);
  if (data.session) return close("register");
  find("#registered").textContent = "You will get an e-mail with a link to confirm your address.";
});
find("#sign-out").addEventListener("click", async () => {
  find("#sign-out-fault").textContent = "";
  const { error } = await supabase.auth.signOut({ scope: "local" });
  if (error)
    find("#sign-out-fault").textContent =
      "You are signed out here. The service cannot be reached: there, the sign-in ends when it expires.";
});

/** The account of the page, its id in rows, and null for a visitor. Each change of the user is another object. */
let user: { readonly account: string; readonly id: number } | null | undefined;

const authorization = () => authorizationOf(supabase, user?.account);

async function changeUser(session: Session | null): Promise<void> {
  const account = session?.user.id ?? null;
  if (user !== undefined && account === (user?.account ?? null)) return;
  const changed = session && { account: session.user.id, id: idOf(session) };
  user = changed;
  for (const id of ["signed-in", "own", "comment"]) find(`#${id}`).hidden = account === null;
  for (const id of ["signed-out", "sign-in-to-comment"]) find(`#${id}`).hidden = account !== null;
  find("#signed-in strong").textContent = session?.user.email ?? "";
  // Another user must not see what the last one has read.
  stop();
  sending.clear();
  show([]);
  clearList();
  await supabase.removeAllChannels();
  await supabase.realtime.setAuth();
  if (user !== changed) return;
  showList(false, ROWS);
  if (opened !== null) open(opened);
}
// The library waits for this function, which therefore calls it later. It is called for all tabs.
supabase.auth.onAuthStateChange((_event, session) => void setTimeout(() => changeUser(session)));

// The list: what is published, or one's own drafts

/** Rows of the list at first, and how many more on request. */
const ROWS = 8;
let isDrafts = false;
let length = ROWS;
/** Counts the reads, of which the last one is shown. */
let reads = 0;

function clearList(): void {
  find("#articles").replaceChildren();
  find("#more").hidden = true;
  find("#total").textContent = "Loading…";
}

/** Reads the list. The same list keeps its length: one query has all rows that are shown. */
function showList(drafts: boolean, rows = drafts === isDrafts ? length : ROWS): Promise<void> {
  if (drafts !== isDrafts) clearList();
  [isDrafts, length] = [drafts, rows];
  const [asked, mine] = [user, ++reads];
  const isCurrent = () => asked === user && mine === reads;
  find("#published").ariaPressed = String(!drafts);
  find("#drafts").ariaPressed = String(drafts);
  return showRead(
    async () => {
      if (!isCurrent()) return null;
      return readArticles(supabase, rows, drafts ? (user?.id ?? 0) : undefined).catch((error: unknown) => {
        if (isCurrent()) throw refused(error);
        return null;
      });
    },
    (read) => {
      if (read === null || !isCurrent()) return;
      const lines = read.rows.map(({ id, title, author }) =>
        element(
          "li",
          {},
          element("button", { type: "button", className: "link", onclick: () => open(id) }, title),
          element("p", { className: "quiet" }, `by ${author.name}`),
        ),
      );
      find("#articles").replaceChildren(...lines);
      // Fewer rows than asked for, but not all: DB_MAX_ROWS.
      const hasMore = read.rows.length < read.count && read.rows.length >= rows;
      find("#more").hidden = !hasMore;
      find("#total").textContent = totalText(read.count, read.rows.length, hasMore);
    },
    (error) => {
      find("#total").textContent = messageOf(error);
    },
  );
}
find("#published").addEventListener("click", () => showList(false));
find("#drafts").addEventListener("click", () => showList(true));
find("#more").addEventListener("click", () => showList(isDrafts, length + ROWS));

handle(formIn("create"), async ({ title, content, status }) => {
  const insert = supabase.from("articles").insert({ title, content, status }).select("id").single();
  // Also after an error: the service may have executed it.
  const { id } = await dataOf(insert.setHeader("Authorization", await authorization())).finally(
    () => void showList(isDrafts),
  );
  close("create");
  open(id);
  if (isDrafts !== (status === "DRAFT")) showList(!isDrafts);
});

// An article and its comments, which appear as they are written

type Article = Row & { readonly content: string; readonly status: string; readonly author_id: number };
let opened: number | null = null;
let stop = (): void => {};
let readEarlier = (): void => {};
let add = (_comment: LiveComment): void => {};

let comments: readonly LiveComment[] = [];
/** Comments that wait for their response, and the last id before. */
const sending = new Set<{ readonly content: string; readonly after: number }>();

function show(shown: readonly LiveComment[], hasEarlier = false): void {
  comments = shown;
  find("#earlier").hidden = !hasEarlier;
  render();
}
function render(): void {
  // The change may arrive before the response.
  const isShown = ({ content, after }: { readonly content: string; readonly after: number }): boolean =>
    comments.some((one) => one.id > after && one.author.id === user?.id && one.content === content);
  const line = (content: string, note: string) =>
    element("li", {}, element("p", { className: "content" }, content), element("p", { className: "quiet" }, note));
  find("#comments ul").replaceChildren(
    ...comments.map(({ content, author }) => line(content, author.name)),
    ...[...sending].filter((one) => !isShown(one)).map(({ content }) => line(content, "sending…")),
  );
}

function showArticle(article: Article | null, missing: string): void {
  find("#title").textContent = article?.title ?? missing;
  find("#author").textContent = article
    ? `by ${article.author.name}${article.status === "DRAFT" ? " · draft" : ""}`
    : "";
  find("#content").textContent = article?.content ?? "";
  find("#publish").hidden = article?.status !== "DRAFT" || article.author_id !== user?.id;
  find("#comments").hidden = article === null;
}

const fault = (error: unknown): void => {
  find("#fault").textContent = messageOf(error);
};

function open(id: number): void {
  stop();
  opened = id;
  let isOver = false;
  let end = (): void => {};
  stop = () => {
    isOver = true;
    end();
  };
  find("#article").hidden = false;
  fault(undefined);
  sending.clear();
  show([]);
  showArticle(null, "Loading…");
  const columns = "id, title, content, status, author_id, author:users(name)";
  const read = () =>
    dataOf(supabase.from("articles").select(columns).eq("id", id).overrideTypes<Article[], { merge: false }>());
  showRead(
    async () => (isOver ? [] : read()),
    ([article = null]) => {
      if (isOver) return;
      fault(undefined);
      showArticle(article, "This article no longer exists.");
      // On a phone, the article is below the list.
      find("#article").scrollIntoView({ block: "nearest" });
      if (article === null) return;
      const following = followComments(supabase, id, show, fault);
      [end, readEarlier, add] = [following.end, following.earlier, following.add];
    },
    (error) => isOver || fault(error),
  );
}

find("#earlier").addEventListener("click", () => readEarlier());
find("#publish").addEventListener("click", async () => {
  try {
    const publish = supabase.rpc("publish_article", { id: opened });
    await dataOf(publish.setHeader("Authorization", await authorization())).finally(() => void showList(isDrafts));
    open(opened!);
  } catch (error) {
    fault(error);
  }
});

// The comment is shown while it is sent. Then the row of the response takes its place.
handle(find("#comment"), async ({ content = "" }) => {
  const [sent, shownBy] = [{ content, after: comments.at(-1)?.id ?? 0 }, add];
  sending.add(sent);
  render();
  try {
    const insert = supabase.from("comments").insert({ article_id: opened, content }).select(COLUMNS);
    const own = insert.setHeader("Authorization", await authorization());
    const [comment] = await dataOf(own.overrideTypes<LiveComment[], { merge: false }>());
    sending.delete(sent);
    if (comment) shownBy(comment);
  } finally {
    sending.delete(sent);
    render();
  }
});
