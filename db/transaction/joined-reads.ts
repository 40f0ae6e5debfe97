import type { BatchOptions, NamedStatement, Result } from "../wire/batch.ts";
import type { Work } from "./execution.ts";

/** One statement that only reads, with its settings, and was quick until now. */
export type Read = {
  readonly work: Work;
  /** When it was requested, on the clock of `performance.now()`. */
  readonly asked: number;
  resolve(results: Result[]): void;
  reject(error: unknown): void;
};

/** A transaction of reads. `results` has the positions of their results. */
export type JoinedReads = {
  readonly statements: readonly NamedStatement[];
  readonly results: readonly number[];
  readonly batchOptions: BatchOptions;
};

/**
 * Divides reads into transactions: those of one caller are one. Of each statement, some have their own, so that their duration is
 * known.
 */
export function transactionsOf(reads: readonly Read[]): Read[][] {
  const alone: Read[][] = [];
  const joined: Read[][] = [];
  for (const read of reads) {
    const ofCaller = joined.find(([first]) => haveSameCaller(first!.work, read.work));
    if (read.work.pace!.isDue()) alone.push([read]);
    else if (ofCaller) ofCaller.push(read);
    else joined.push([read]);
  }
  return [...alone, ...joined];
}

/** The settings of a read. */
const settingsOf = ({ statements, first }: Work) => statements[first - 1]!;

/** The first two values are the role and the claims. The text has the settings that do not depend on the request. */
function haveSameCaller(one: Work, other: Work): boolean {
  const [a, b] = [settingsOf(one), settingsOf(other)];
  return a.text === b.text && a.values[0] === b.values[0] && a.values[1] === b.values[1];
}

const areEqual = (some: readonly unknown[], others: readonly unknown[]) =>
  some.every((value, i) => value === others[i]);

/** `settingsOfNext` changes the settings to those of another request of the caller. Each read has its own limit on its result. */
export function joinReads(reads: readonly Read[], settingsOfNext: (work: Work) => NamedStatement): JoinedReads {
  const [{ work }, ...others] = reads as readonly [Read, ...Read[]];
  if (others.length === 0)
    return { statements: work.statements, results: [work.first], batchOptions: work.batchOptions };
  const statements = [...work.statements];
  const results = [work.first];
  const parts: NonNullable<BatchOptions["parts"]>[number][] = [];
  let settings = settingsOf(work);
  for (const { work: next } of others) {
    parts.push({ start: statements.length, recipient: next.recipient });
    if (!areEqual(settings.values, settingsOf(next).values)) statements.push(settingsOfNext(next));
    settings = settingsOf(next);
    results.push(statements.length);
    statements.push(next.statements[next.first]!);
  }
  return { statements, results, batchOptions: { ...work.batchOptions, parts } };
}
