import type { DestinationStream, Logger } from "pino";
import pino from "pino";
import { WITHOUT_EFFECT_IN_DATABASE } from "../../config/postgrest-names.ts";
import type { LiveSettingsOptions } from "../../db/follow/live-settings.ts";
import { readableLine } from "./readable-log.ts";

/**
 * Structured lines of JSON, or readable text on a terminal. Fields with the names of secrets are redacted. The fields of
 * `base` are added to every line.
 */
export function createLog(level: string, base: Readonly<Record<string, unknown>> | null = null): Logger {
  const options = {
    level,
    base,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: describeError },
    redact: {
      paths: ["*", "*.*", "*.headers"].flatMap((parent) => SECRETS.map((name) => `${parent}["${name}"]`)),
      censor: "[redacted]",
    },
  };
  return pino(options, standardOutput());
}

/** After its terminal was closed, the process must still be able to stop: lines that cannot be written are dropped. */
function standardOutput(): DestinationStream {
  const output = pino.destination({ fd: 1, sync: true });
  output.on("error", () => {});
  if (!process.stdout.isTTY) return output;
  return { write: (line) => void output.write(readableLine(line)) };
}

const SECRETS = [
  "authorization",
  "cookie",
  "apikey",
  "x-api-key",
  "password",
  "token",
  "accessToken",
  "refreshToken",
  "connectionString",
  "secret",
];

/** The fields of a database error that are logged; `detail` and `where` are left out because they quote rows. */
const LOGGED = ["code", "severity", "schema", "table", "column", "constraint", "routine"] as const;

/** Selected fields of an error: node-pg adds the connection, with its secrets, to some errors. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const fields = Object.fromEntries(LOGGED.map((name) => [name, (error as unknown as Record<string, unknown>)[name]]));
  const { name, message, stack, cause } = error;
  const errors = error instanceof AggregateError ? error.errors.map(describeError) : undefined;
  return {
    type: name,
    message,
    ...fields,
    stack,
    cause: cause === undefined ? undefined : describeError(cause),
    errors,
  };
}

/** Logs the messages of migrations at the level of their severity. A notice is what they have done; the rest is how. */
export const migrationLog = (log: Logger) => (level: string, message: string) => log[LEVELS[level] ?? "debug"](message);

const LEVELS: Readonly<Record<string, "error" | "warn" | "info">> = { error: "error", warning: "warn", notice: "info" };

/** The log of settings in the database. */
export const settingsLog = (log: Logger): LiveSettingsOptions["log"] => ({
  onIgnored: (settings) => log.warn({ settings }, WITHOUT_EFFECT_IN_DATABASE),
  onFailed: (err) => log.error({ err }, "the settings in the database cannot be used: the previous ones stay in use"),
});
