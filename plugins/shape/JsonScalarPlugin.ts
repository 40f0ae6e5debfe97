import { GraphQLError, Kind, type ValueNode } from "postgraphile/graphql";
import { exactNumber } from "../../db/exact-numbers.ts";

/** `scalar JSON`: numbers keep all their digits, `{"big": 9007199254740993}`. */
export const JsonScalarPlugin: GraphileConfig.Plugin = {
  name: "JsonScalarPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLScalarType(config, build) {
        if (config.name !== build.inflection.builtin("JSON")) return config;
        return { ...config, parseLiteral };
      },
    },
  },
};

export function parseLiteral(node: ValueNode, variables?: Readonly<Record<string, unknown>> | null): unknown {
  switch (node.kind) {
    case Kind.INT:
    case Kind.FLOAT:
      return exactNumber(node.value);
    case Kind.OBJECT:
      return Object.fromEntries(node.fields.map(({ name, value }) => [name.value, parseItem(value, variables)]));
    case Kind.LIST:
      return node.values.map((value) => parseItem(value, variables));
    case Kind.NULL:
      return null;
    case Kind.VARIABLE:
      return variables?.[node.name.value];
    default:
      return node.value;
  }
}

/** Grafast reads the items of objects and lists itself, and rounds their numbers. */
function parseItem(node: ValueNode, variables?: Readonly<Record<string, unknown>> | null): unknown {
  const value = parseLiteral(node, variables);
  if (typeof value !== "object" || value === null || (node.kind !== Kind.INT && node.kind !== Kind.FLOAT)) return value;
  throw new GraphQLError("a number with so many digits would be rounded: send the JSON as a variable", {
    extensions: { code: "VALIDATION_ERROR" },
  });
}
