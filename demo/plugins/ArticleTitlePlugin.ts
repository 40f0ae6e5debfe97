import { type PgSelectSingleStep, withArguments } from "content-service/postgraphile";

/** `Article.title(language: String): String!`: the column, or its translation by the SQL function `articles_title`. */
export const ArticleTitlePlugin: GraphileConfig.Plugin = {
  name: "ArticleTitlePlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, build, { scope }) {
        const translate = build.input.pgRegistry.pgResources.articles_title as any;
        if (!translate || scope.fieldName !== "title" || scope.pgFieldAttribute?.codec === undefined) return field;
        if (scope.pgCodec !== translate.parameters[0].codec) return field;
        const description =
          "A language code such as de. Without a language or a translation, the original title is returned.";
        const args = { language: { type: build.graphql.GraphQLString, description } };
        return withArguments(field, args, ($article: PgSelectSingleStep, { $language }: any) => {
          // Decided while planning, so that an operation without a language never calls the function.
          if ($language.constructor.name === "ConstantStep" && $language.data == null) return $article.get("title");
          return translate.execute([
            { step: $article.record() },
            { step: $language, pgCodec: translate.parameters[1].codec },
          ]);
        });
      },
    },
  },
};
