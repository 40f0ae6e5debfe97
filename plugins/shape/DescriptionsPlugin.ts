import type {} from "postgraphile";

/**
 * Descriptions are the comments of the database, trimmed. A field for a foreign key (`Post.author`) has the comment of
 * the column, not of the constraint: the comment of a constraint is the error message of its violation.
 */
export const DescriptionsPlugin: GraphileConfig.Plugin = {
  name: "DescriptionsPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType: (type) => trimmed(type),
      GraphQLEnumType: (type) => trimmed(type),
      GraphQLInputObjectType: (type) => trimmed(type),
      GraphQLInputObjectType_fields_field: (field) => trimmed(field),
      GraphQLObjectType_fields_field(field, _build, { scope }) {
        if (!scope.isPgSingleRelationField) return trimmed(field);
        const details = scope.pgRelationDetails as any;
        const relation = details?.registry.pgRelations[details.codec.name][details.relationName];
        if (!relation || relation.isReferencee || relation.localAttributes.length !== 1) return trimmed(field);
        return trimmed({ ...field, description: details.codec.attributes[relation.localAttributes[0]].description });
      },
    },
  },
};

function trimmed<T extends { description?: string | null | undefined }>(described: T): T {
  return described.description == null ? described : { ...described, description: described.description.trim() };
}
