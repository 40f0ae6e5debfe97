import {
  type GraphQLField,
  type GraphQLInputField,
  type GraphQLInputType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isObjectType,
  isScalarType,
} from "postgraphile/graphql";
import type { Example } from "../../service/part.ts";

const MAX_FIELDS = 5;

type Field = GraphQLField<unknown, unknown>;

/** Operations of each kind that run on this schema. All are about the type with the most relationships. */
export function exampleOperations(schema: GraphQLSchema): readonly Example[] {
  const page = largestPageOf(schema);
  if (!page) return [{ name: "The type of the root", query: "{ __typename }\n", variables: "" }];
  const { field, row } = page;
  const named = (type: GraphQLObjectType | null | undefined, pattern: string) =>
    fieldsOf(type).find(({ name }) => new RegExp(`^${pattern}$`, "i").test(name));
  return [
    { name: "A page of rows", query: pageOf(field, row), variables: "" },
    ...exampleOf("One row", "query", named(schema.getQueryType(), row.name)),
    ...exampleOf("Create a row", "mutation", named(schema.getMutationType(), `create${row.name}`)),
    ...exampleOf(
      "Rows as they are created",
      "subscription",
      named(schema.getSubscriptionType(), `on${row.name}Created`),
    ),
    ...exampleOf("Changes of rows", "subscription", named(schema.getSubscriptionType(), `on${row.name}Changed`)),
  ];
}

/** The connection whose rows have the most relationships. */
function largestPageOf(schema: GraphQLSchema) {
  const [largest] = fieldsOf(schema.getQueryType())
    .flatMap((field) => {
      const row = rowOf(field);
      return row && leavesOf(row).length > 0
        ? [{ field, row, relationships: fieldsOf(row).length - leavesOf(row).length }]
        : [];
    })
    .toSorted((a, b) => b.relationships - a.relationships);
  return largest;
}

function pageOf(field: Field, row: GraphQLObjectType): string {
  const related = singlesOf(row).find((single) => leavesOf(getNamedType(single.type) as GraphQLObjectType).length > 0);
  const lines = leavesOf(row).slice(0, MAX_FIELDS);
  if (related) lines.push(`${related.name} { ${labelsOf(getNamedType(related.type) as GraphQLObjectType)} }`);
  return `query Example($first: Int = 10) {
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

/** `mutation Example($input: CreatePostInput!) { createPost(input: $input) { … } }` with values for what is required. */
function exampleOf(name: string, kind: "query" | "mutation" | "subscription", field: Field | undefined): Example[] {
  if (!field) return [];
  const result = getNamedType(field.type);
  const selected = isObjectType(result) ? ` {\n${selectionOf(result)}\n  }` : "";
  const required = field.args.filter(isRequired);
  const declared = required.map((arg) => `$${arg.name}: ${arg.type}`).join(", ");
  const passed = required.map((arg) => `${arg.name}: $${arg.name}`).join(", ");
  const values = Object.fromEntries(required.map((arg) => [arg.name, sampleOf(arg.name, arg.type)]));
  return [
    {
      name,
      query: `${kind} Example${declared && `(${declared})`} {\n  ${field.name}${passed && `(${passed})`}${selected}\n}\n`,
      variables: required.length === 0 ? "" : JSON.stringify(values, null, 2),
    },
  ];
}

/** The first leaves of a type, and of the types that it has: `success`, `post { id title }`, `errors { field message }`. */
function selectionOf(type: GraphQLObjectType): string {
  const leaves = leavesOf(type).slice(0, MAX_FIELDS);
  const objects = fieldsOf(type).flatMap((field) => {
    const inner = getNamedType(field.type);
    const names = isObjectType(inner) && field.args.length === 0 ? leavesOf(inner).slice(0, 3) : [];
    return names.length === 0 ? [] : [`${field.name} { ${names.join(" ")} }`];
  });
  return [...leaves, ...objects].map((line) => `    ${line}`).join("\n");
}

/** A value that a type accepts; of an input object, with what it requires. */
function sampleOf(name: string, type: GraphQLInputType): unknown {
  const named = getNamedType(type);
  if (String(type).startsWith("[")) return [];
  if (isInputObjectType(named)) {
    const required = Object.values(named.getFields()).filter(isRequired);
    return Object.fromEntries(required.map((field) => [field.name, sampleOf(field.name, field.type)]));
  }
  if (isEnumType(named)) return named.getValues()[0]?.name;
  return VALUES[named.name] ?? `An example of ${name}`;
}

const VALUES: Readonly<Record<string, unknown>> = {
  ID: "1",
  Int: 1,
  Float: 1,
  Boolean: true,
  BigInt: "1",
  BigFloat: "1",
};

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

const isRequired = ({ type, defaultValue }: Field["args"][number] | GraphQLInputField) =>
  String(type).endsWith("!") && defaultValue === undefined;

/** The names of the scalar fields, columns before functions with arguments: `["id", "title", "summary"]` */
const leavesOf = (type: GraphQLObjectType): string[] =>
  fieldsOf(type)
    .filter(({ type: result, args }) => isLeaf(getNamedType(result)) && !args.some(isRequired))
    .toSorted((a, b) => a.args.length - b.args.length)
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
