import type { FieldError, User } from "./session.ts";

export type Status = "DRAFT" | "PUBLISHED" | "ARCHIVED";
export type Row = { readonly id: string; readonly title: string; readonly status: Status; readonly author: User };
export type Article = Row & { readonly content: string };
export type Comment = {
  readonly id: string;
  readonly content: string;
  readonly createdAt: string;
  readonly author: User;
};

type Edges<Node> = { readonly edges: readonly { readonly node: Node }[] };

export type ArticlesData = {
  readonly articles: Edges<Row> & {
    readonly totalCount: number;
    readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean };
  };
};

export type ArticleData = {
  readonly article:
    | (Article & {
        readonly commentsConnection: Edges<Comment> & {
          readonly pageInfo: { readonly startCursor: string | null; readonly hasPreviousPage: boolean };
        };
      })
    | null;
};

type CommentEdges = Edges<Comment>["edges"];
function withEdges({ article }: ArticleData, change: (edges: CommentEdges) => CommentEdges): ArticleData {
  if (article === null) return { article };
  const { commentsConnection } = article;
  const edges = change(commentsConnection.edges);
  return { article: { ...article, commentsConnection: { ...commentsConnection, edges } } };
}

const orderOf = (comment: Comment): number => (isSending(comment) ? Number.POSITIVE_INFINITY : Number(comment.id));

/**
 * An article with one more comment, in the order in which they are read. Its event may come before the response of the mutation, while
 * the comment is shown as one that is being sent: what the service has replaces that.
 */
export const withComment = (read: ArticleData, added: Comment): ArticleData =>
  withEdges(read, (edges) => {
    const isSame = ({ node }: CommentEdges[number]): boolean =>
      isSending(node) && !isSending(added) && node.author.id === added.author.id && node.content === added.content;
    const replaced = edges.find(({ node }) => node.id === added.id) ?? edges.find(isSame);
    const others = edges.filter((edge) => edge !== replaced);
    return [...others, { __typename: "CommentEdge", node: added }].sort((a, b) => orderOf(a.node) - orderOf(b.node));
  });

export const withoutComment = (read: ArticleData, { id }: Comment): ArticleData =>
  withEdges(read, (edges) => edges.filter(({ node }) => node.id !== id));

export type Created<Article> = {
  readonly article: Article | null;
  readonly errors: readonly FieldError[] | null;
  readonly message: string | null;
};
export type NewArticle = { readonly title: string; readonly content: string; readonly status: Status };

/** What the list shows: all that is published, or what the user has not published yet. */
export const filterOf = (drafts: string | null) =>
  drafts === null ? { status: "PUBLISHED" } : { status: "DRAFT", filter: { authorId: drafts } };

const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
export const timeText = (time: string): string => TIME.format(new Date(time));

/** A comment that is shown before the service has it. */
export const isSending = ({ id }: Comment): boolean => id.startsWith("new");

let sent = 0;
export const newComment = (content: string, { id, name }: User) => ({
  __typename: "Comment",
  id: `new ${++sent}`,
  content,
  createdAt: new Date().toISOString(),
  author: { __typename: "User", id: String(id), name },
});
