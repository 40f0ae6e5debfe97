type Author = { readonly __typename?: "User"; readonly id: string; readonly name: string };
export type Comment = {
  readonly __typename?: "Comment";
  readonly id: string;
  readonly content: string;
  readonly createdAt: string;
  readonly author: Author;
};
type Page = { readonly startCursor: string | null; readonly hasPreviousPage: boolean };
type Connection = { readonly edges: readonly { readonly node: Comment }[]; readonly pageInfo: Page };
export type Article = {
  readonly id: string;
  readonly title: string;
  readonly content: string;
  readonly status: "DRAFT" | "PUBLISHED" | "ARCHIVED";
  readonly author: Author;
};
export type Read = { readonly article: (Article & { readonly commentsConnection: Connection }) | null };

export const READ = `query Read($id: ID!, $before: String) {
  article(id: $id) {
    id title content status author { id name }
    commentsConnection(last: 10, before: $before, orderBy: [ID_ASC]) {
      edges { node { id content createdAt author { id name } } }
      pageInfo { startCursor endCursor hasPreviousPage hasNextPage }
    }
  }
}`;
export const ADDED = `subscription Added($id: ID!) {
  onCommentAdded(articleId: $id) { id content createdAt author { id name } }
}`;
export const COMMENT = `mutation Comment($id: ID!, $content: String!) {
  createComment(articleId: $id, content: $content) { id content createdAt author { id name } }
}`;

export const isNew = ({ id }: Comment): boolean => id.startsWith("new ");
const orderOf = (comment: Comment): number => (isNew(comment) ? Number.POSITIVE_INFINITY : Number(comment.id));

let sent = 0;
/** The comment that a page shows until the service has it. */
export const newComment = (
  content: string,
  { id, name }: { readonly id: unknown; readonly name: string },
): Comment => ({
  ...{ __typename: "Comment", id: `new ${++sent}`, content, createdAt: new Date().toISOString() },
  author: { __typename: "User", id: String(id), name },
});

type Edges = Connection["edges"];
const withEdges = ({ article }: Read, change: (edges: Edges) => Edges): Read => {
  if (article === null) return { article };
  const { commentsConnection } = article;
  return {
    article: { ...article, commentsConnection: { ...commentsConnection, edges: change(commentsConnection.edges) } },
  };
};

/** With one more comment, once, in the order of READ. What the service has replaces the row that was shown until then. */
export const withComment = (read: Read, added: Comment): Read =>
  withEdges(read, (edges) => {
    const isSending = ({ node }: Edges[number]): boolean =>
      isNew(node) && !isNew(added) && node.author.id === added.author.id && node.content === added.content;
    const replaced = edges.find(({ node }) => node.id === added.id) ?? edges.find(isSending);
    const others = edges.filter((edge) => edge !== replaced);
    return [...others, { __typename: "CommentEdge", node: added }].sort((a, b) => orderOf(a.node) - orderOf(b.node));
  });

export const withoutComment = (read: Read, { id }: Comment): Read =>
  withEdges(read, (edges) => edges.filter(({ node }) => node.id !== id));

/** With the comments before this cursor in front, unless the article has been read again meanwhile: there may be others in between. */
export function withEarlier({ article }: Read, before: string | null, earlier: Read): Read {
  if (article === null || earlier.article === null) return { article: null };
  const { edges, pageInfo } = article.commentsConnection;
  if (pageInfo.startCursor !== before) return { article };
  const { commentsConnection } = earlier.article;
  return {
    article: {
      ...article,
      commentsConnection: { ...commentsConnection, edges: [...commentsConnection.edges, ...edges] },
    },
  };
}
