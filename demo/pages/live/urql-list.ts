import { useEffect, useState } from "react";
import { gql, type TypedDocumentNode, useQuery } from "urql";
import { ARTICLES, type ArticlesData, filterOf, PAGE } from "./articles.ts";
import { readAgain } from "./following.ts";
import { socket } from "./socket.ts";

const DOCUMENT: TypedDocumentNode<ArticlesData, Readonly<Record<string, unknown>>> = gql(ARTICLES);

/** What is published, or the drafts of the user with this id. `more` is null if all are shown. */
export function useArticles(drafts: string | null) {
  // One query has all rows that are shown, so that a mutation which changes the list reads all of them again.
  const [first, setFirst] = useState(PAGE);
  const [{ data, error }, read] = useQuery({ query: DOCUMENT, variables: { ...filterOf(drafts), first } });
  useEffect(() => readAgain(error, () => read({ requestPolicy: "network-only" })), [error, read]);
  // What was written while the socket was closed.
  useEffect(
    () => socket.on("connected", (_socket, _payload, wasRetry) => wasRetry && read({ requestPolicy: "network-only" })),
    [read],
  );
  const articles = data?.articles;
  return { articles, error, more: articles?.pageInfo.hasNextPage ? () => setFirst(first + PAGE) : null };
}
