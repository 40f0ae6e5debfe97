import type { Config } from "./config.ts";

/** A part, of the service or of an application. */
export type ChoosablePart = {
  readonly name: string;
  /** Whether it is open with the embedded database only, if PARTS does not name it. */
  readonly isForDevelopment?: boolean;
};

/** Whether a part is open with these settings. */
export function isPartOpen(
  { name, isForDevelopment = false }: ChoosablePart,
  { parts, embedded }: Pick<Config, "parts" | "embedded">,
): boolean {
  const changes = parts.length === 0 || parts.some((each) => /^[+-]/.test(each));
  if (!changes) return parts.includes(name);
  return !parts.includes(`-${name}`) && (embedded || !isForDevelopment || parts.includes(`+${name}`));
}
