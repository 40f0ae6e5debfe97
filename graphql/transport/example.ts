import {
  type GraphQLField,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isEnumType,
  isObjectType,
  isScalarType,
} from "postgraphile/graphql";

const HELP = `\
# Ctrl+Enter runs the operation, Ctrl+Space completes names.
# The docs on the left describe every type, argument and field.
`;
const MAX_FIELDS = 5;

type Field = GraphQLField<unknown, unknown>;

/** An operation that runs on this schema, as a start in the explorer: a page of the type with the most relationships. */
export function exampleOperation(schema: GraphQLSchema): string {
  const [largest] = fieldsOf(schema.getQueryType())
    .flatMap((field) => {
      const row = rowOf(field);
      return row && leavesOf(row).length > 0
        ? [{ field, row, relationships: fieldsOf(row).length - leavesOf(row).length }]
        : [];
    })
    .toSorted((a, b) => b.relationships - a.relationships);
  if (!largest) return `${HELP}\n{ __typename }\n`;
  const { field, row } = largest;
  const related = singlesOf(row).find((single) => leavesOf(getNamedType(single.type) as GraphQLObjectType).length > 0);
  const lines = leavesOf(row).slice(0, MAX_FIELDS);
  if (related) lines.push(`${related.name} { ${labelsOf(getNamedType(related.type) as GraphQLObjectType)} }`);
  return `${HELP}
query Example($first: Int = 10) {
  ${field.name}(first: $first) {
    totalCount
    edges {
      node {
${lines.map((line) => `        ${line}`).join("\n")}
      }
    }
    pageInfo { hasNextPage endCursor }
  }
}
`;
}

const fieldsOf = (type: GraphQLNamedType | null | undefined): readonly Field[] =>
  isObjectType(type) ? Object.values(type.getFields()) : [];

/** The type of the rows of a connection; null for other fields. */
function rowOf({ type, args }: Field): GraphQLObjectType | null {
  if (args.some(isRequired) || !args.some(({ name }) => name === "first")) return null;
  const node = typeOf(typeOf(getNamedType(type), "edges"), "node");
  return isObjectType(node) ? node : null;
}

const typeOf = (type: GraphQLNamedType | null, name: string): GraphQLNamedType | null => {
  const field = fieldsOf(type).find((each) => each.name === name);
  return field ? getNamedType(field.type) : null;
};

const isRequired = ({ type, defaultValue }: Field["args"][number]) =>
  String(type).endsWith("!") && defaultValue === undefined;

/** The names of the scalar fields, as `["id", "title"]`. */
const leavesOf = (type: GraphQLObjectType): string[] =>
  fieldsOf(type)
    .filter(({ type: result, args }) => isLeaf(getNamedType(result)) && !args.some(isRequired))
    .map(({ name }) => name);

const isLeaf = (type: GraphQLNamedType) => isScalarType(type) || isEnumType(type);

/** The fields that are one row of another table: `Post.author`. */
const singlesOf = (type: GraphQLObjectType): Field[] =>
  fieldsOf(type).filter(
    ({ type: result, args }) =>
      isObjectType(getNamedType(result)) && !String(result).includes("[") && args.length === 0,
  );

/** A name if there is one, otherwise the first field. */
const labelsOf = (type: GraphQLObjectType): string => {
  const leaves = leavesOf(type);
  return leaves.find((name) => /^(name|title|label)$/.test(name)) ?? leaves[0]!;
};
