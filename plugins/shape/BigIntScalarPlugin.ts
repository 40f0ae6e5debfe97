import { GraphQLError, Kind, type ValueNode } from "postgraphile/graphql";

/**
 * `scalar BigInt`: inputs may be numbers too, `sizeBytes: 1004`, if JSON represents them exactly. Outputs are strings. `scalar Oid`: a
 * number without a sign, up to 2^32.
 */
export const BigIntScalarPlugin: GraphileConfig.Plugin = {
  name: "BigIntScalarPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLScalarType(config) {
        if (config.name === "BigInt") return { ...config, parseValue: parseBigInt, parseLiteral: parseBigIntLiteral };
        if (config.name !== "Oid") return config;
        const parseLiteral = (node: ValueNode) => parseOid("value" in node ? node.value : null);
        return { ...config, serialize: Number, parseValue: parseOid, parseLiteral };
      },
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

function parseOid(value: unknown): string {
  if (/^\d{1,10}$/.test(String(value)) && Number(value) < 2 ** 32) return String(value);
  throw new GraphQLError("an Oid must be an integer from 0 to 4294967295", {
    extensions: { code: "VALIDATION_ERROR" },
  });
}

/** In a document, every digit of a number is there. */
const parseBigIntLiteral = (node: ValueNode): string =>
  node.kind === Kind.INT || node.kind === Kind.STRING ? node.value : parseBigInt(null);
