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
