import type {} from "postgraphile";

/**
 * What PostGraphile says of every table, in fewer words: they are a sixth of what a client reads of the schema. `_` is a name.
 */
const SHORTER: ReadonlyMap<string, string> = new Map([
  [
    "A filter to be used against `_` object types. All fields are combined with a logical ‘and.’",
    "Conditions on `_`. All must hold.",
  ],
  [
    "A filter to be used against many `_` object types. All fields are combined with a logical ‘and.’",
    "Conditions on related `_`.",
  ],
  [
    "Every related `_` matches the filter criteria. All fields are combined with a logical ‘and.’",
    "All of them match.",
  ],
  [
    "Some related `_` matches the filter criteria. All fields are combined with a logical ‘and.’",
    "At least one matches.",
  ],
  ["No related `_` matches the filter criteria. All fields are combined with a logical ‘and.’", "None matches."],
  ["Filter by the object’s `_` field.", "Conditions on `_`."],
  ["Filter by the object’s `_` relation.", "Conditions on `_`."],
  ["Checks for all expressions in this list.", "All of these hold."],
  ["Checks for any expressions in this list.", "One of these holds."],
  ["Negates the expression.", "This does not hold."],
  ["A connection to a list of `_` values.", "A page of `_`."],
  ["A list of edges which contains the `_` and cursor to aid in pagination.", "The items, with their cursors."],
  ["The count of *all* `_` you could get from the connection.", "The number of items on all pages."],
  ["Information to aid in pagination.", "Whether there are more pages."],
  ["A `_` edge in the connection.", "One `_` of a page."],
  ["A cursor for use in pagination.", "Its place, for `after` and `before`."],
  ["The `_` at the end of the edge.", "The `_`."],
  ["Methods to use when ordering `_`.", "Orders of `_`."],
]);

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
  if (described.description == null) return described;
  const description = described.description.trim();
  const [name = "_"] = /(?<=`)[^`]+(?=`)/.exec(description) ?? [];
  return { ...described, description: SHORTER.get(description.replace(name, "_"))?.replace("_", name) ?? description };
}
