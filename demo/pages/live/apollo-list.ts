import { gql, type TypedDocumentNode } from "@apollo/client";
import { useQuery } from "@apollo/client/react";
import { useEffect, useState } from "react";
import { ARTICLES, type ArticlesData, filterOf, PAGE } from "./articles.ts";
import { readAgain } from "./following.ts";
import { socket } from "./socket.ts";

const DOCUMENT: TypedDocumentNode<ArticlesData, Readonly<Record<string, unknown>>> = gql(ARTICLES);

/** What is published, or the drafts of the user with this id. `more` is null if all are shown. */
export function useArticles(drafts: string | null) {
  // One query has all rows that are shown, so that `refetchQueries` reads all of them again.
  const [first, setFirst] = useState(PAGE);
  const { data, error, refetch } = useQuery(DOCUMENT, {
    variables: { ...filterOf(drafts), first },
    fetchPolicy: "cache-and-network",
    // A read after a mutation must not join one that began before it.
    context: { queryDeduplication: false },
  });
  useEffect(() => readAgain(error, () => refetch().catch(() => {})), [error, refetch]);
  // What was written while the socket was closed.
  useEffect(
    () => socket.on("connected", (_socket, _payload, wasRetry) => wasRetry && refetch().catch(() => {})),
    [refetch],
  );
  const articles = data?.articles;
  return { articles, error, more: articles?.pageInfo.hasNextPage ? () => setFirst(first + PAGE) : null };
}
