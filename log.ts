import pino, { type Logger } from "pino";

/** Structured lines of JSON; readable text when a person watches. Nothing that is a secret by its name gets in. */
export function createLog(level: string): Logger {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: {
      paths: ["*", "*.*", "*.headers"].flatMap((parent) => SECRETS.map((name) => `${parent}["${name}"]`)),
      censor: "[redacted]",
    },
    ...(process.stdout.isTTY && { transport: { target: "pino-pretty", options: { ignore: "pid,hostname" } } }),
  });
}

const SECRETS = ["authorization", "cookie", "apikey", "x-api-key", "password", "token", "accessToken", "refreshToken", "connectionString", "secret"];
