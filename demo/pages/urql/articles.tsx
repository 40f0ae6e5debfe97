import { useEffect, useState } from "react";
import { type CombinedError, gql, type TypedDocumentNode, useMutation, useQuery } from "urql";
import {
  ARTICLES,
  type ArticlesData,
  articleOf,
  CREATE,
  type Created,
  filterOf,
  type NewArticle,
  PUBLISH,
} from "../live/articles.ts";
import { socket } from "../live/socket.ts";
import { comment, follow, READ_DOCUMENT } from "../live/urql.ts";
import { useUser } from "../shared/account.tsx";
import { ArticleList, ArticleView, Page } from "../shared/view.tsx";

type Variables = Readonly<Record<string, unknown>>;
const ARTICLES_DOCUMENT: TypedDocumentNode<ArticlesData, Variables> = gql(ARTICLES);
const CREATE_DOCUMENT: TypedDocumentNode<{ readonly createArticle: Created }, { input: NewArticle }> = gql(CREATE);
const PUBLISH_DOCUMENT: TypedDocumentNode<unknown, Variables> = gql(PUBLISH);

type Result<Data> = { readonly data?: Data | undefined; readonly error?: CombinedError | undefined };

async function dataOf<Data>(result: Promise<Result<Data>>): Promise<Data> {
  const { data, error } = await result;
  if (error) throw error;
  return data!;
}

export function Articles() {
  const [, create] = useMutation(CREATE_DOCUMENT);
  // With another user, the components begin again, because useQuery would show what it had until the next result.
  const user = useUser()?.id;
  return (
    <Page
      create={async (input) => articleOf((await dataOf(create({ input }))).createArticle)}
      list={(drafts, open) => <List key={`${user} ${drafts}`} drafts={drafts} open={open} />}
      article={(id) => <Opened key={`${user} ${id}`} id={id} />}
    />
  );
}

function List({ drafts, open }: { drafts: string | null; open(id: string): void }) {
  // One query has all rows that are shown, so that a mutation which changes the list reads all of them again.
  const [first, setFirst] = useState(8);
  const [{ data, error }, read] = useQuery({ query: ARTICLES_DOCUMENT, variables: { ...filterOf(drafts), first } });
  const again = () => read({ requestPolicy: "network-only" });
  // What was written while the socket was closed. The comments are not read again: their subscription continues.
  useEffect(
    () => socket.on("connected", (_socket, _payload, wasRetry) => wasRetry && read({ requestPolicy: "network-only" })),
    [read],
  );
  return (
    <ArticleList
      rows={data?.articles.edges.map(({ node }) => node)}
      total={data?.articles.totalCount}
      fault={error}
      again={again}
      open={open}
      more={data?.articles.pageInfo.hasNextPage ? () => setFirst(first + 8) : null}
    />
  );
}

function Opened({ id }: { id: string }) {
  const [before, setBefore] = useState<string>();
  const [{ data, error }] = useQuery({
    query: READ_DOCUMENT,
    variables: before === undefined ? { id } : { id, before },
    requestPolicy: before === undefined ? "cache-and-network" : "cache-first",
  });
  const [, publish] = useMutation(PUBLISH_DOCUMENT);
  const [fault, setFault] = useState<unknown>();
  useEffect(() => follow(id, setFault), [id]);

  const connection = data?.article?.commentsConnection;
  const { startCursor, hasPreviousPage } = connection?.pageInfo ?? {};
  return (
    <ArticleView
      article={data?.article}
      comments={connection?.edges.map(({ node }) => node) ?? []}
      fault={fault ?? error}
      earlier={hasPreviousPage && startCursor ? () => setBefore(startCursor) : null}
      publish={() => dataOf(publish({ id }))}
      comment={(content) => dataOf(comment(id, content))}
    />
  );
}
