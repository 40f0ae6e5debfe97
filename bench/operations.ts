/** One GraphQL operation that is measured. */
export type Operation = {
  readonly name: string;
  readonly about: string;
  readonly query: string;
  readonly isMutation: boolean;
  /** The variables of the n-th request. */
  variables(n: number): Readonly<Record<string, unknown>>;
};

export const USERS = 10_000;
export const ARTICLES = 100_000;
export const COMMENTS = 300_000;

export const OPERATIONS: readonly Operation[] = [
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
    about: "totalCount and the 10 newest articles, their authors, the authors' 5 newest articles",
    query: `query threeLevels($first: Int!, $limit: Int!) {
      articles(first: $first) {
        totalCount
        edges { node { id title author { id name articles(limit: $limit) { id title status } } } }
      }
    }`,
    isMutation: false,
    variables: () => ({ first: 10, limit: 5 }),
  },
  {
    name: "createArticle",
    about: "writes an article, reads it and its author",
    query: `mutation createArticle($input: CreateArticleInput!) {
      createArticle(input: $input) { success article { id title author { name } } }
    }`,
    isMutation: true,
    variables: (n) => ({
      input: {
        title: `Measured article ${n}`,
        content: "What is written while the bench runs is taken away again.",
        tags: ["bench"],
      },
    }),
  },
];

const BODIES = 64;

/** The bodies that a load sends in turn. */
export const bodiesOf = (operation: Operation): string[] =>
  Array.from({ length: BODIES }, (_, n) => bodyOf(operation, n));

export const bodyOf = ({ query, variables }: Operation, n: number): string =>
  JSON.stringify({ query, variables: variables(n) });
