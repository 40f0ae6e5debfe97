import {
  GraphQLError,
  GraphQLFloat,
  GraphQLID,
  GraphQLInt,
  GraphQLScalarType,
  type GraphQLScalarTypeConfig,
  Kind,
  type StringValueNode,
  type ValueNode,
} from "postgraphile/graphql";
import { digitsOf } from "../../db/exact-numbers.ts";

/** A variable may be a number with more digits than JavaScript has. */
function numberOf(value: unknown): unknown {
  const digits = digitsOf(value);
  return digits === undefined ? value : Number(digits);
}

const Int = new GraphQLScalarType({
  ...GraphQLInt.toConfig(),
  parseValue: (value) => GraphQLInt.parseValue(numberOf(value)),
});

/** The values of a float4 or float8 that are no numbers in JSON, as all interfaces write them. */
const NOT_FINITE: ReadonlySet<unknown> = new Set(["NaN", "Infinity", "-Infinity"]);

/** An input stays text, because `JSON.stringify` makes null of such a number. */
const Float = new GraphQLScalarType({
  ...GraphQLFloat.toConfig(),
  description: 'A number with double precision (IEEE 754), or one of the strings "NaN", "Infinity" and "-Infinity".',
  serialize: (value) => (NOT_FINITE.has(String(value)) ? String(value) : GraphQLFloat.serialize(value)),
  parseValue: (value) => (NOT_FINITE.has(value) ? value : GraphQLFloat.parseValue(numberOf(value))),
  parseLiteral: (node: ValueNode, variables) =>
    node.kind === Kind.STRING && NOT_FINITE.has(node.value) ? node.value : GraphQLFloat.parseLiteral(node, variables),
});

const ID = new GraphQLScalarType({
  ...GraphQLID.toConfig(),
  parseValue(value) {
    const digits = digitsOf(value);
    if (digits !== undefined && /^-?\d+$/.test(digits)) return digits;
    const number = numberOf(value);
    if (!Number.isInteger(number) || Number.isSafeInteger(number)) return GraphQLID.parseValue(number);
    throw new GraphQLError("an ID beyond 2^53 must be a string", { extensions: { code: "VALIDATION_ERROR" } });
  },
});

/** Node.js skips what is no Base64, such as hexadecimal digits after `\\x`, and decodes the rest. */
function strict({ parseValue, parseLiteral, ...config }: GraphQLScalarTypeConfig<any, any>) {
  const checked = (text: unknown) => {
    if (typeof text !== "string" || /^[\w+/\s-]*={0,2}\s*$/.test(text)) return text;
    throw new GraphQLError("a Base64EncodedBinary must be Base64");
  };
  return {
    ...config,
    parseValue: (value: unknown) => parseValue!(checked(value)),
    parseLiteral(node: ValueNode, variables?: any) {
      checked((node as StringValueNode).value);
      return parseLiteral!(node, variables);
    },
  };
}

/** Scalars that read the digits of a number themselves. */
const EXACT: ReadonlySet<string> = new Set(["BigInt", "BigFloat", "Oid", "JSON"]);

/**
 * `scalar Float`: also "NaN", "Infinity" and "-Infinity". `scalar ID`: a number is never rounded. They replace those of graphql-js in the
 * schema, because Grafast writes numbers of its Float as they are. Scalars of applications get numbers of JavaScript.
 */
export const BuiltInScalarsPlugin: GraphileConfig.Plugin = {
  name: "BuiltInScalarsPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      build(build) {
        Object.assign(build.getAllTypes(), { Int, Float, ID });
        const own = { GraphQLInt: Int, GraphQLFloat: Float, GraphQLID: ID };
        return Object.assign(build, { graphql: { ...build.graphql, ...own } });
      },
      GraphQLScalarType(config) {
        const { name, parseValue } = config;
        if (name === "Base64EncodedBinary") return strict(config);
        if (EXACT.has(name) || !parseValue) return config;
        return { ...config, parseValue: (value) => parseValue(numberOf(value)) };
      },
    },
  },
};
