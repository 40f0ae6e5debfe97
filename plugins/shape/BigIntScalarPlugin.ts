import { GraphQLError, Kind, type ValueNode } from "postgraphile/graphql";
import { digitsOf } from "../../db/exact-numbers.ts";

/**
 * `scalar BigInt`, `scalar BigFloat`: inputs may be numbers too, `sizeBytes: 1004`, of which every digit counts. Outputs are strings.
 * `scalar Oid`: a number without a sign, up to 2^32.
 */
export const BigIntScalarPlugin: GraphileConfig.Plugin = {
  name: "BigIntScalarPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLScalarType(config) {
        if (config.name === "BigInt") return { ...config, parseValue: parseBigInt, parseLiteral: parseBigIntLiteral };
        if (config.name === "BigFloat") return { ...config, parseValue: parseBigFloat };
        if (config.name !== "Oid") return config;
        const parseLiteral = (node: ValueNode) => parseOid("value" in node ? node.value : null);
        return { ...config, serialize: Number, parseValue: parseOid, parseLiteral };
      },
    },
  },
};

/** The text for Postgres, which checks that it is an integer. */
function parseBigInt(value: unknown): string {
  const text = digitsOf(value) ?? value;
  if (typeof text === "string" && (text === value || /^-?\d+$/.test(text))) return text;
  if (Number.isSafeInteger(value)) return String(value);
  throw new GraphQLError("a BigInt must be an integer, or a string with one", {
    extensions: { code: "VALIDATION_ERROR" },
  });
}

/** In a body that is too long for `digitsOf`, greater numbers may be rounded. */
function parseBigFloat(value: unknown): string {
  const text = digitsOf(value) ?? value;
  if (typeof text === "string") return text;
  if (typeof value === "number" && Math.abs(value) <= Number.MAX_SAFE_INTEGER) return String(value);
  throw new GraphQLError("a BigFloat must be a number, or a string with one", {
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
