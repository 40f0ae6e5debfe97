import { z } from "zod";

/** Invalid settings. The message has a line for each, which names it and the values it accepts. */
export class ConfigError extends Error {}

/** What `read` returns. A ConfigError that it throws becomes a fault. */
export function valueOr<T>(faults: string[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    faults.push(error.message);
    return undefined;
  }
}

/** Throws ConfigError if there are faults. */
export function refuse(faults: readonly string[]): void {
  if (faults.length > 0) throw new ConfigError(faults.join("\n"));
}

/** A type that a function reads. The message of an Error that it throws continues the name of the setting: "must be a …". */
export const parsedBy = <Given, T>(type: z.ZodType<Given, any>, parse: (given: Given) => T) =>
  type.transform((given, { addIssue }): T => {
    try {
      return parse(given);
    } catch (error) {
      addIssue((error as Error).message);
      return z.NEVER;
    }
  });

/**
 * The first fault of a value: `[0].claims.email must be a string` is the path of the invalid field, and what is wrong with it.
 * `whole` names the value.
 */
export function describeFault({ issues: [issue] }: z.core.$ZodError, whole = "the value"): string {
  const { path, message } = issue!;
  const unknown = issue!.code === "unrecognized_keys" ? issue!.keys.slice(0, 1) : [];
  const steps = [...path, ...unknown].map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`));
  return `${steps.join("").replace(/^\./, "") || whole} ${unknown.length > 0 ? "is not a known field" : message}`;
}
