import { gql, type TypedDocumentNode } from "@apollo/client";
import { useMutation, useQuery } from "@apollo/client/react";
import { useEffect, useState } from "react";
import { client, comment, follow, READ_DOCUMENT } from "../live/apollo.ts";
import {
  ARTICLES,
  type ArticlesData,
  articleOf,
  CREATE,
  type Created,
  filterOf,
  type NewArticle,
  PUBLISH,
  type Row,
} from "../live/articles.ts";
import { socket } from "../live/socket.ts";
import { ArticleList, ArticleView, Page } from "../shared/view.tsx";

type Variables = Readonly<Record<string, unknown>>;
type Published = { readonly publishArticle: Pick<Row, "id" | "status"> & { readonly __typename: "Article" } };
const ARTICLES_DOCUMENT: TypedDocumentNode<ArticlesData, Variables> = gql(ARTICLES);
const CREATE_DOCUMENT: TypedDocumentNode<{ readonly createArticle: Created }, { input: NewArticle }> = gql(CREATE);
const PUBLISH_DOCUMENT: TypedDocumentNode<Published, Variables> = gql(PUBLISH);

// What was written while the socket was closed. The comments are not read again: their subscription continues.
socket.on("connected", (_socket, _payload, wasRetry) => {
  if (wasRetry) client.refetchQueries({ include: ["Articles"] });
});

export function Articles() {
  const [create] = useMutation(CREATE_DOCUMENT, { refetchQueries: ["Articles"] });
  return (
    <Page
      create={async (input) => articleOf((await create({ variables: { input } })).data!.createArticle)}
      list={(drafts, open) => <List drafts={drafts} open={open} />}
      article={(id) => <Opened key={id} id={id} />}
    />
  );
}

function List({ drafts, open }: { drafts: string | null; open(id: string): void }) {
  const { data, error, refetch, fetchMore } = useQuery(ARTICLES_DOCUMENT, {
    variables: filterOf(drafts),
    fetchPolicy: "cache-and-network",
  });
  const next = data?.articles.pageInfo;
  return (
    <ArticleList
      rows={data?.articles.edges.map(({ node }) => node)}
      total={data?.articles.totalCount}
      fault={error}
      again={() => refetch().catch(() => {})}
      open={open}
      more={next?.hasNextPage ? () => fetchMore({ variables: { after: next.endCursor } }) : null}
    />
  );
}

function Opened({ id }: { id: string }) {
  const { data, error, fetchMore } = useQuery(READ_DOCUMENT, { variables: { id }, fetchPolicy: "cache-and-network" });
  const [fault, setFault] = useState<unknown>();
  const [publish] = useMutation(PUBLISH_DOCUMENT, { refetchQueries: ["Articles"] });
  useEffect(() => follow(id, setFault), [id]);

  const connection = data?.article?.commentsConnection;
  const { startCursor, hasPreviousPage } = connection?.pageInfo ?? {};
  return (
    <ArticleView
      article={data?.article}
      comments={connection?.edges.map(({ node }) => node) ?? []}
      fault={fault ?? error}
      earlier={
        hasPreviousPage && startCursor ? () => fetchMore({ variables: { before: startCursor } }).catch(setFault) : null
      }
      publish={() =>
        publish({
          variables: { id },
          optimisticResponse: { publishArticle: { __typename: "Article", id, status: "PUBLISHED" } },
        })
      }
      comment={(content) => comment(id, content)}
    />
  );
}
