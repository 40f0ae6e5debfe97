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
          serialize: timeText,
          parseValue: parseTime,
          parseLiteral: (node) => parseTime("value" in node ? node.value : null),
        };
      },
    },
  },
};

/** As Postgres writes it, where JavaScript has no such moment: `infinity`, or before the year 271821 BC. */
function timeText(value: unknown): string {
  const time = new Date(inUtc(value as string));
  return Number.isNaN(time.getTime()) ? String(value) : time.toISOString();
}

const ISO_8601 = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?<zone>Z|[+-]\d\d:?\d\d)?)?$/i;

/** `2026-11-20T08:30` → `2026-11-20T08:30Z`: neither this machine's time zone nor that of the database counts. */
function inUtc(text: string): string {
  const parts = ISO_8601.exec(text);
  const isLocal = parts !== null && parts.groups?.zone === undefined && text.length > "2026-11-20".length;
  return isLocal ? `${text}Z` : text;
}

function parseTime(value: unknown): string {
  if (typeof value === "string" && ISO_8601.test(value) && !Number.isNaN(Date.parse(inUtc(value)))) {
    return value.length === "2026-11-20".length ? `${value}T00:00Z` : inUtc(value);
  }
  throw new GraphQLError("a time must look like 2026-11-20T08:30:00.000Z", {
    extensions: { code: "VALIDATION_ERROR" },
  });
}
