import type { Start } from "../changes/position.ts";
import type { VisibleChange, Watch } from "../rights/watch.ts";

/**
 * Receives what its watches see of changes, each change once and in commit order: a channel, a stream of events, or a GraphQL
 * subscription.
 */
export interface Subscriber<W extends Watch, Shared> {
  /**
   * What its watches see of a change. `shared` is made once for all who see it. After the change, the subscriber resumes at `position`.
   * If this throws, the subscriber ends.
   */
  receive(seen: readonly VisibleChange<W>[], shared: Shared, position: Start): void;
  /** A change could not be checked for the watch, because a policy or the filter has raised an error. */
  fail(watch: W, error: Error): void;
  /**
   * A watch has ended, and with it the subscriber: `feedGap` if it has missed changes, otherwise an error whose message is for the
   * client. It has received every change up to `position`.
   */
  end(error: Error, position: Start): void;
  /**
   * Asked before each change. Null if it can receive it; otherwise resolves when it can. The others do not wait for it: it then
   * continues with this change.
   */
  untilReady(): Promise<void> | null;
}

/** A watch of a subscriber. */
export type Subscribed<W extends Watch, Shared> = Watch & { readonly subscriber: Subscriber<W, Shared> };
