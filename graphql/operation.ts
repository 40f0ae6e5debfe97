import {
  type DocumentNode,
  GraphQLError,
  type GraphQLSchema,
  isNonNullType,
  Kind,
  type OperationDefinitionNode,
  TypeInfo,
  visit,
  visitWithTypeInfo,
} from "postgraphile/graphql";

type Variables = Readonly<Record<string, unknown>>;

/**
 * What is wrong with a null: `$id: ID = 1` may stand where ID! is expected, unless somebody sends null for it. Neither
 * validation nor coercion can tell, and Grafast finds out while planning, which it takes for a fault of its own.
 */
export function refuseNulls(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  variables: Variables = {},
): readonly GraphQLError[] {
  const nulls = new Set(
    (operation.variableDefinitions ?? [])
      .filter(({ type, defaultValue }) => defaultValue !== undefined && type.kind !== Kind.NON_NULL_TYPE)
      .map(({ variable }) => variable.name.value)
      .filter((name) => variables[name] === null),
  );
  if (nulls.size === 0) return [];

  const errors: GraphQLError[] = [];
  const types = new TypeInfo(schema);
  visit(
    document,
    visitWithTypeInfo(types, {
      Variable(node) {
        const type = types.getInputType();
        if (!nulls.has(node.name.value) || !isNonNullType(type)) return;
        const message = `Variable "$${node.name.value}" must not be null: it is used where ${type} is expected.`;
        errors.push(new GraphQLError(message, { nodes: node, extensions: { code: "VALIDATION_ERROR" } }));
      },
    }),
  );
  return errors;
}
