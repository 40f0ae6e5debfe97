import type { ExecutionResult } from "postgraphile/graphql";
import { FeedInterrupted } from "../db/changes/feed.ts";

/**
 * The events whose row the subscriber can see. A row that is gone by now, or that a policy hides, reads as null, and
 * is no news to this subscriber. Throws FeedInterrupted when the events end before the subscriber has ended them.
 */
export function visibleEvents(events: AsyncGenerator<ExecutionResult>): AsyncGenerator<ExecutionResult> {
  let returned = false;
  // Not an async generator: its return() would wait for the next event before it gave up.
  return {
    async next() {
      for (;;) {
        const event = await events.next();
        // Grafast tells of an error only those who wait for an event at that moment; to others it is a plain end.
        if (event.done && !returned) throw new FeedInterrupted("this subscription was interrupted");
        if (event.done || isVisible(event.value)) return event;
      }
    },
    return(value) {
      returned = true;
      return events.return(value);
    },
    throw(error) {
      returned = true;
      return events.throw(error);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      await this.return(undefined);
    },
  };
}

function isVisible({ data, errors = [] }: ExecutionResult): boolean {
  const isNull = data === null || data === undefined || Object.values(data)[0] === null;
  // A null that has a cause other than the row being null is an error the subscriber must hear of.
  return !isNull || errors.some((error) => error.originalError || (error.path?.length ?? 0) !== 1);
}
