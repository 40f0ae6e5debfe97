/**
 * Runs what may fail for a mistake of a caller, and creates errors whose stacks are never read: to capture a stack takes ten times as
 * long as the rest. `run` is not asynchronous.
 */
export function withoutStacks<Result>(run: () => Result): Result {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return run();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** An error without a stack, unless it `hasStack`. */
export class StacklessError extends Error {
  constructor(message: string, { hasStack = false, ...options }: ErrorOptions & { readonly hasStack?: boolean } = {}) {
    const { stackTraceLimit } = Error;
    if (!hasStack) Error.stackTraceLimit = 0;
    super(message, options);
    Error.stackTraceLimit = stackTraceLimit;
  }
}
