import { chmod, readFile, writeFile } from "node:fs/promises";
import { HEAD } from "../db/cluster/migrations-folder.ts";

/** What is known about a committed migration: what its commit has found, and what comments in it accept. */
export type MigrationNotes = {
  /** `table public.notes: its rows … are written again, and nothing can use it meanwhile (table-rewrite)` */
  readonly judgements: readonly string[];
  /** Rules, with the reasons. */
  readonly accepted: readonly (readonly [rule: string, reason: string])[];
  /** Why it breaks clients; null if it does not. */
  readonly breaking: string | null;
};

/**
 * The headers of these notes, as `--! Judgement1: …`. graphile-migrate allows others than its own, each once; its hash does not cover
 * them.
 */
const HEADER = /^--! (Judgement\d+|Breaking): (.*)\n/gm;

/** Writes what `migrate commit` has found into the file of the migration. */
export async function writeNotes(path: string, { judgements, breaking }: Omit<MigrationNotes, "accepted">) {
  const headers = [
    ...judgements.map((text, i) => `--! Judgement${i + 1}: ${text.replace(/\s+/g, " ")}\n`),
    ...(breaking === null ? [] : [`--! Breaking: ${breaking}\n`]),
  ];
  // graphile-migrate lets only the owner read it, and no one write.
  await chmod(path, 0o644);
  await changeHead(path, (head) => head + headers.join(""));
}

/** Removes them from a migration that is `current.sql` again. */
export const removeNotes = (path: string): Promise<void> => changeHead(path, (head) => head);

async function changeHead(path: string, change: (head: string) => string): Promise<void> {
  const text = await readFile(path, "utf8");
  const [head] = HEAD.exec(text)!;
  await writeFile(path, change(head.replace(HEADER, "")) + text.slice(head.length));
}

/** The notes in the text of a committed migration. */
export function notesIn(text: string): MigrationNotes {
  const [head] = HEAD.exec(text)!;
  const headers = [...head.matchAll(HEADER)].map(([, name, value]) => ({ name: name!, value: value! }));
  return {
    judgements: headers.filter(({ name }) => name !== "Breaking").map(({ value }) => value),
    accepted: acceptancesIn(text),
    breaking: headers.find(({ name }) => name === "Breaking")?.value ?? null,
  };
}

/** `-- @accept loses-data the column was never filled` → `loses-data`, `the column was never filled` */
export const acceptancesIn = (text: string): readonly (readonly [rule: string, reason: string])[] =>
  [...text.matchAll(/^[ \t]*--[ \t]*@accept[ \t]+([\w-]+)[ \t]+(\S.*)$/gm)].map(([, rule, reason]) => [rule!, reason!]);
