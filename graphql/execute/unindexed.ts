import { type GraphQLError, type GraphQLSchema, isEnumType, isInputObjectType } from "postgraphile/graphql";
import type {} from "../../plugins/lists/UnindexedFiltersPlugin.ts";

const UNKNOWN = [
  /Field "(?<name>\w+)" is not defined by type "(?<type>\w+)"\./,
  /Value "(?<name>\w+)" does not exist in "(?<type>\w+)" enum\./,
];

/**
 * Adds the reason to an error of graphql-js about a column that cannot be filtered or ordered by:
 *
 *   Field "name" is not defined by type "ProjectFilter": `name` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on.
 */
export function explainUnindexed(error: GraphQLError, schema: GraphQLSchema): GraphQLError {
  for (const unknown of UNKNOWN) {
    const found = unknown.exec(error.message);
    const { name = "", type: typeName = "" } = found?.groups ?? {};
    const type = schema.getType(typeName);
    const column = isInputObjectType(type) || isEnumType(type) ? type.extensions.unindexed?.get(name) : undefined;
    if (found === null || column === undefined) continue;
    const start = error.message.slice(0, found.index + found[0].length - 1);
    error.message = `${start}: \`${column}\` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on.`;
  }
  return error;
}
