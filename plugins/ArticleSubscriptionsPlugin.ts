import type { PgResource } from "postgraphile/@dataplan/pg";
import { constant, lambda } from "postgraphile/grafast";
import { extendSchema, gql } from "postgraphile/utils";
import { changes, currentRow } from "./TableSubscriptionsPlugin.ts";

/**
 * `onArticleCreated: Article!`, `onCommentAdded(articleId: ID!): Comment!`, `onArticleUpdated(id: ID): Article`: an event
 * for each committed change. The row is read when the event arrives, as the subscriber and under the policies.
 */
export const ArticleSubscriptionsPlugin = extendSchema((build) => {
  const { articles, comments } = build.input.pgRegistry.pgResources as Record<
    string,
    PgResource<any, any, any, any, any>
  >;
  if (!articles || !comments) return { typeDefs: [] };
  return {
    typeDefs: gql`
      extend type Subscription {
        """Sends each article that is created."""
        onArticleCreated: Article!
        """Sends each comment that is added to this article."""
        onCommentAdded(articleId: ID!): Comment!
        """Sends this article, or without an id any article, whenever it changes."""
        onArticleUpdated(id: ID): Article
      }
    `,
    objects: {
      Subscription: {
        plans: {
          onArticleCreated: {
            subscribePlan: () => changes(articles, "INSERT", constant({})),
            plan: currentRow(articles),
          },
          onCommentAdded: {
            subscribePlan: (_: unknown, { $articleId }: any) =>
              changes(
                comments,
                "INSERT",
                lambda($articleId, (id) => ({ article_id: String(id) })),
              ),
            plan: currentRow(comments),
          },
          onArticleUpdated: {
            subscribePlan: (_: unknown, { $id }: any) =>
              changes(
                articles,
                "UPDATE",
                lambda($id, (id): Readonly<Record<string, string>> => (id == null ? {} : { id: String(id) })),
              ),
            plan: currentRow(articles),
          },
        },
      },
    },
  };
}, "ArticleSubscriptionsPlugin");
