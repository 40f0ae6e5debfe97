import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** Milliseconds without progress after which something counts as not happening. */
const PATIENCE = 120_000;
const LOOK = 25;

/** For `expect.poll` and `vi.waitUntil`: the limit only ends what hangs. */
export const POLL = { timeout: PATIENCE, interval: 20 };

/** Waits, also outside of a test. Rejects if it does not become true, and `progress` does not change. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  what: () => string,
  progress: () => number = () => 0,
  patience = PATIENCE,
): Promise<void> {
  let last = { value: progress(), at: Date.now() };
  while (!(await holds())) {
    if (progress() !== last.value) last = { value: progress(), at: Date.now() };
    if (Date.now() - last.at > patience) throw new Error(`timed out: ${what()}`);
    await sleep(LOOK);
  }
}

/** Whether a program listens on the port. */
export const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true)).on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });
