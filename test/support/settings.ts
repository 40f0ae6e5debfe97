import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Environment } from "../../config/config.ts";
import { readConfig } from "./config.ts";

const folder = mkdtempSync(join(tmpdir(), "settings-"));
let files = 0;

/** The path of a new file, which is deleted with all that the tests write. */
export function writeFile(text: string): string {
  const path = join(folder, `${++files}`);
  writeFileSync(path, text);
  return path;
}

/** The message of the error; "accepted" without one. */
export function messageOf(act: () => unknown): string {
  try {
    act();
    return "accepted";
  } catch (error) {
    return (error as Error).message;
  }
}

/** The message with which the settings are refused. */
export const errorOf = (environment: Environment): string => messageOf(() => readConfig(environment));

/** The message about a file of providers, without its path. */
export const providersError = (read: () => unknown): string =>
  messageOf(read)
    .replace(/^AUTH_PROVIDERS names a file in which /, "")
    .replace(/ \(is ".*"\)$/, "");
