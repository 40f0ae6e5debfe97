import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

const HEADING = "## Unreleased";
const UNRELEASED = /^## +\[?unreleased\]?.*$/im;

/** The changelog of the application with these migrations. */
export const changelogOf = (migrations: string): string => join(migrations, "../../CHANGELOG.md");

/** A breaking change of an application: the migration that makes it, why, and what clients notice. */
export type BreakingEntry = {
  readonly migration: string;
  readonly reason: string;
  readonly changes: readonly string[];
};

/** Writes a breaking change into the changelog of an application, below "Unreleased". The file is made if it is missing. */
export async function addBreaking(file: string, entry: BreakingEntry): Promise<void> {
  await writeFile(file, withEntry(await readOr(file, "# Changelog\n"), entry));
}

/** Removes what addBreaking has written for a migration. */
export async function removeBreaking(file: string, migration: string): Promise<void> {
  const text = await readOr(file, "");
  const kept = withoutEntry(text, migration);
  if (kept !== text) await writeFile(file, kept);
}

function withEntry(text: string, { migration, reason, changes }: BreakingEntry): string {
  const entry = [`- **Breaking** (${migration}): ${reason}`, ...changes.map((change) => `  - ${change}`)].join("\n");
  const found = UNRELEASED.exec(text);
  const end = found ? found.index + found[0].length : (/^## /m.exec(text)?.index ?? text.length);
  const [above, below] = [text.slice(0, end).trimEnd(), text.slice(end).replace(/^\n+/, "")];
  const gap = below === "" || below.startsWith("- ") ? "\n" : "\n\n";
  return `${above}\n\n${found ? "" : `${HEADING}\n\n`}${entry}${gap}${below}`;
}

function withoutEntry(text: string, migration: string): string {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => line.startsWith(`- **Breaking** (${migration}): `));
  if (start < 0) return text;
  const length = lines.slice(start + 1).findIndex((line) => !line.startsWith("  - "));
  lines.splice(start, length + 1);
  return lines.join("\n");
}

const readOr = (file: string, missing: string): Promise<string> =>
  readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return missing;
    throw error;
  });
