import { readUtf8 } from "../../config/text-file.ts";
import { MigrationFailure } from "./migration-failure.ts";

/**
 * The text of a file of SQL, which `name` calls as its author does. Throws MigrationFailure for one that PostgreSQL or graphile-migrate
 * would misread.
 */
export function readSql(path: string, name: string): string {
  let text: string;
  try {
    text = readUtf8(path);
  } catch (error) {
    throw new MigrationFailure(`${name} cannot be read: ${(error as Error).message}`);
  }
  if (text.startsWith("\ufeff"))
    throw new MigrationFailure(`${name} begins with a byte order mark: save it in UTF-8, without a byte order mark`);
  return text;
}
