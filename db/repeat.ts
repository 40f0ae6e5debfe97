import { setTimeout as sleep } from "node:timers/promises";

/** Waits for so many milliseconds, or until `signal` is aborted. Does not keep the process alive. */
export const pause = (milliseconds: number, signal?: AbortSignal): Promise<null> =>
  sleep(milliseconds, null, { ref: false, signal }).catch(() => null);

/** What the promise resolves to; null if that takes more milliseconds. */
export function within<T>(milliseconds: number, promise: Promise<T>): Promise<T | null> {
  const done = new AbortController();
  return Promise.race([promise, pause(milliseconds, done.signal)]).finally(() => done.abort());
}

/** What `every` repeats. */
export type Repetition = {
  /** Runs it now, unless it is running. */
  now(): void;
  /** Resolves when it has ended. */
  stop(): Promise<void>;
};

/** Runs an action at this interval, unless it is still running. `onError` gets what it throws. Does not keep the process alive. */
export function every(
  milliseconds: number,
  action: () => unknown,
  onError: (error: Error) => void = () => {},
): Repetition {
  let running: Promise<void> | null = null;
  const run = async () => {
    try {
      await action();
    } catch (error) {
      onError(error as Error);
    }
    running = null;
  };
  const now = () => {
    running ??= run();
  };
  const timer = setInterval(now, milliseconds).unref();
  return {
    now,
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}

export type RetryOptions = {
  /** Milliseconds after the first failure; they double with each further one, up to `max`. */
  readonly first: number;
  readonly max?: number;
  /** Ends the attempts. Without it, they keep the process alive. */
  readonly signal?: AbortSignal;
  /** Gets each error, with the number of the attempt, from 0. If it throws, there is no further attempt. */
  onError?(error: Error, attempt: number): void;
};

/** The result of the first attempt that succeeds. Rejects with what `onError` throws, or when `signal` is aborted. */
export async function retry<T>(
  work: () => Promise<T>,
  { first, max = first, signal, onError }: RetryOptions,
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    signal?.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      signal?.throwIfAborted();
      onError?.(error as Error, attempt);
      await sleep(Math.min(first * 2 ** attempt, max), null, { signal, ref: signal === undefined });
    }
  }
}
