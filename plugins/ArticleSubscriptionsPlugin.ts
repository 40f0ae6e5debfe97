import type { PgResource } from "postgraphile/@dataplan/pg";
import { access, constant, context, lambda, listen, type Step } from "postgraphile/grafast";
import { extendSchema, gql } from "postgraphile/utils";
import type { Change } from "../db/changes/change.ts";

/**
 * `onArticleCreated: Article!`, `onCommentAdded(articleId: ID!): Comment!`, `onArticleUpdated(id: ID): Article`: an event
 * for each committed change. The row is read when the event arrives, as the subscriber and under the policies.
 */
export const ArticleSubscriptionsPlugin = extendSchema((build) => {
  const { articles, comments } = build.input.pgRegistry.pgResources as Record<string, Table>;
  if (!articles || !comments) return { typeDefs: [] };
  const inserted = (resource: Table, $where: Step<ChangeFilter["where"]>) => changes(resource, "INSERT", $where);
  const rowOf = (resource: Table) => ($change: any) => resource.get({ id: access($change, ["row", "id"]) });
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
          onArticleCreated: { subscribePlan: () => inserted(articles, constant({})), plan: rowOf(articles) },
          onCommentAdded: {
            subscribePlan: (_: unknown, { $articleId }: any) =>
              inserted(
                comments,
                lambda($articleId, (id) => ({ article_id: String(id) })),
              ),
            plan: rowOf(comments),
          },
          onArticleUpdated: {
            subscribePlan: (_: unknown, { $id }: any) =>
              changes(
                articles,
                "UPDATE",
                lambda($id, (id): ChangeFilter["where"] => (id == null ? {} : { id: String(id) })),
              ),
            plan: rowOf(articles),
          },
        },
      },
    },
  };
}, "ArticleSubscriptionsPlugin");

/** As graphql/change-events.ts expects it. */
type ChangeFilter = {
  readonly schema: string;
  readonly table: string;
  readonly operation: Change["operation"];
  readonly where: Readonly<Record<string, string>>;
};

type Table = PgResource<any, any, any, any, any>;

/** The committed changes of a table whose columns have the values of `$where`. */
function changes({ extensions }: Table, operation: ChangeFilter["operation"], $where: Step<ChangeFilter["where"]>) {
  const { schemaName: schema, name: table } = extensions!.pg!;
  const $filter = lambda($where, (where): ChangeFilter => ({ schema: schema!, table, operation, where }));
  return listen(context().get("changes" as never) as any, $filter as any);
}
