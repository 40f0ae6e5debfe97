import { type ReactNode, useEffect, useRef, useState } from "react";
import type { ArticlesData, NewArticle } from "../live/articles.ts";
import { type Article, type Comment, isNew } from "../live/comments.ts";
import { Account, Dialog, useUser } from "./account.tsx";
import { Form } from "./form.tsx";
import { messageOf, timeText, totalText } from "./model.ts";

type PageProps = {
  /** `drafts`: the id of the user whose drafts are listed; null for what is published. */
  list(drafts: string | null, open: (id: string) => void): ReactNode;
  article(id: string): ReactNode;
  create(article: NewArticle): Promise<{ readonly id: string }>;
};

/** The frame of the page: who is signed in, a list beside the article that is open, and a dialog to write one. */
export function Page({ list, article, create }: PageProps) {
  const user = useUser();
  const [showsDrafts, setShowsDrafts] = useState(false);
  const [opened, setOpened] = useState<string | null>(null);
  const [isWriting, setWriting] = useState(false);
  async function write({ title = "", content = "" }: Record<string, string>, action: string) {
    const status = action === "Publish" ? "PUBLISHED" : "DRAFT";
    const { id } = await create({ title, content, status });
    setShowsDrafts(status === "DRAFT");
    setOpened(id);
    setWriting(false);
  }
  return (
    <>
      <header className="bar">
        <h1>Articles</h1>
        <Account />
      </header>
      <main>
        <section aria-label="List of articles">
          {user && (
            <div className="row">
              <button type="button" aria-pressed={!showsDrafts} onClick={() => setShowsDrafts(false)}>
                Published
              </button>
              <button type="button" aria-pressed={showsDrafts} onClick={() => setShowsDrafts(true)}>
                My drafts
              </button>
              <button type="button" onClick={() => setWriting(true)}>
                New article
              </button>
            </div>
          )}
          {list(user && showsDrafts ? String(user.id) : null, setOpened)}
        </section>
        {opened && article(opened)}
      </main>
      {user && isWriting && (
        <Dialog label="New article" close={() => setWriting(false)}>
          <Form
            label="New article"
            actions={["Publish", "Save as draft"]}
            send={write}
            fields={{ title: { label: "Title" }, content: { label: "Text", isLong: true } }}
          />
        </Dialog>
      )}
    </>
  );
}

type ListProps = {
  readonly articles: ArticlesData["articles"] | undefined;
  readonly fault: Error | undefined;
  open(id: string): void;
  /** Null if all are shown, or as many as a list may have. */
  readonly more: (() => void) | null;
};

export function ArticleList({ articles, fault, open, more }: ListProps) {
  const message = fault && <p role="alert">{messageOf(fault)}</p>;
  if (articles === undefined) return message ?? <p role="status">Loading…</p>;
  const { totalCount, edges } = articles;
  return (
    <>
      {message}
      <p role="status" className="quiet">
        {totalText(totalCount, edges.length, more !== null)}
      </p>
      <ul>
        {edges.map(({ node: { id, title, author } }) => (
          <li key={id}>
            <button type="button" className="link" onClick={() => open(id)}>
              {title}
            </button>
            <p className="quiet">by {author.name}</p>
          </li>
        ))}
      </ul>
      {more && (
        <button type="button" onClick={more}>
          More
        </button>
      )}
    </>
  );
}

type ArticleProps = {
  /** Undefined while it is read, null if it does not exist or is hidden. */
  readonly article: Article | null | undefined;
  readonly comments: readonly Comment[];
  readonly fault: unknown;
  /** Reads the comments before these; null if there are none. */
  readonly earlier: (() => void) | null;
  publish(): Promise<unknown>;
  comment(content: string): Promise<unknown>;
};

/** An article with its comments, oldest first. */
export function ArticleView({ article, comments, fault, earlier, publish, comment }: ArticleProps) {
  const user = useUser();
  const [refused, setRefused] = useState("");
  const section = useRef<HTMLElement>(null);
  // On a phone, the article is below the list.
  useEffect(() => {
    section.current?.scrollIntoView({ block: "nearest" });
  }, [article?.id]);
  if (article === undefined) return <p role={fault ? "alert" : "status"}>{messageOf(fault) || "Loading…"}</p>;
  if (article === null) return <p role="alert">This article no longer exists.</p>;
  const { title, content, author, status } = article;
  const send = () => publish().catch((error) => setRefused(messageOf(error)));
  return (
    <section ref={section} aria-label="Article">
      <article className="card">
        <section>
          <h2>{title}</h2>
          <p className="quiet">
            by {author.name}
            {status === "DRAFT" && " · draft"}
          </p>
          <p className="content">{content}</p>
          {status === "DRAFT" && author.id === String(user?.id) && (
            <div className="row">
              <button type="button" className="primary" onClick={send}>
                Publish
              </button>
            </div>
          )}
          <p role="alert">{refused}</p>
        </section>
      </article>
      <section className="card" aria-label="Comments">
        <h2>Comments</h2>
        <p role="alert">{messageOf(fault)}</p>
        {earlier && (
          <button type="button" onClick={earlier}>
            Earlier comments
          </button>
        )}
        {comments.length === 0 && <p className="quiet">No comments yet.</p>}
        <ul aria-live="polite">
          {comments.map((each) => (
            <li key={each.id} className={isNew(each) ? "sending" : ""}>
              <p className="content">{each.content}</p>
              <p className="quiet">
                {each.author.name}, {isNew(each) ? "sending…" : timeText(each)}
              </p>
            </li>
          ))}
        </ul>
        {user ? (
          <Form
            label="Comment"
            actions={["Send"]}
            send={(values) => comment(values.content ?? "")}
            fields={{ content: { label: "Your comment", isLong: true } }}
          />
        ) : (
          <p className="quiet">Sign in to write a comment.</p>
        )}
      </section>
    </section>
  );
}
