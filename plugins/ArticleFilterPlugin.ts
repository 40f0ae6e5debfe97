import { type PgSelectQueryBuilder, type PgSelectStep, sqlValueWithCodec, TYPES } from "postgraphile/@dataplan/pg";
import { type ConnectionStep, lambda } from "postgraphile/grafast";
import { type SQL, sql } from "postgraphile/pg-sql2";

type ArticleFilter = {
  readonly status?: string | null;
  readonly authorId?: string | null;
  readonly tag?: string | null;
  readonly keyword?: string | null;
  readonly createdAfter?: string | null;
  readonly createdBefore?: string | null;
};
type Conditions = { readonly [K in keyof ArticleFilter]-?: (article: SQL, value: string) => SQL };

const text = (value: string) => sqlValueWithCodec(value, TYPES.text);

/** The condition of each field of the filter. */
const CONDITIONS: Conditions = {
  status: (article, status) => sql`${article}.status::text = ${text(status)}`,
  authorId: (article, id) => (/^\d{1,18}$/.test(id) ? sql`${article}.author_id = ${text(id)}::bigint` : sql`false`),
  tag: (article, tag) => sql`${article}.tags @> array[${text(tag)}]`,
  keyword: (article, keyword) =>
    sql`(select internal.check_keyword(${text(keyword)})) and internal.article_matches(${article}, ${text(keyword)})`,
  createdAfter: (article, time) => sql`${article}.created_at > ${text(time)}::timestamptz`,
  createdBefore: (article, time) => sql`${article}.created_at < ${text(time)}::timestamptz`,
};

/** `articles(filter: ArticleFilterInput)`: the articles that meet all conditions of the filter. */
export const ArticleFilterPlugin: GraphileConfig.Plugin = {
  name: "ArticleFilterPlugin",
  version: "1.0.0",
  after: ["PgFirstLastBeforeAfterArgsPlugin", "FilterArgumentsPlugin"],
  inflection: {
    add: {
      articleFilterInput: () => "ArticleFilterInput",
    },
  },
  schema: {
    hooks: {
      init(_, build) {
        if (!build.input.pgRegistry.pgResources.articles?.codec.attributes?.status) return _;
        const { GraphQLString, GraphQLID } = build.graphql;
        build.registerInputObjectType(
          build.inflection.articleFilterInput(),
          {},
          () => ({
            description: "Conditions for articles. An article must fulfil all of them.",
            fields: () => ({
              status: {
                type: build.getGraphQLTypeByPgCodec(
                  build.input.pgRegistry.pgResources.articles!.codec.attributes.status!.codec,
                  "input",
                ) as any,
                description: "With this status.",
              },
              authorId: { type: GraphQLID, description: "By this user." },
              tag: { type: GraphQLString, description: "With exactly this tag." },
              keyword: {
                type: GraphQLString,
                description: "With this text in the title, the content or a tag, ignoring case.",
              },
              createdAfter: {
                type: build.getInputTypeByName(build.inflection.builtin("Datetime")),
                description: "Created after this time.",
              },
              createdBefore: {
                type: build.getInputTypeByName(build.inflection.builtin("Datetime")),
                description: "Created before this time.",
              },
            }),
          }),
          "ArticleFilterPlugin",
        );
        return _;
      },
      GraphQLObjectType_fields_field_args(args, build, { scope }) {
        const { articles } = build.input.pgRegistry.pgResources;
        const type = build.getTypeByName(build.inflection.articleFilterInput());
        const isArticles =
          scope.fieldBehaviorScope === "query:resource:connection" && scope.pgFieldResource === articles;
        if (!type || !isArticles) return args;
        return build.extend(
          args,
          {
            filter: {
              type: type as any,
              description: "Only articles that fulfil these conditions.",
              applyPlan(_: unknown, $connection: ConnectionStep<any, any, any, any, any, PgSelectStep>, arg: any) {
                $connection.getSubplan().apply(lambda(arg.getRaw(), conditionsOf, true) as any);
              },
            },
          },
          "Adding filter to articles",
        );
      },
    },
  },
};

function conditionsOf(filter: unknown) {
  const wanted = Object.entries((filter as ArticleFilter | null) ?? {}).filter(
    (field): field is [string, string] => field[1] != null,
  );
  return (query: PgSelectQueryBuilder) => {
    for (const [name, value] of wanted) query.where(CONDITIONS[name as keyof ArticleFilter](query.alias, value));
  };
}

declare global {
  namespace GraphileBuild {
    interface Inflection {
      articleFilterInput(this: Inflection): string;
    }
  }
}
