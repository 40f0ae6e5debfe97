import type { Statement } from "./batch.ts";

/** How the statements of a caller are framed to be one transaction. */
export type FrameOptions = {
  /** All statements see the same snapshot of the database. Does not add a round trip. */
  readonly snapshot?: boolean;
  /** An isolation level other than read committed. */
  readonly isolation?: "repeatable read" | "serializable" | null;
  /** Rolls back at the end, after the checks of a commit. */
  readonly rollback?: boolean;
};

/** The statements before and after those of the caller. Usually none: the Sync makes them one implicit transaction. */
export type Frame = { readonly begin: readonly Statement[]; readonly end: readonly Statement[] };

const BEGIN = "begin isolation level";
const command = (text: string): Statement => ({ text, values: [] });
const COMMIT = [command("commit")];
const ROLLBACK = [command("set constraints all immediate"), command("rollback")];
/** Writes without code leave the state of sequences, which only code can read: `currval`, `lastval`. */
const FORGET = [command("discard sequences")];
const UNFRAMED: Frame = { begin: [], end: [] };
const CODE: Frame = { begin: FORGET, end: [] };

/** For a transaction of several round trips: the limits of the stream apply to the time between them. */
export const openFrame = ({ isolation, rollback }: FrameOptions, runsCode: boolean): Frame => ({
  begin: [
    command(`${BEGIN} ${isolation ?? "read committed"}`),
    command("set local idle_in_transaction_session_timeout to 0"),
    ...(runsCode ? FORGET : []),
  ],
  end: rollback ? ROLLBACK : COMMIT,
});

/** `count` is the number of the caller's statements. */
export function frameOf(count: number, { snapshot, isolation, rollback }: FrameOptions, runsCode: boolean): Frame {
  const needed = isolation ?? (snapshot && count > 1 ? "repeatable read" : null);
  if (needed === null && !rollback) return runsCode ? CODE : UNFRAMED;
  const begin = [command(`${BEGIN} ${needed ?? "read committed"}`), ...(runsCode ? FORGET : [])];
  return { begin, end: rollback ? ROLLBACK : COMMIT };
}
