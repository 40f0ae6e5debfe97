import { onUser, refusesFor } from "./session.ts";
import { socket } from "./socket.ts";

type Steps = {
  /** Reads what is shown from the service. Returns the position of the read, and null if there is nothing to follow. */
  read(): Promise<unknown>;
  /** Subscribes after the last position. Calls back with the code of each error. Returns a function that ends this. */
  listen(onEnd: (error: unknown, code: unknown) => void): () => void;
  /** Called with undefined when that has passed. */
  onError(error: unknown): void;
};
const PAUSE = 2000;
const delay = (): number => refusesFor() + PAUSE * (0.5 + Math.random());
export const pause = () => new Promise((resolve) => setTimeout(resolve, delay()));

/** After an error, calls `read` when a pause is over. Returns a function that prevents that, as `useEffect` takes it. */
export function readAgain(error: unknown, read: () => unknown): () => void {
  const timer = error ? setTimeout(read, delay()) : undefined;
  return () => clearTimeout(timer);
}

const lists = new Set<() => unknown>();
/** Lets `readLists` call this, until the returned function is called. */
export function onReadLists(read: () => unknown): () => void {
  lists.add(read);
  return () => void lists.delete(read);
}

/** Reads the lists of the page again: after a mutation, also if it has failed, because the service may have executed it. */
export function readLists(): void {
  for (const read of lists) read();
}
// What was written while the socket was closed.
socket.on("connected", (_socket, _payload, wasRetry) => wasRetry && readLists());

/** Reads, and follows the changes until the returned function is called; begins again with another user. */
export function keepFollowing({ read, listen, onError }: Steps): () => void {
  let stop = (): void => {};
  let round = 0;

  async function begin(isRead: boolean): Promise<void> {
    stop();
    stop = () => {};
    const mine = ++round;
    const later = async (isRead: boolean) => {
      await pause();
      if (mine === round) begin(isRead);
    };
    try {
      const position = isRead || (await read());
      if (mine !== round) return;
      onError(undefined);
      if (position === null) return;
      // For a moment after a start, the service has no position.
      if (position === undefined) return later(false);
    } catch (error) {
      if (mine !== round) return;
      onError(error);
      return later(false);
    }
    stop = listen((error, code) => {
      if (mine !== round) return;
      if (code === "CHANGES_MISSED") return void begin(false);
      onError(error);
      // After another error, the read tells whether there is something to follow.
      later(code === "CHANGES_UNAVAILABLE");
    });
  }

  const forget = onUser(() => begin(false));
  begin(false);
  return () => {
    round++;
    forget();
    stop();
  };
}
