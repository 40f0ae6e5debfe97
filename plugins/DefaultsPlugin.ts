import { withPgClientFromPgService } from "postgraphile/graphile-build-pg";
import { constantOf } from "./constants.ts";

type Constant = string | number | boolean;
type Default = { column: string; expression: string };

/** `CreateArticleInput.status: ArticleStatus = DRAFT`: the plain default of a column is the default of its input field. */
export const InputDefaultsPlugin: GraphileConfig.Plugin = {
  name: "InputDefaultsPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      // Stock introspection knows that a column has a default, not which.
      async pgIntrospection_introspection(info, { introspection, serviceName }) {
        const service = info.resolvedPreset.pgServices!.find(({ name }) => name === serviceName)!;
        const { rows } = await withPgClientFromPgService(service, null, (client) =>
          client.query<Default>({
            text: `select adrelid::text || '.' || adnum::text as "column", pg_get_expr(adbin, adrelid) as expression
                   from pg_catalog.pg_attrdef`,
          }),
        );
        const expressions = new Map(rows.map(({ column, expression }) => [column, expression]));
        for (const attribute of introspection.attributes) {
          attribute.defaultExpression = expressions.get(`${attribute.attrelid}.${attribute.attnum}`);
        }
      },
      pgCodecs_attribute(_info, { pgAttribute, attribute }) {
        const inputDefault = pgAttribute.defaultExpression && constantOf(pgAttribute.defaultExpression);
        if (inputDefault !== undefined) attribute.extensions = { ...attribute.extensions, inputDefault } as never;
      },
    },
  },
  schema: {
    hooks: {
      GraphQLInputObjectType_fields_field(field, build, { scope }) {
        const value = (scope.pgAttribute?.extensions as { inputDefault?: Constant } | undefined)?.inputDefault;
        if (value === undefined || scope.isPgPatch) return field;
        const type = build.graphql.getNamedType(field.type);
        const { GraphQLInt, GraphQLFloat, GraphQLBoolean, isEnumType } = build.graphql;
        const fits =
          (typeof value === "string" && isEnumType(type)) ||
          (typeof value === "boolean" && type === GraphQLBoolean) ||
          (typeof value === "number" && (type === GraphQLInt || type === GraphQLFloat));
        return fits ? { ...field, defaultValue: value } : field;
      },
    },
  },
};

declare module "pg-introspection" {
  interface PgAttribute {
    /** As Postgres prints it: `'DRAFT'::public.article_status`. */
    defaultExpression?: string | undefined;
  }
}

declare global {
  namespace GraphileBuild {
    interface ScopeInputObjectFieldsField {
      isPgPatch?: boolean;
    }
  }
}
