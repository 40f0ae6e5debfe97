import type { ExecutionResult } from "postgraphile/graphql";

/**
 * The events whose row the subscriber can see. A row that is gone by now, or that a policy hides, reads as null, and
 * is no news to this subscriber.
 */
export function visibleEvents(events: AsyncGenerator<ExecutionResult>): AsyncGenerator<ExecutionResult> {
  // Not an async generator: its return() would wait for the next event before it gave up.
  return {
    async next() {
      for (;;) {
        const event = await events.next();
        if (event.done || isVisible(event.value)) return event;
      }
    },
    return: (value) => events.return(value),
    throw: (error) => events.throw(error),
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      await events.return(undefined);
    },
  };
}

function isVisible({ data, errors = [] }: ExecutionResult): boolean {
  const isNull = data === null || data === undefined || Object.values(data)[0] === null;
  // A null that has a cause other than the row being null is an error the subscriber must hear of.
  return !isNull || errors.some((error) => error.originalError || (error.path?.length ?? 0) !== 1);
}
