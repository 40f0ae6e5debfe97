import { GraphQLError, Kind, type ValueNode } from "postgraphile/graphql";

/** `scalar BigInt`: inputs may be numbers too, `sizeBytes: 1004`, if JSON represents them exactly. Outputs are strings. */
export const BigIntScalarPlugin: GraphileConfig.Plugin = {
  name: "BigIntScalarPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLScalarType: (config) =>
        config.name === "BigInt" ? { ...config, parseValue: parseBigInt, parseLiteral: parseBigIntLiteral } : config,
    },
  },
};

/** The text for Postgres, which checks that it is an integer. */
function parseBigInt(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
  throw new GraphQLError("a BigInt must be a string with an integer, or an integer within 2^53", {
    extensions: { code: "VALIDATION_ERROR" },
  });
}

/** In a document, every digit of a number is there. */
const parseBigIntLiteral = (node: ValueNode): string =>
  node.kind === Kind.INT || node.kind === Kind.STRING ? node.value : parseBigInt(null);
