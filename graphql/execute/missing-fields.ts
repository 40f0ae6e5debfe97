import {
  type ASTNode,
  type DocumentNode,
  type FieldNode,
  type GraphQLError,
  type GraphQLNamedType,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isObjectType,
  TypeInfo,
  visit,
  visitWithTypeInfo,
} from "postgraphile/graphql";
import { camelCase } from "../../config/setting-types.ts";
import type {} from "../../plugins/lists/UnindexedFiltersPlugin.ts";
import type {} from "../../plugins/shape/absent-fields.ts";

const UNKNOWN = [
  /Field "(?<name>\w+)" is not defined by type "(?<type>\w+)"\./,
  /Value "(?<name>\w+)" does not exist in "(?<type>\w+)" enum\./,
  /Cannot query field "(?<name>\w+)" on type "(?<type>\w+)"\./,
];

/**
 * Adds the reason to an error of graphql-js about a column that cannot be filtered or ordered by, an operator, or a field that is
 * missing for want of a key, an index or a right, or has another name than in the database:
 *
 *   Field "name" is not defined by type "ProjectFilter": `name` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on.
 *   Field "eq" is not defined by type "StringFilter": the operators are equalTo, in, …
 *   Cannot query field "updateImport" on type "Mutation": `imports` has no primary key. Create one, or use updateImports with a filter.
 *   Cannot query field "store" on type "Customer": use storeByHomeStore or warehouse.
 */
export function explainMissing(error: GraphQLError, schema: GraphQLSchema): GraphQLError {
  for (const unknown of UNKNOWN) {
    const found = unknown.exec(error.message);
    const { name = "", type = "" } = found?.groups ?? {};
    const reason = reasonFor(name, schema.getType(type));
    if (found && reason) error.message = `${error.message.slice(0, found.index + found[0].length - 1)}: ${reason}.`;
  }
  return error;
}

const OF_LEAF = / must not have a selection since type ".*" has no subfields\.$/;

/**
 * Adds the field of the row to errors about a selection of a key:
 *
 *   Field "homeStore" must not have a selection since type "ID" has no subfields: use storeByHomeStore.
 */
export function explainSelections(
  errors: readonly GraphQLError[],
  document: DocumentNode,
  schema: GraphQLSchema,
): void {
  const ofLeaves = errors.filter(({ message }) => OF_LEAF.test(message));
  if (ofLeaves.length === 0) return;
  const bySelection = new Map<ASTNode | undefined, GraphQLError>(ofLeaves.map((error) => [error.nodes?.[0], error]));
  const types = new TypeInfo(schema);
  const Field = ({ name, selectionSet }: FieldNode) => {
    const error = selectionSet && bySelection.get(selectionSet);
    const reason = error && reasonFor(name.value, types.getParentType());
    if (reason) error.message = `${error.message.slice(0, -1)}: ${reason}.`;
  };
  visit(document, visitWithTypeInfo(types, { Field }));
}

function reasonFor(name: string, type: GraphQLNamedType | null | undefined): string | null {
  if (isObjectType(type) || isInputObjectType(type)) {
    const { reason, instead, others = [] } = type.extensions.absent?.(name) ?? { reason: null, instead: null };
    const has = (field: string) => field in type.getFields();
    if (reason !== null)
      return `${reason}${instead !== null && has(instead) ? `, or use ${instead} with a filter` : ""}`;
    const meant = [...new Set([camelCase(name), ...others])].filter((field) => field !== name && has(field));
    if (meant.length > 0) return `use ${meant.join(" or ")}`;
  }
  if (isInputObjectType(type) && type.extensions.hasOperators)
    return `the operators are ${Object.keys(type.getFields()).join(", ")}`;
  const column = isInputObjectType(type) || isEnumType(type) ? type.extensions.unindexed?.get(name) : undefined;
  return column === undefined ? null : `\`${column}\` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on`;
}
