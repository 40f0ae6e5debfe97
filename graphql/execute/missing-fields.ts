import {
  type GraphQLError,
  type GraphQLNamedType,
  type GraphQLSchema,
  isEnumType,
  isInputObjectType,
  isObjectType,
} from "postgraphile/graphql";
import type {} from "../../plugins/lists/UnindexedFiltersPlugin.ts";
import type {} from "../../plugins/shape/absent-fields.ts";

const UNKNOWN = [
  /Field "(?<name>\w+)" is not defined by type "(?<type>\w+)"\./,
  /Value "(?<name>\w+)" does not exist in "(?<type>\w+)" enum\./,
  /Cannot query field "(?<name>\w+)" on type "(?<type>\w+)"\./,
];

/**
 * Adds the reason to an error of graphql-js about a column that cannot be filtered or ordered by, an operator, or a field that is
 * missing for want of a key, an index or a right:
 *
 *   Field "name" is not defined by type "ProjectFilter": `name` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on.
 *   Field "eq" is not defined by type "StringFilter": the operators are equalTo, in, …
 *   Cannot query field "updateImport" on type "Mutation": `imports` has no primary key. Create one, or use updateImports with a filter.
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

function reasonFor(name: string, type: GraphQLNamedType | undefined): string | null {
  const absent = isObjectType(type) || isInputObjectType(type) ? type.extensions.absent?.(name) : undefined;
  if (absent && "getFields" in type!) {
    const { reason, instead } = absent;
    const hasOther = instead !== null && instead in type.getFields();
    return `${reason}${hasOther ? `, or use ${instead} with a filter` : ""}`;
  }
  if (isInputObjectType(type) && type.extensions.hasOperators)
    return `the operators are ${Object.keys(type.getFields()).join(", ")}`;
  const column = isInputObjectType(type) || isEnumType(type) ? type.extensions.unindexed?.get(name) : undefined;
  return column === undefined ? null : `\`${column}\` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on`;
}
