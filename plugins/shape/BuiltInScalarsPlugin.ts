import { GraphQLFloat, GraphQLScalarType, Kind, type ValueNode } from "postgraphile/graphql";

/** The values of a float4 or float8 that are no numbers in JSON, as all interfaces write them. */
const NOT_FINITE: ReadonlySet<unknown> = new Set(["NaN", "Infinity", "-Infinity"]);

/** An input stays text, because `JSON.stringify` makes null of such a number. */
const Float = new GraphQLScalarType({
  ...GraphQLFloat.toConfig(),
  description: 'A number with double precision (IEEE 754), or one of the strings "NaN", "Infinity" and "-Infinity".',
  serialize: (value) => (NOT_FINITE.has(String(value)) ? String(value) : GraphQLFloat.serialize(value)),
  parseValue: (value) => (NOT_FINITE.has(value) ? value : GraphQLFloat.parseValue(value)),
  parseLiteral: (node: ValueNode, variables) =>
    node.kind === Kind.STRING && NOT_FINITE.has(node.value) ? node.value : GraphQLFloat.parseLiteral(node, variables),
});

/** `scalar Float`: also "NaN", "Infinity" and "-Infinity". It replaces that of graphql-js in the schema. */
export const BuiltInScalarsPlugin: GraphileConfig.Plugin = {
  name: "BuiltInScalarsPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      build(build) {
        Object.assign(build.getAllTypes(), { Float });
        return Object.assign(build, { graphql: { ...build.graphql, GraphQLFloat: Float } });
      },
    },
  },
};
