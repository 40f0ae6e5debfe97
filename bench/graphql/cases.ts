import type { Case } from "../case.ts";
import { bearer } from "../credentials.ts";
import { ARTICLES, COMMENTS, USERS } from "../database.ts";

/** One GraphQL operation that is measured. */
type Operation = {
  readonly name: string;
  readonly about: string;
  readonly query: string;
  readonly isMutation: boolean;
  /** The variables of the n-th request. */
  variables(n: number): Readonly<Record<string, unknown>>;
};

const OPERATIONS: readonly Operation[] = [
  {
    name: "articleById",
    about: "one article and its author",
    query: `query articleById($id: ID!) {
      article(id: $id) { id title content status tags createdAt author { id name } }
    }`,
    isMutation: false,
    variables: (n) => ({ id: String(1 + ((n * 1559) % ARTICLES)) }),
  },
  {
    name: "articlesWithAuthors",
    about: "the 20 newest articles, each with its author",
    query: `query articlesWithAuthors($first: Int!) {
      articles(first: $first) { edges { node { id title author { id name } } } }
    }`,
    isMutation: false,
    variables: () => ({ first: 20 }),
  },
  {
    name: "threeLevels",
    about: "the 10 newest articles, their authors, and the 5 newest articles of each author",
    query: `query threeLevels($first: Int!, $limit: Int!) {
      articles(first: $first) {
        edges { node { id title author { id name articles(limit: $limit) { id title status } } } }
      }
    }`,
    isMutation: false,
    variables: () => ({ first: 10, limit: 5 }),
  },
  {
    name: "threeLevelsCounted",
    about: "the same and totalCount, for which every server counts 100,000 articles",
    query: `query threeLevelsCounted($first: Int!, $limit: Int!) {
      articles(first: $first) {
        totalCount
        edges { node { id title author { id name articles(limit: $limit) { id title status } } } }
      }
    }`,
    isMutation: false,
    variables: () => ({ first: 10, limit: 5 }),
  },
  {
    name: "filteredList",
    about:
      "the first 20 published articles of 10 authors by title, with their authors and the newest 3 of their later comments",
    query: `query filteredList($first: Int!, $limit: Int!, $filter: ArticleFilterInput!, $comments: CommentFilter!) {
      articles(first: $first, filter: $filter, orderBy: [TITLE_ASC]) {
        edges { node { id title author { id name } comments(limit: $limit, filter: $comments, orderBy: [ID_DESC]) { id content } } }
      }
    }`,
    isMutation: false,
    variables: (n) => ({
      first: 20,
      limit: 3,
      filter: {
        status: "PUBLISHED",
        author: { id: { in: Array.from({ length: 10 }, (_, i) => String(1 + ((n * 97 + i) % USERS))) } },
      },
      comments: { id: { greaterThan: String(COMMENTS / 3) } },
    }),
  },
  {
    name: "createArticle",
    about: "creates an article and returns it with its author",
    query: `mutation createArticle($input: CreateArticleInput!) {
      createArticle(input: $input) { success article { id title author { name } } }
    }`,
    isMutation: true,
    variables: (n) => ({
      input: {
        title: `Measured article ${n}`,
        content: "Rows written by the bench are deleted afterwards.",
        tags: ["bench"],
      },
    }),
  },
];

const BODIES = 64;

export const CASES: readonly Case[] = OPERATIONS.map(({ name, about, query, isMutation, variables }) => ({
  name,
  about,
  writes: isMutation,
  ownFields: isMutation ? ["id"] : [],
  // No operation of the bench answers null anywhere.
  refused: ['"errors"', ":null"],
  requests: () => {
    const headers = { Accept: "application/json", Authorization: bearer() };
    return Array.from({ length: BODIES }, (_, n) => ({
      method: "POST",
      path: "/graphql",
      headers,
      body: JSON.stringify({ query, variables: variables(n) }),
    }));
  },
}));
