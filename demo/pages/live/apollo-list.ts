import { gql, type TypedDocumentNode } from "@apollo/client";
import { useQuery } from "@apollo/client/react";
import { useEffect, useRef, useState } from "react";
import { ARTICLES, type ArticlesData, filterOf, MOST, PAGE } from "./articles.ts";
import { onReadLists, readAgain } from "./following.ts";

const DOCUMENT: TypedDocumentNode<ArticlesData, Readonly<Record<string, unknown>>> = gql(ARTICLES);

/** What is published, or the drafts of the user with this id. `more` is null if all are shown, or as many as a list may have. */
export function useArticles(drafts: string | null) {
  // One query has all rows that are shown, so that another read has all of them too.
  const [first, setFirst] = useState(PAGE);
  const { data, error, loading, observable } = useQuery(DOCUMENT, {
    variables: { ...filterOf(drafts), first },
    fetchPolicy: "cache-and-network",
    // A read after a mutation must not join one that began before it.
    context: { queryDeduplication: false },
  });
  // A message stays until another read has ended. That of a read which `resetStore` has ended is none: another one follows.
  const last = useRef<typeof error>(undefined);
  const shown = error?.name === "Invariant Violation" ? undefined : error;
  last.current = shown ?? (loading ? last.current : undefined);
  const fault = last.current;
  // Unlike `refetch`, `reobserve` ends a read that is on its way: its response may be older, and arrive later.
  useEffect(() => readAgain(fault, () => observable.reobserve()), [fault, observable]);
  useEffect(() => onReadLists(() => observable.reobserve()), [observable]);
  const articles = data?.articles;
  const hasMore = articles?.pageInfo.hasNextPage && first < MOST;
  return { articles, error: fault, more: hasMore ? () => setFirst(Math.min(first + PAGE, MOST)) : null };
}
