import { useEffect, useRef, useState } from "react";
import { gql, type TypedDocumentNode, type UseQueryState, useQuery } from "urql";
import { ARTICLES, type ArticlesData, filterOf, MOST, PAGE } from "./articles.ts";
import { onReadLists, readAgain } from "./following.ts";

const DOCUMENT: TypedDocumentNode<ArticlesData, Readonly<Record<string, unknown>>> = gql(ARTICLES);

type State<Data> = Pick<UseQueryState<Data>, "data" | "error" | "fetching" | "stale">;
/** What to show of a query: the last data, also beside an error, and the last error, until another read has ended. */
export function useLast<Data>({ data, error, fetching, stale }: State<Data>): Pick<State<Data>, "data" | "error"> {
  const last = useRef<Pick<State<Data>, "data" | "error">>({});
  const isReading = fetching || stale;
  last.current = { data: data ?? last.current.data, error: error ?? (isReading ? last.current.error : undefined) };
  return last.current;
}

/** What is published, or the drafts of the user with this id. `more` is null if all are shown, or as many as a list may have. */
export function useArticles(drafts: string | null) {
  // One query has all rows that are shown, so that another read has all of them too.
  const [first, setFirst] = useState(PAGE);
  const variables = { ...filterOf(drafts), first };
  const [state, read] = useQuery({ query: DOCUMENT, variables, requestPolicy: "cache-and-network" });
  const { data, error } = useLast(state);
  useEffect(() => readAgain(error, read), [error, read]);
  useEffect(() => onReadLists(read), [read]);
  const articles = data?.articles;
  const hasMore = articles?.pageInfo.hasNextPage && first < MOST;
  return { articles, error, more: hasMore ? () => setFirst(Math.min(first + PAGE, MOST)) : null };
}
