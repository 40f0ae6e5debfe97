import { useEffect, useRef, useState } from "react";
import { gql, type TypedDocumentNode, useQuery } from "urql";
import { ARTICLES, type ArticlesData, filterOf, PAGE } from "./articles.ts";
import { readAgain } from "./following.ts";
import { socket } from "./socket.ts";

const DOCUMENT: TypedDocumentNode<ArticlesData, Readonly<Record<string, unknown>>> = gql(ARTICLES);

/** The last data of a query, also while it has an error instead: what is shown stays beside the message. */
export function useLast<Data>(data: Data | undefined): Data | undefined {
  const last = useRef(data);
  last.current = data ?? last.current;
  return last.current;
}

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
  const articles = useLast(data)?.articles;
  return { articles, error, more: articles?.pageInfo.hasNextPage ? () => setFirst(first + PAGE) : null };
}
