import type {} from "postgraphile";
import type { PgCodecAttribute } from "postgraphile/@dataplan/pg";
import type { GraphQLInputType, GraphQLOutputType } from "postgraphile/graphql";

/** `author: User!`, `tags: [String!]!`, `[Post!]!`, `cursor: String!`: fields whose value cannot be null in the database are non-null. */
export const NotNullByDeclarationPlugin: GraphileConfig.Plugin = {
  name: "NotNullByDeclarationPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, build, { scope }) {
        const { GraphQLNonNull, getNullableType } = build.graphql;
        const nonNull = (type: GraphQLOutputType) => ({ ...field, type: new GraphQLNonNull(getNullableType(type)) });

        if (scope.isCursorField || scope.isPgFieldConnection) return nonNull(field.type);
        if (scope.isPgFieldSimpleCollection) return nonNull(withNonNullItems(build, field.type));
        if (hasNonNullItems(scope.pgFieldAttribute)) return { ...field, type: withNonNullItems(build, field.type) };
        if (scope.isPgSingleRelationField && alwaysReferencesRow(scope.pgRelationDetails)) return nonNull(field.type);
        return field;
      },
      GraphQLObjectType_fields_field_args_arg(arg, build, { scope }) {
        return scope.pgFieldResource?.parameters ? { ...arg, type: withNonNullItems(build, arg.type) } : arg;
      },
      GraphQLInputObjectType_fields_field(field, build, { scope }) {
        return hasNonNullItems(scope.pgAttribute) ? { ...field, type: withNonNullItems(build, field.type) } : field;
      },
    },
  },
};

/** An array may have nulls, unless they are of a domain that is not null, or the DBA promises with `@notNullItems` that it has none. */
const hasNonNullItems = (attribute: PgCodecAttribute | undefined): boolean =>
  attribute?.codec.arrayOfCodec?.notNull === true || attribute?.extensions?.tags?.notNullItems !== undefined;

/** `[String]` → `[String!]`, and `[String]!` → `[String!]!`; other types stay unchanged. */
function withNonNullItems<T extends GraphQLOutputType | GraphQLInputType>(build: GraphileBuild.Build, type: T): T {
  const { GraphQLList, GraphQLNonNull, isListType, isNonNullType } = build.graphql;
  const list = isNonNullType(type) ? type.ofType : type;
  if (!isListType(list) || isNonNullType(list.ofType)) return type;
  const nonNullItems = new GraphQLList(new GraphQLNonNull(list.ofType as any));
  return (isNonNullType(type) ? new GraphQLNonNull(nonNullItems) : nonNullItems) as unknown as T;
}

/**
 * Whether all columns of the foreign key are NOT NULL, and every caller can read the row that they refer to. With `@notNull` the DBA
 * promises it.
 */
function alwaysReferencesRow(details: any): boolean {
  if (!details) return false;
  const { registry, codec, relationName } = details;
  const { isReferencee, extensions, localAttributes } = registry.pgRelations[codec.name][relationName];
  if (isReferencee) return false;
  if (extensions?.tags?.notNull) return true;
  return extensions?.findsRow === true && localAttributes.every((column: string) => codec.attributes[column].notNull);
}
