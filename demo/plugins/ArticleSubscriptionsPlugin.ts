import {
  changes,
  constant,
  currentRow,
  extendSchema,
  gql,
  lambda,
  type PgResource,
  SafeError,
  type Step,
} from "content-service/postgraphile";

const subscriptions = extendSchema((build) => {
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
        """Sends this article whenever it changes; without an id, every article that changes."""
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
                lambda(existing(articles, $articleId), (id) => ({ article_id: String(id) })),
              ),
            plan: currentRow(comments),
          },
          onArticleUpdated: {
            subscribePlan: (_: unknown, { $id }: any) =>
              changes(
                articles,
                "UPDATE",
                lambda(
                  existing(articles, $id),
                  (id): Readonly<Record<string, string>> => (id == null ? {} : { id: String(id) }),
                ),
              ),
            plan: currentRow(articles),
          },
        },
      },
    },
  };
}, "ArticleSubscriptionsPlugin");

/**
 * `onArticleCreated: Article!`, `onCommentAdded(articleId: ID!): Comment!`, `onArticleUpdated(id: ID): Article`: an event
 * for each committed change. The row is read when the event arrives, as the subscriber and under the policies.
 */
export const ArticleSubscriptionsPlugin: GraphileConfig.Plugin = {
  ...subscriptions,
  // Its fields take the place of those that the service makes for every table.
  before: ["TableSubscriptionsPlugin"],
};

/** The id, if it is null or the subscriber may see such an article. Otherwise the subscription is refused: it would never send an event. */
const existing = (articles: PgResource<any, any, any, any, any>, $id: Step<unknown>): Step<unknown> =>
  lambda([$id, articles.get({ id: $id } as never).get("id")] as const, ([id, found]) => {
    if (id != null && found == null) throw new SafeError("article not found", { code: "RESOURCE_NOT_FOUND" });
    return id;
  });
