import { gql, type TypedDocumentNode } from "@apollo/client";
import { useMutation, useQuery } from "@apollo/client/react";
import { useEffect, useState } from "react";
import { comment, follow, READ_DOCUMENT, readEarlier } from "../live/apollo.ts";
import { useArticles } from "../live/apollo-list.ts";
import { articleOf, CREATE, type Created, type NewArticle, PUBLISH, type Row } from "../live/articles.ts";
import { readLists } from "../live/following.ts";
import { ArticleList, ArticleView, Page } from "../shared/view.tsx";

type Variables = Readonly<Record<string, unknown>>;
type Published = { readonly publishArticle: Pick<Row, "id" | "status"> & { readonly __typename: "Article" } };
const CREATE_DOCUMENT: TypedDocumentNode<{ readonly createArticle: Created }, { input: NewArticle }> = gql(CREATE);
const PUBLISH_DOCUMENT: TypedDocumentNode<Published, Variables> = gql(PUBLISH);

export function Articles() {
  const [create] = useMutation(CREATE_DOCUMENT);
  return (
    <Page
      create={async (input) =>
        articleOf((await create({ variables: { input } }).finally(readLists)).data!.createArticle)
      }
      list={(drafts, open) => <List key={drafts} drafts={drafts} open={open} />}
      article={(id) => <Opened key={id} id={id} />}
    />
  );
}

function List({ drafts, open }: { drafts: string | null; open(id: string): void }) {
  const { articles, error, more } = useArticles(drafts);
  return <ArticleList articles={articles} fault={error} open={open} more={more} />;
}

function Opened({ id }: { id: string }) {
  // `follow` reads it.
  const { data } = useQuery(READ_DOCUMENT, { variables: { id }, fetchPolicy: "cache-only" });
  const [fault, setFault] = useState<unknown>();
  const [publish] = useMutation(PUBLISH_DOCUMENT);
  useEffect(() => follow(id, setFault), [id]);

  const connection = data?.article?.commentsConnection;
  const { startCursor, hasPreviousPage } = connection?.pageInfo ?? {};
  return (
    <ArticleView
      article={data?.article}
      comments={connection?.edges.map(({ node }) => node) ?? []}
      fault={fault}
      earlier={
        hasPreviousPage && startCursor
          ? () => readEarlier(id, startCursor).then(() => setFault(undefined), setFault)
          : null
      }
      publish={() =>
        publish({
          variables: { id },
          optimisticResponse: { publishArticle: { __typename: "Article", id, status: "PUBLISHED" } },
        }).finally(readLists)
      }
      comment={(content) => comment(id, content)}
    />
  );
}
