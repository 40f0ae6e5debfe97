import { type GraphQLSchema, isInterfaceType, isObjectType } from "postgraphile/graphql";

/** The fields that `before` has and `after` has not, or with another type: `["Query.articles"]`. */
export function lostFields(before: GraphQLSchema, after: GraphQLSchema): string[] {
  const now = fieldsOf(after);
  return [...fieldsOf(before)].filter(([field, type]) => now.get(field) !== type).map(([field]) => field);
}

/** `Query.articles` → `ArticleConnection!` */
function fieldsOf(schema: GraphQLSchema): Map<string, string> {
  const types = Object.values(schema.getTypeMap()).filter((type) => isObjectType(type) || isInterfaceType(type));
  const fields = types.flatMap((type) => Object.values(type.getFields()).map((field) => [type, field] as const));
  return new Map(fields.map(([type, field]) => [`${type.name}.${field.name}`, String(field.type)]));
}
