import type { PgResource } from "postgraphile/@dataplan/pg";
import { access, context, lambda, listen, type Step } from "postgraphile/grafast";
import { extendSchema, gql } from "postgraphile/utils";
import type { ChangeFilter } from "../db/changes/feed.ts";

/**
 * `onArticleCreated`, `onCommentAdded(articleId:)`, `onArticleUpdated(id:)`, for every committed change, whoever made
 * it. The row is read when the event arrives, as the subscriber and under the policies.
 */
export const ArticleSubscriptionsPlugin = extendSchema((build) => {
  const { articles, comments } = build.input.pgRegistry.pgResources as Record<
    string,
    PgResource<any, any, any, any, any>
  >;
  if (!articles || !comments) return { typeDefs: [] };
  const rowOf = (resource: PgResource<any, any, any, any, any>) => ($event: any) =>
    resource.get({ id: access($event, ["keys", "id"]) });
  return {
    typeDefs: gql`
      extend type Subscription {
        """Articles as they are written."""
        onArticleCreated: Article!
        """Comments as they are added to this article."""
        onCommentAdded(articleId: ID!): Comment!
        """This article, or any, whenever it changes."""
        onArticleUpdated(id: ID): Article
      }
    `,
    objects: {
      Subscription: {
        plans: {
          onArticleCreated: {
            subscribePlan: () =>
              changes(lambda(null, (): ChangeFilter => ({ table: "articles", operation: "INSERT", where: {} }))),
            plan: rowOf(articles),
          },
          onCommentAdded: {
            subscribePlan: (_: unknown, { $articleId }: any) =>
              changes(
                lambda(
                  $articleId,
                  (id): ChangeFilter => ({ table: "comments", operation: "INSERT", where: { article_id: String(id) } }),
                ),
              ),
            plan: rowOf(comments),
          },
          onArticleUpdated: {
            subscribePlan: (_: unknown, { $id }: any) =>
              changes(
                lambda(
                  $id,
                  (id): ChangeFilter => ({
                    table: "articles",
                    operation: "UPDATE",
                    where: id == null ? {} : { id: String(id) },
                  }),
                ),
              ),
            plan: rowOf(articles),
          },
        },
      },
    },
  };
}, "ArticleSubscriptionsPlugin");

const changes = ($filter: Step<ChangeFilter>) => listen(context().get("changes" as never) as any, $filter as any);
