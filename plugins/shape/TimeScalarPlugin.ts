import { GraphQLError } from "postgraphile/graphql";

/** `scalar Time`: ISO 8601 with what Postgres has. A timestamptz is in UTC in any session time zone, a timestamp has no zone. */
export const TimeScalarPlugin: GraphileConfig.Plugin = {
  name: "TimeScalarPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLScalarType(config, build) {
        if (config.name !== build.inflection.builtin("Datetime")) return config;
        return {
          ...config,
          description: "A timestamp, ISO 8601 in UTC: 2026-11-20T08:30:00.000Z; with microseconds, if it has any",
          serialize: formatTime,
          parseValue: parseTime,
          parseLiteral: (node) => parseTime("value" in node ? node.value : null),
        };
      },
    },
  },
};

/** As Postgres writes it in JSON; a year has more digits after 9999. */
const WRITTEN =
  /^(?<minute>\d{4,}-\d\d-\d\d[T ]\d\d:\d\d)(?<second>:\d\d(?:\.\d+)?)?(?<zone>Z|[+-]\d\d(?::?\d\d)?)?(?<era> BC)?$/i;

/** Formats a timestamp with three digits of the second, or six. One that is not finite stays as Postgres wrote it. */
function formatTime(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  const text = String(value);
  const parts = WRITTEN.exec(text)?.groups;
  if (!parts) return text;
  const { minute, second = ":00", zone, era = "" } = parts;
  const [whole, digits = ""] = second.split(".");
  const fraction = digits.padEnd(digits.length > 3 ? 6 : 3, "0");
  return `${zone ? inUtc(minute!, zone) : minute!.replace(" ", "T")}${whole}.${fraction}${zone ? "Z" : ""}${era}`;
}

const UTC = /^(Z|[+-]00(:?00)?)$/i;

function inUtc(minute: string, zone: string): string {
  const [, sign, hours, minutes = "0"] = /^([+-])(\d\d):?(\d\d)?$/.exec(zone) ?? [];
  const time = UTC.test(zone) ? Number.NaN : Date.parse(`${minute.replace(" ", "T")}Z`);
  if (Number.isNaN(time)) return minute.replace(" ", "T");
  const offset = Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes));
  return new Date(time - offset * 60_000).toISOString().slice(0, -":00.000Z".length);
}

const ISO_8601 =
  /^(?<year>\d{4,6})-\d\d-\d\d(?<time>[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?<zone>Z|[+-]\d\d:?\d\d)?)?(?<era> BC)?$/i;

/** `2026-11-20T08:30` → `2026-11-20T08:30Z`: a time without a zone is UTC, in any zone of this machine or the database. */
function parseTime(value: unknown): string {
  if (value === "infinity" || value === "-infinity") return value;
  const parts = typeof value === "string" ? ISO_8601.exec(value)?.groups : undefined;
  if (parts) {
    const { year, time, zone, era = "" } = parts;
    const local = (value as string).slice(0, era ? -era.length : undefined);
    const text = zone ? local : `${local}${time ? "" : "T00:00"}Z`;
    // JavaScript does not know other years. Postgres does.
    if (era || year!.length > 4 || !Number.isNaN(Date.parse(text))) return `${text}${era}`;
  }
  throw new GraphQLError("a time must look like 2026-11-20T08:30:00.000Z", {
    extensions: { code: "VALIDATION_ERROR" },
  });
}
