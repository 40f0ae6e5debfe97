import { gql } from "@apollo/client";
import { useMutation, useQuery } from "@apollo/client/react";
import { useEffect, useState } from "react";
import { articleOf } from "../session.js";
import { hasMissed } from "./client.js";
import { Form } from "./form.jsx";

const PAGE = 5;
const FIRST_PAGE = { first: PAGE };

const ARTICLES = gql`
  query Articles($first: Int, $after: String, $last: Int, $before: String) {
    articles(first: $first, after: $after, last: $last, before: $before, status: PUBLISHED, orderBy: [CREATED_AT_DESC]) {
      totalCount
      edges { node { id title author { id name } } }
      pageInfo { startCursor endCursor hasPreviousPage hasNextPage }
    }
  }
`;

const CREATE = gql`
  mutation Create($input: CreateArticleInput!) {
    createArticle(input: $input) { article { id } message errors { field message } }
  }
`;

const PUBLISH = gql`
  mutation Publish($id: ID!) { publishArticle(id: $id) { id status } }
`;

export function Articles() {
  const [page, setPage] = useState(FIRST_PAGE);
  const [opened, setOpened] = useState(null);
  const { data, previousData, error, refetch } = useQuery(ARTICLES, { variables: page });
  const [create] = useMutation(CREATE);
  const [publish] = useMutation(PUBLISH);

  async function write(input) {
    const { id } = articleOf((await create({ variables: { input } })).data.createArticle);
    await publish({ variables: { id } });
    setPage(FIRST_PAGE);
    await refetch(FIRST_PAGE);
  }

  if (error) return <p role="alert">{error.message}</p>;
  const shown = data ?? previousData;
  if (!shown) return <p role="status">Loading…</p>;
  const { totalCount, edges, pageInfo } = shown.articles;
  const { startCursor, endCursor, hasPreviousPage, hasNextPage } = pageInfo;
  return (
    <>
      <section aria-label="List of articles">
        <ul>
          {edges.map(({ node }) => (
            <li key={node.id}>
              <button type="button" className="link" onClick={() => setOpened(node)}>
                {node.title}
              </button>{" "}
              by {node.author.name}
            </li>
          ))}
        </ul>
        <p>
          <button
            type="button"
            disabled={!hasPreviousPage}
            onClick={() => setPage({ last: PAGE, before: startCursor })}
          >
            Previous
          </button>{" "}
          <button type="button" disabled={!hasNextPage} onClick={() => setPage({ first: PAGE, after: endCursor })}>
            Next
          </button>{" "}
          <span role="status">{totalCount} articles</span>
        </p>
      </section>
      {opened && <Comments key={opened.id} article={opened} />}
      <section>
        <h2>New article</h2>
        <Form
          label="New article"
          action="Publish"
          send={write}
          fields={{ title: { label: "Title" }, content: { label: "Content", as: "textarea" } }}
        />
      </section>
    </>
  );
}

const COMMENTS = gql`
  query Comments($id: ID!) {
    article(id: $id) { id comments { id content author { id name } } }
  }
`;

const ADDED = gql`
  subscription Added($id: ID!) {
    onCommentAdded(articleId: $id) { id content author { id name } }
  }
`;

const COMMENT = gql`
  mutation Comment($id: ID!, $content: String!) { createComment(articleId: $id, content: $content) { id } }
`;

/** Comments, which appear as they are written. */
function Comments({ article: { id, title } }) {
  const list = `comments on ${id}`;
  const { data, error, subscribeToMore, refetch } = useQuery(COMMENTS, {
    variables: { id },
    context: { list },
    fetchPolicy: "network-only",
  });
  const [refused, setRefused] = useState(null);
  const [gaps, setGaps] = useState(0);
  const [comment] = useMutation(COMMENT);
  const isRead = Boolean(data?.article);
  // The subscription begins where the comments have been read: none is missed. `gaps`: how often they had to be read again.
  useEffect(() => {
    if (!isRead) return;
    return subscribeToMore({
      document: ADDED,
      variables: { id },
      context: { list },
      updateQuery: (read, { subscriptionData }) => {
        if (!read.article) return;
        const added = subscriptionData.data.onCommentAdded;
        const others = read.article.comments.filter((each) => each.id !== added.id);
        return { article: { ...read.article, comments: [...others, added] } };
      },
      onError: async (fault) => {
        if (!hasMissed(fault)) return setRefused(fault);
        await refetch();
        setGaps((count) => count + 1);
      },
    });
  }, [id, list, isRead, gaps, subscribeToMore, refetch]);
  // Another user may delete the article after the list was read.
  if (data && !data.article)
    return (
      <section aria-label="Comments">
        <h2>{title}</h2>
        <p role="alert">This article no longer exists.</p>
      </section>
    );
  const fault = error ?? refused;
  return (
    <section aria-label="Comments">
      <h2>{title}</h2>
      {fault && <p role="alert">{fault.message}</p>}
      <ul>
        {data?.article.comments.map(({ id: key, content, author }) => (
          <li key={key}>
            {author.name}: {content}
          </li>
        ))}
      </ul>
      <Form
        label="Comment"
        action="Send"
        send={({ content }) => comment({ variables: { id, content } })}
        fields={{ content: { label: "Comment", as: "textarea" } }}
      />
    </section>
  );
}
