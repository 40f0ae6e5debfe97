import type { Caller } from "../caller.ts";
import type { Table, TableName } from "../catalog/catalog.ts";
import type { Change } from "../changes/change.ts";
import type { LostChanges } from "../changes/lost-changes.ts";
import type { Inquiry } from "./checker.ts";
import type { PreparedFilter } from "./filter.ts";
import type { Policy } from "./policy.ts";

/** What a role may see of the changes of a table. */
export type View = {
  readonly table: Table;
  /** The columns that it may read. */
  readonly columns: ReadonlySet<string>;
  /** Null if it sees every row. */
  readonly policy: Policy | null;
};

/** What a subscriber wants to see: the changes of a table that the caller may see, whose row fulfils the filter. */
export type Watch = {
  readonly table: TableName;
  readonly caller: Caller;
  readonly filter: PreparedFilter | null;
  /** The columns that it names; null or absent for all. */
  readonly selected?: ReadonlySet<string> | null;
  /** Who gets the changes of several watches, each change once and in order. */
  readonly subscriber: object;
  /** Why the subscriber must subscribe again when this is lost; null if it need not. Absent for one that accepts every loss. */
  readonly lapse?: (lost: LostChanges) => string | null;
};

/** A change as one subscriber sees it. */
export type VisibleChange<W extends Watch> = {
  readonly watch: W;
  /** What its role may read, as the change was decided. The names of columns are those of its table. */
  readonly view: View;
  /** An UPDATE that takes the row out of the subscriber's view is a DELETE. All watches of the table see a TRUNCATE. */
  readonly event: Change["operation"];
  /** Why the row has left the view: the caller may no longer see it, or it no longer fulfils the filter. Null if it has not. */
  readonly left: "rights" | "filter" | null;
  /** Whether the subscriber may see the old row, and not only its key. */
  readonly seesOld: boolean;
};

/**
 * A change that could not be checked for a subscriber, because the policy raised an error. `feedGap` if the log lacks a column that is
 * needed for that, and the subscriber does not know of this loss.
 */
export type Failure<W extends Watch> = { readonly watch: W; readonly error: Error };

/** Who sees a change. */
export type ChangeVisibility<W extends Watch> = {
  readonly change: Change;
  readonly visible: readonly VisibleChange<W>[];
  readonly failures: readonly Failure<W>[];
};

/** The result for some of the watches. */
export const onlyOf = <W extends Watch>(
  isWanted: (watch: W) => boolean,
  { change, visible, failures }: ChangeVisibility<W>,
): ChangeVisibility<W> => ({
  change,
  visible: visible.filter(({ watch }) => isWanted(watch)),
  failures: failures.filter(({ watch }) => isWanted(watch)),
});

/** Who sees each change of a batch, in order, as far as this process decides. */
export type Decision<W extends Watch> = {
  readonly decided: readonly ChangeVisibility<W>[];
  /** Lets Postgres decide for the other watches; null if there are none. */
  readonly ask: ((inquiry: Inquiry) => Promise<Answer<W>>) | null;
};

/** What Postgres has decided, and the watches for which it has not, because the answer was an error or came too late. */
export type Answer<W extends Watch> = {
  readonly results: readonly ChangeVisibility<W>[];
  readonly undecided: ReadonlySet<W>;
};
