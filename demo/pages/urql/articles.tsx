import { useEffect, useState } from "react";
import { type CombinedError, useMutation, useQuery } from "urql";
import { filterOf } from "../shared/model.ts";
import { articleOf } from "../shared/session.ts";
import { ArticleList, ArticleView, Page } from "../shared/view.tsx";
import { faultOf, follow, onReconnect, send } from "./client.ts";
import { ARTICLE, ARTICLES, CREATE, PUBLISH } from "./documents.ts";

type Result<Data> = { readonly data?: Data | undefined; readonly error?: CombinedError | undefined };

async function dataOf<Data>(result: Promise<Result<Data>>): Promise<Data> {
  const { data, error } = await result;
  if (error) throw faultOf(error);
  return data!;
}

export function Articles() {
  const [, create] = useMutation(CREATE);
  return (
    <Page
      create={async (input) => articleOf((await dataOf(create({ input }))).createArticle)}
      list={(drafts, open) => <List key={drafts} drafts={drafts} open={open} />}
      article={(id) => <Opened key={id} id={id} />}
    />
  );
}

function List({ drafts, open }: { drafts: string | null; open(id: string): void }) {
  const [after, setAfter] = useState<string | null>(null);
  const [{ data, error }, read] = useQuery({ query: ARTICLES, variables: { ...filterOf(drafts), after } });
  useEffect(() => onReconnect(() => read({ requestPolicy: "network-only" })), [read]);
  const next = data?.articles.pageInfo;
  return (
    <ArticleList
      rows={data?.articles.edges.map(({ node }) => node)}
      total={data?.articles.totalCount}
      fault={faultOf(error)}
      open={open}
      more={next?.hasNextPage ? () => setAfter(next.endCursor) : null}
    />
  );
}

function Opened({ id }: { id: string }) {
  const [before, setBefore] = useState<string | null>(null);
  const [{ data, error }] = useQuery({
    query: ARTICLE,
    variables: { id, before },
    requestPolicy: before === null ? "network-only" : "cache-first",
  });
  const [, publish] = useMutation(PUBLISH);

  const [refused, setRefused] = useState<Error>();
  const isRead = Boolean(data?.article);
  // The subscription begins where the comments have been read: none is missed.
  useEffect(() => (isRead ? follow(id, setRefused) : undefined), [id, isRead]);

  const connection = data?.article?.commentsConnection;
  const { startCursor, hasPreviousPage } = connection?.pageInfo ?? {};
  return (
    <ArticleView
      article={data?.article}
      comments={connection?.edges.map(({ node }) => node) ?? []}
      fault={faultOf(error) ?? refused}
      earlier={hasPreviousPage ? () => setBefore(startCursor!) : null}
      publish={() => dataOf(publish({ id }))}
      comment={(content) => dataOf(send(id, content))}
    />
  );
}
