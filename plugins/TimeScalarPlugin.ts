import { GraphQLError } from "postgraphile/graphql";

/** `scalar Time`: ISO 8601 in UTC with milliseconds, whatever the time zone of the session. */
export const TimeScalarPlugin: GraphileConfig.Plugin = {
  name: "TimeScalarPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLScalarType(config, build) {
        if (config.name !== build.inflection.builtin("Datetime")) return config;
        return {
          ...config,
          description: "A moment, ISO 8601 in UTC: 2026-11-20T08:30:00.000Z",
          serialize: (value) => new Date(value as string).toISOString(),
          parseValue: parseTime,
          parseLiteral: (node) => parseTime("value" in node ? node.value : null),
        };
      },
    },
  },
};

const ISO_8601 = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/i;

function parseTime(value: unknown): string {
  if (typeof value === "string" && ISO_8601.test(value) && !Number.isNaN(Date.parse(value))) return value;
  throw new GraphQLError("a time must look like 2026-11-20T08:30:00.000Z", { extensions: { code: "VALIDATION_ERROR" } });
}
