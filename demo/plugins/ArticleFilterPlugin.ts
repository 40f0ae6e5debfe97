import { type PgCondition, type SQL, sql, sqlValueWithCodec, TYPES } from "content-service/postgraphile";

type Field = {
  readonly type: "status" | "ID" | "String" | "Datetime";
  readonly description: string;
  condition(article: SQL, value: string): SQL;
};

const text = (value: string) => sqlValueWithCodec(value, TYPES.text);

const FIELDS: Readonly<Record<string, Field>> = {
  status: {
    type: "status",
    description: "With this status.",
    condition: (article, status) => sql`${article}.status::text = ${text(status)}`,
  },
  authorId: {
    type: "ID",
    description: "By this user.",
    condition: (article, id) => (/^\d{1,18}$/.test(id) ? sql`${article}.author_id = ${text(id)}::bigint` : sql`false`),
  },
  tag: {
    type: "String",
    description: "With exactly this tag.",
    condition: (article, tag) => sql`${article}.tags @> array[${text(tag)}]`,
  },
  keyword: {
    type: "String",
    description: "With this text in the title, the content or a tag, ignoring case.",
    condition: (article, keyword) =>
      sql`(select internal.check_keyword(${text(keyword)})) and internal.article_matches(${article}, ${text(keyword)})`,
  },
  createdAfter: {
    type: "Datetime",
    description: "Created after this time.",
    condition: (article, time) => sql`${article}.created_at > ${text(time)}::timestamptz`,
  },
  createdBefore: {
    type: "Datetime",
    description: "Created before this time.",
    condition: (article, time) => sql`${article}.created_at < ${text(time)}::timestamptz`,
  },
};

/**
 * `ArticleFilterInput`: the filter of articles, with six fields of the contract in place of the generated ones:
 * `articles(filter: { status: PUBLISHED, keyword: "sql" })`. As everywhere, null sets no condition.
 */
export const ArticleFilterPlugin: GraphileConfig.Plugin = {
  name: "ArticleFilterPlugin",
  version: "1.0.0",
  after: ["PgConnectionArgFilterAttributesPlugin"],
  before: ["PgConnectionArgFilterLogicalOperatorsPlugin"],
  inflection: {
    replace: {
      filterType: (previous, _options, typeName) =>
        typeName === "Article" ? "ArticleFilterInput" : previous!(typeName),
    },
  },
  schema: {
    hooks: {
      GraphQLInputObjectType_fields(fields, build, { scope, fieldWithHooks }) {
        const { articles, search } = build.input.pgRegistry.pgResources;
        // Without the function `search` these are not the articles of the contract.
        if (!articles || search?.codec !== articles.codec) return fields;
        if (!scope.isPgConnectionFilter || scope.pgCodec !== articles.codec) return fields;
        const { GraphQLString, GraphQLID } = build.graphql;
        const types = {
          String: GraphQLString,
          ID: GraphQLID,
          Datetime: build.getInputTypeByName(build.inflection.builtin("Datetime")),
          status: build.getGraphQLTypeByPgCodec(articles.codec.attributes.status!.codec, "input"),
        };
        const added = Object.entries(FIELDS).map(([fieldName, { type, description, condition }]) => [
          fieldName,
          fieldWithHooks({ fieldName, isPgConnectionFilterField: true }, () => ({
            type: types[type] as any,
            description,
            apply(where: PgCondition, value: string | null) {
              if (value != null) where.where(condition(where.alias, value));
            },
          })),
        ]);
        return { ...fields, ...Object.fromEntries(added) };
      },
    },
  },
};
