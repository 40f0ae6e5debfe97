import type { Article } from "./comments.ts";
import type { Fault } from "./faults.ts";

export type Row = Omit<Article, "content">;
type Page = { readonly endCursor: string | null; readonly hasNextPage: boolean };
export type ArticlesData = {
  readonly articles: {
    readonly totalCount: number;
    readonly edges: readonly { readonly node: Row }[];
    readonly pageInfo: Page;
  };
};

/** Variables of ARTICLES: all that is published, or the drafts of the user with this id. */
export const filterOf = (drafts: string | null) =>
  drafts === null ? { status: "PUBLISHED" } : { status: "DRAFT", filter: { authorId: drafts } };

/** Rows of the list at first, and how many more on request. */
export const PAGE = 8;
/** The maximum of `first`. */
export const MOST = 1000;
export const ARTICLES = `query Articles($status: ArticleStatus, $filter: ArticleFilterInput, $first: Int) {
  articles(first: $first, status: $status, filter: $filter, orderBy: [CREATED_AT_DESC]) {
    totalCount
    edges { node { id title status author { id name } } }
    pageInfo { startCursor endCursor hasPreviousPage hasNextPage }
  }
}`;
export const PUBLISH = "mutation Publish($id: ID!) { publishArticle(id: $id) { id status } }";
export const CREATE = `mutation Create($input: CreateArticleInput!) {
  createArticle(input: $input) { article { id title status author { id name } } message errors { field message } }
}`;
export type NewArticle = Pick<Article, "title" | "content" | "status">;
export type Created = {
  readonly article: Row | null;
  readonly errors: readonly Fault[] | null;
  readonly message: string | null;
};

/** The article of a result of createArticle. Throws its errors, for `faultsOf`; a caller who is not signed in gets a message only. */
export function articleOf({ article, errors, message }: Created): Row {
  if (article) return article;
  throw Object.assign(new Error(message ?? ""), errors && { errors });
}
