import { useEffect, useState } from "react";
import { type CombinedError, gql, type TypedDocumentNode, useMutation, useQuery } from "urql";
import { articleOf, CREATE, type Created, type NewArticle, PUBLISH } from "../live/articles.ts";
import { readLists } from "../live/following.ts";
import { comment, follow, READ_DOCUMENT, readEarlier } from "../live/urql.ts";
import { useArticles, useLast } from "../live/urql-list.ts";
import { useUser } from "../shared/account.tsx";
import { ArticleList, ArticleView, Page } from "../shared/view.tsx";

type Variables = Readonly<Record<string, unknown>>;
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
      create={async (input) => articleOf((await dataOf(create({ input })).finally(readLists)).createArticle)}
      list={(drafts, open) => <List key={`${user} ${drafts}`} drafts={drafts} open={open} />}
      article={(id) => <Opened key={`${user} ${id}`} id={id} />}
    />
  );
}

function List({ drafts, open }: { drafts: string | null; open(id: string): void }) {
  const { articles, error, more } = useArticles(drafts);
  return <ArticleList articles={articles} fault={error} open={open} more={more} />;
}

function Opened({ id }: { id: string }) {
  const [state] = useQuery({ query: READ_DOCUMENT, variables: { id }, requestPolicy: "cache-only" });
  const { data } = useLast(state);
  const [, publish] = useMutation(PUBLISH_DOCUMENT);
  const [fault, setFault] = useState<unknown>();
  useEffect(() => follow(id, setFault), [id]);

  const article = data?.article;
  const connection = article?.commentsConnection;
  const { startCursor, hasPreviousPage } = connection?.pageInfo ?? {};
  return (
    <ArticleView
      article={article}
      comments={connection?.edges.map(({ node }) => node) ?? []}
      fault={fault}
      earlier={
        hasPreviousPage && startCursor
          ? () => dataOf(readEarlier(id, startCursor)).then(() => setFault(undefined), setFault)
          : null
      }
      publish={() => dataOf(publish({ id })).finally(readLists)}
      comment={(content) => dataOf(comment(id, content))}
    />
  );
}
