import pino, { type Logger } from "pino";

/**
 * Structured lines of JSON; readable text when a person watches. Nothing that is a secret by its name gets in. `base` is
 * in every line.
 */
export function createLog(level: string, base: Readonly<Record<string, unknown>> | null = null): Logger {
  return pino({
    level,
    base,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { err: describeError },
    redact: {
      paths: ["*", "*.*", "*.headers"].flatMap((parent) => SECRETS.map((name) => `${parent}["${name}"]`)),
      censor: "[redacted]",
    },
    ...(process.stdout.isTTY && {
      transport: { target: "pino-pretty", options: { ignore: "pid,hostname", singleLine: true } },
    }),
  });
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

/** What of a database's error says where it is; `detail` and `where` are left out, as they quote rows. */
const TOLD = ["code", "severity", "schema", "table", "column", "constraint", "routine"] as const;

/** Whole enough to find the cause. Not all that hangs on an error: node-pg hangs the connection with its keys on it. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const told = Object.fromEntries(TOLD.map((name) => [name, (error as unknown as Record<string, unknown>)[name]]));
  const { name, message, stack, cause } = error;
  const errors = error instanceof AggregateError ? error.errors.map(describeError) : undefined;
  return { type: name, message, ...told, stack, cause: cause === undefined ? undefined : describeError(cause), errors };
}
