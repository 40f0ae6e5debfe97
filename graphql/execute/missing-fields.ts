import {
  type ASTNode,
  type DocumentNode,
  type FieldNode,
  type GraphQLEnumType,
  type GraphQLError,
  type GraphQLNamedType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isEnumType,
  isInputObjectType,
  isListType,
  isObjectType,
  Kind,
  TypeInfo,
  visit,
  visitWithTypeInfo,
} from "postgraphile/graphql";
import { camelCase } from "../../config/setting-types.ts";
import type {} from "../../plugins/lists/UnindexedFiltersPlugin.ts";
import type {} from "../../plugins/shape/absent-fields.ts";

const UNKNOWN = [
  /Field "(?<name>\w+)" is not defined by type "(?<type>\w+)"\./,
  /Value "(?<name>[^"]+)" does not exist in "(?<type>\w+)" enum\./,
  /Enum "(?<type>\w+)" cannot represent non-enum value: "(?<name>[^"]+)"\./,
  /Expected (?:value of )?type "(?<type>\w+)"(?:, found .{1,200}| to be an object)\./,
  /Cannot query field "(?<name>\w+)" on type "(?<type>\w+)"\./,
  /Unknown argument "(?<name>\w+)" on field "(?<type>\w+)\.(?<field>\w+)"\./,
];

/**
 * Adds the reason to an error of graphql-js about a column that cannot be filtered or ordered by, an operator, the value of an enum, or a
 * field that is missing for want of a key, an index or a right, has another name than in the database, or is in another field:
 *
 *   Field "name" is not defined by type "ProjectFilter": `name` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on.
 *   Field "eq" is not defined by type "StringFilter": the operators are equalTo, in, …
 *   Cannot query field "updateImport" on type "Mutation": `imports` has no primary key. Create one, or use updateImports with a filter.
 *   Cannot query field "store" on type "Customer": use storeByHomeStore or warehouse.
 *   Cannot query field "title" on type "TaskConnection": use edges { node { title } }.
 *   Enum "TaskStatus" cannot represent non-enum value: "open": write it without quotes.
 */
export function explainMissing(error: GraphQLError, schema: GraphQLSchema): GraphQLError {
  for (const unknown of UNKNOWN) {
    const found = unknown.exec(error.message);
    const { name = "", type = "", field } = found?.groups ?? {};
    const parent = schema.getType(type);
    const reason = field === undefined ? reasonFor(name, parent) : reasonOfList(name, field, parent);
    if (found && reason) error.message = `${error.message.slice(0, found.index + found[0].length - 1)}: ${reason}.`;
  }
  return error;
}

const OF_SELECTION = /^Cannot query field "|must not have a selection since type "[^"]*" has no subfields\.$/;

/**
 * Adds to errors about the selection of a field what the field itself explains, a key or a list:
 *
 *   Field "homeStore" must not have a selection since type "ID" has no subfields: use storeByHomeStore.
 *   Cannot query field "edges" on type "Task": tasks is a list; tasksConnection has edges.
 */
export function explainSelections(
  errors: readonly GraphQLError[],
  document: DocumentNode,
  schema: GraphQLSchema,
): void {
  const ofSelections = errors.filter(({ message }) => OF_SELECTION.test(message) && !message.includes('": '));
  if (ofSelections.length === 0) return;
  const byNode = new Map<ASTNode | undefined, GraphQLError>(ofSelections.map((error) => [error.nodes?.[0], error]));
  const types = new TypeInfo(schema);
  const explain = (node: ASTNode, reasonOf: () => string | null) => {
    const error = byNode.get(node);
    const reason = error && reasonOf();
    if (reason) error.message = `${/^[^.]+/.exec(error.message)![0]}: ${reason}.`;
  };
  const Field = ({ name: { value: field }, selectionSet }: FieldNode) => {
    const parent = types.getParentType();
    if (!selectionSet) return;
    explain(selectionSet, () => reasonFor(field, parent));
    if (!isListType(getNullableType(types.getType()))) return;
    for (const each of selectionSet.selections)
      if (each.kind === Kind.FIELD) explain(each, () => reasonOfList(each.name.value, field, parent));
  };
  visit(document, visitWithTypeInfo(types, { Field }));
}

type MaybeType = GraphQLNamedType | null | undefined;

function reasonFor(name: string, type: MaybeType): string | null {
  if (isEnumType(type)) return reasonOfValue(name, type);
  if (!isObjectType(type) && !isInputObjectType(type)) return null;
  const { reason, instead, others = [] } = type.extensions.absent?.(name) ?? { reason: null, instead: null };
  const has = (field: string) => field in type.getFields();
  if (reason !== null) return `${reason}${instead !== null && has(instead) ? `, or use ${instead} with a filter` : ""}`;
  const meant = [...new Set([camelCase(name), ...others])].filter((field) => field !== name && has(field));
  if (meant.length > 0) return `use ${meant.join(" or ")}`;
  const [, through] = THROUGH.find(([path]) => typeOf(path.reduce(typeOf, type as MaybeType), name)) ?? [];
  if (through) return `use ${through(name)}`;
  if (!isInputObjectType(type)) return null;
  if (type.extensions.hasOperators) return `the operators are ${Object.keys(type.getFields()).join(", ")}`;
  return withoutIndex(type.extensions.unindexed?.get(name));
}

/** The fields by which another type has the name that is missing, and how to write them. */
const THROUGH: readonly (readonly [path: readonly string[], write: (name: string) => string])[] = [
  [["edges", "node"], (name) => `edges { node { ${name} } }`],
  [["node"], (name) => `node { ${name} }`],
  [["some"], () => "some, every or none"],
];

/** The type of a field, without lists; undefined if there is no such field. */
function typeOf(type: MaybeType, field: string): MaybeType {
  const fields = isObjectType(type) || isInputObjectType(type) ? type.getFields() : {};
  return fields[field] && getNamedType(fields[field].type);
}

const OF_CONNECTIONS: ReadonlySet<string> = new Set(["edges", "pageInfo", "totalCount"]);

/** Why a list lacks a field or an argument that its connection has. */
function reasonOfList(name: string, list: string, parent: MaybeType): string | null {
  const connection = isObjectType(parent) ? parent.getFields()[`${list}Connection`] : undefined;
  if (connection && (typeOf(getNamedType(connection.type), name) || connection.args.some((each) => each.name === name)))
    return `${list} is a list; ${connection.name} has ${name}`;
  return OF_CONNECTIONS.has(name) ? `${list} is a list` : null;
}

function reasonOfValue(text: string, type: GraphQLEnumType): string | null {
  const isMeant = ({ name, value }: { name: string; value: unknown }) =>
    value === text || name.toLowerCase() === text.toLowerCase();
  const { name } = type.getValue(text) ?? type.getValues().find(isMeant) ?? {};
  if (name === undefined) return withoutIndex(type.extensions.unindexed?.get(text));
  return name === text ? "write it without quotes" : `use ${name}`;
}

const withoutIndex = (column: string | undefined): string | null =>
  column === undefined ? null : `\`${column}\` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on`;
