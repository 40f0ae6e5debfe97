import type { Caller } from "../../caller.ts";
import type { TableName } from "../../catalog/catalog.ts";
import type { Change } from "../change.ts";
import type { CheckError } from "./checker.ts";
import type { Filter } from "./filter.ts";

/** What a subscriber wants to see: the changes of a table that the caller may see, whose row fulfils the filter. */
export type Watch = {
  readonly table: TableName;
  readonly caller: Caller;
  readonly filter: Filter | null;
};

/** A change as one subscriber sees it. */
export type VisibleChange<W extends Watch> = {
  readonly watch: W;
  /** An UPDATE that takes the row out of the subscriber's view is a DELETE. All watches of the table see a TRUNCATE. */
  readonly event: Change["operation"];
  /** Why the row has left the view: the caller may no longer see it, or it no longer fulfils the filter. Null if it has not. */
  readonly left: "rights" | "filter" | null;
  /** Whether the subscriber may see the old row, and not only its key. */
  readonly seesOld: boolean;
};

/** A change that could not be checked for a subscriber, because the policy raised an error. */
export type Failure<W extends Watch> = { readonly watch: W; readonly error: CheckError };

/** Who sees a change. */
export type ChangeVisibility<W extends Watch> = {
  readonly change: Change;
  readonly visible: readonly VisibleChange<W>[];
  readonly failures: readonly Failure<W>[];
};
