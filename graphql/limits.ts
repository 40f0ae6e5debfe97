export type GraphQLLimits = Readonly<ReturnType<typeof graphqlLimits>>;

/** Numbers of GraphQL that no operator has a reason to change. */
export const graphqlLimits = () => ({
  /** Fields of an operation that search by a keyword, with fragments expanded. */
  graphqlMaxSearches: 20,
  /** Lexical tokens of a document. */
  graphqlMaxTokens: 20_000,
  /** Tables of the served schemas. If there are more, GraphQL is not served. */
  graphqlMaxTables: 2000,
  /** Maximum of first, last and limit. */
  graphqlMaxPageSize: 1000,
  /** Rows of a response, nested lists included. */
  graphqlMaxRows: 100_000,
  /** Concurrent operations on a WebSocket. */
  wsMaxSubscriptions: 100,
});
