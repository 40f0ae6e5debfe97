import { gql, type TypedDocumentNode } from "@apollo/client";
import { useMutation, useQuery } from "@apollo/client/react";
import { useEffect, useState } from "react";
import { useUser } from "../shared/account.tsx";
import {
  type ArticleData,
  type ArticlesData,
  type Comment,
  type Created,
  filterOf,
  type NewArticle,
  newComment,
  type Row,
  withComment,
  withoutComment,
} from "../shared/model.ts";
import { articleOf } from "../shared/session.ts";
import { ArticleList, ArticleView, Page } from "../shared/view.tsx";
import { client, hasMissed } from "./client.ts";

type Variables = Readonly<Record<string, unknown>>;

const ARTICLES: TypedDocumentNode<ArticlesData, Variables> = gql`
  query Articles($status: ArticleStatus, $filter: ArticleFilterInput, $after: String) {
    articles(first: 8, after: $after, status: $status, filter: $filter, orderBy: [CREATED_AT_DESC]) {
      totalCount
      edges { node { id title status author { id name } } }
      pageInfo { endCursor hasNextPage }
    }
  }
`;

const ARTICLE: TypedDocumentNode<ArticleData, Variables> = gql`
  query Article($id: ID!, $before: String) {
    article(id: $id) {
      id title content status author { id name }
      commentsConnection(last: 10, before: $before, orderBy: [ID_ASC]) {
        edges { node { id content createdAt author { id name } } }
        pageInfo { startCursor hasPreviousPage }
      }
    }
  }
`;

const ADDED: TypedDocumentNode<{ readonly onCommentAdded: Comment }, Variables> = gql`
  subscription Added($id: ID!) {
    onCommentAdded(articleId: $id) { id content createdAt author { id name } }
  }
`;

const CREATE: TypedDocumentNode<{ readonly createArticle: Created<Row> }, { input: NewArticle }> = gql`
  mutation Create($input: CreateArticleInput!) {
    createArticle(input: $input) { article { id title status author { id name } } message errors { field message } }
  }
`;

const PUBLISH: TypedDocumentNode<{ readonly publishArticle: Pick<Row, "id" | "status"> }, Variables> = gql`
  mutation Publish($id: ID!) { publishArticle(id: $id) { id status } }
`;

const COMMENT: TypedDocumentNode<{ readonly createComment: Comment }, Variables> = gql`
  mutation Comment($id: ID!, $content: String!) {
    createComment(articleId: $id, content: $content) { id content createdAt author { id name } }
  }
`;

export function Articles() {
  const [create] = useMutation(CREATE, { refetchQueries: ["Articles"] });
  return (
    <Page
      create={async (input) => articleOf((await create({ variables: { input } })).data!.createArticle)}
      list={(drafts, open) => <List drafts={drafts} open={open} />}
      article={(id) => <Opened key={id} id={id} />}
    />
  );
}

function List({ drafts, open }: { drafts: string | null; open(id: string): void }) {
  const { data, error, fetchMore } = useQuery(ARTICLES, {
    variables: filterOf(drafts),
    fetchPolicy: "cache-and-network",
  });
  const next = data?.articles.pageInfo;
  return (
    <ArticleList
      rows={data?.articles.edges.map(({ node }) => node)}
      total={data?.articles.totalCount}
      fault={error}
      open={open}
      more={next?.hasNextPage ? () => fetchMore({ variables: { after: next.endCursor } }) : null}
    />
  );
}

function Opened({ id }: { id: string }) {
  const user = useUser();
  const list = `comments on ${id}`;
  const variables = { id };
  const { data, error, fetchMore, refetch, subscribeToMore } = useQuery(ARTICLE, {
    variables,
    context: { list },
    fetchPolicy: "network-only",
  });
  const [refused, setRefused] = useState<Error>();
  const [gaps, setGaps] = useState(0);
  const [publish] = useMutation(PUBLISH, { refetchQueries: ["Articles"] });
  const [comment] = useMutation(COMMENT);
  // A comment that is being sent is an ordinary row: the list of an optimistic layer would hide the comments of others until the response.
  const change = (changed: (read: ArticleData) => ArticleData) =>
    client.cache.updateQuery({ query: ARTICLE, variables }, (read) => read && changed(read));
  async function send(content: string): Promise<void> {
    const sending = newComment(content, user!);
    change((read) => withComment(read, sending));
    try {
      const { data: sent } = await comment({ variables: { id, content } });
      change((read) => withComment(withoutComment(read, sending), sent!.createComment));
    } catch (refusal) {
      change((read) => withoutComment(read, sending));
      throw refusal;
    }
  }
  const isRead = Boolean(data?.article);

  // The subscription begins where the comments have been read: none is missed. `gaps`: how often they had to be read again.
  useEffect(() => {
    if (!isRead) return;
    return subscribeToMore({
      document: ADDED,
      variables: { id },
      context: { list, gaps },
      updateQuery: (read, { subscriptionData }) =>
        withComment(read as ArticleData, (subscriptionData.data as { onCommentAdded: Comment }).onCommentAdded),
      onError: async (fault) => {
        if (!hasMissed(fault)) return setRefused(fault);
        await refetch();
        setGaps((count) => count + 1);
      },
    });
  }, [id, list, isRead, gaps, subscribeToMore, refetch]);

  const connection = data?.article?.commentsConnection;
  const { startCursor, hasPreviousPage } = connection?.pageInfo ?? {};
  return (
    <ArticleView
      article={data?.article}
      comments={connection?.edges.map(({ node }) => node) ?? []}
      fault={error ?? refused}
      earlier={hasPreviousPage ? () => fetchMore({ variables: { before: startCursor } }) : null}
      publish={() =>
        publish({
          variables,
          optimisticResponse: {
            publishArticle: { __typename: "Article", id, status: "PUBLISHED" } as Pick<Row, "id" | "status">,
          },
        })
      }
      comment={send}
    />
  );
}
