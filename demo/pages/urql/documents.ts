import { gql, type TypedDocumentNode } from "urql";
import type { ArticleData, ArticlesData, Comment, Created, NewArticle, Row } from "../shared/model.ts";

type Variables = Readonly<Record<string, unknown>>;

export const ARTICLES: TypedDocumentNode<ArticlesData, Variables> = gql`
  query Articles($status: ArticleStatus, $filter: ArticleFilterInput, $after: String) {
    articles(first: 8, after: $after, status: $status, filter: $filter, orderBy: [CREATED_AT_DESC]) {
      totalCount
      edges { node { id title status author { id name } } }
      pageInfo { startCursor endCursor hasPreviousPage hasNextPage }
    }
  }
`;

export const ARTICLE: TypedDocumentNode<ArticleData, Variables> = gql`
  query Article($id: ID!, $before: String) {
    article(id: $id) {
      id title content status author { id name }
      commentsConnection(last: 10, before: $before, orderBy: [ID_ASC]) {
        edges { node { id content createdAt author { id name } } }
        pageInfo { startCursor endCursor hasPreviousPage hasNextPage }
      }
    }
  }
`;

export const ADDED: TypedDocumentNode<{ readonly onCommentAdded: Comment }, Variables> = gql`
  subscription Added($id: ID!) {
    onCommentAdded(articleId: $id) { id content createdAt author { id name } }
  }
`;

export const CREATE: TypedDocumentNode<{ readonly createArticle: Created<Row> }, { input: NewArticle }> = gql`
  mutation Create($input: CreateArticleInput!) {
    createArticle(input: $input) { article { id title status author { id name } } message errors { field message } }
  }
`;

export const PUBLISH: TypedDocumentNode<{ readonly publishArticle: Pick<Row, "id" | "status"> }, Variables> = gql`
  mutation Publish($id: ID!) { publishArticle(id: $id) { id status } }
`;

export const COMMENT: TypedDocumentNode<{ readonly createComment: Comment }, Variables> = gql`
  mutation Comment($id: ID!, $content: String!) {
    createComment(articleId: $id, content: $content) { id content createdAt author { id name } }
  }
`;
