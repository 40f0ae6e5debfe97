import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { MigrationFailure } from "./migration-failure.ts";

/** The text of a file of SQL, which `name` calls as its author does. Throws MigrationFailure for what is not text in UTF-8. */
export function readSql(path: string, name: string): string {
  const fault = (reason: string) => new MigrationFailure(`${name} ${reason}`);
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw fault(`cannot be read: ${(error as Error).message}`);
  }
  // PostgreSQL and graphile-migrate would read other characters, which a migration may store.
  if (!isUtf8(bytes) || bytes.includes(0)) throw fault(`is not text in UTF-8: ${SAVE}`);
  const text = bytes.toString();
  if (text.startsWith("\ufeff")) throw fault(`begins with a byte order mark: ${SAVE}`);
  return text;
}

const SAVE = "save it in UTF-8, without a byte order mark";
