import { GraphQLError } from "postgraphile/graphql";

/** `scalar Time`: ISO 8601 in UTC with milliseconds, in any session time zone. */
export const TimeScalarPlugin: GraphileConfig.Plugin = {
  name: "TimeScalarPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLScalarType(config, build) {
        if (config.name !== build.inflection.builtin("Datetime")) return config;
        return {
          ...config,
          description: "A timestamp, ISO 8601 in UTC: 2026-11-20T08:30:00.000Z",
          serialize: formatTime,
          parseValue: parseTime,
          parseLiteral: (node) => parseTime("value" in node ? node.value : null),
        };
      },
    },
  },
};

/** Formats a timestamp. One that JavaScript cannot represent, such as `infinity`, stays as Postgres wrote it. */
function formatTime(value: unknown): string {
  const time = new Date(assumeUtc(value as string));
  return Number.isNaN(time.getTime()) ? String(value) : time.toISOString();
}

const ISO_8601 = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?<zone>Z|[+-]\d\d:?\d\d)?)?$/i;

/** `2026-11-20T08:30` → `2026-11-20T08:30Z`: a time without a zone is UTC, in any zone of this machine or the database. */
function assumeUtc(text: string): string {
  const parts = ISO_8601.exec(text);
  const isLocal = parts !== null && parts.groups?.zone === undefined && text.length > "2026-11-20".length;
  return isLocal ? `${text}Z` : text;
}

function parseTime(value: unknown): string {
  if (typeof value === "string" && ISO_8601.test(value) && !Number.isNaN(Date.parse(assumeUtc(value)))) {
    return value.length === "2026-11-20".length ? `${value}T00:00Z` : assumeUtc(value);
  }
  throw new GraphQLError("a time must look like 2026-11-20T08:30:00.000Z", {
    extensions: { code: "VALIDATION_ERROR" },
  });
}
