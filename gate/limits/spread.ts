/** Milliseconds between two clients, if there are few. */
const PAUSE = 5;
/** Milliseconds between two groups of clients. */
const TICK = 20;

/**
 * Acts on one client after the other, and on all of them within `spread` milliseconds: clients that were sent away at the same
 * moment would overload the process to which they connect next.
 */
export async function spreadOut<T>(clients: readonly T[], spread: number, act: (client: T) => void): Promise<void> {
  const group = Math.ceil(TICK / Math.min(PAUSE, spread / clients.length));
  for (let i = 0; i < clients.length; i += group) {
    if (i > 0) await new Promise((resolve) => setTimeout(resolve, TICK));
    for (const client of clients.slice(i, i + group)) act(client);
  }
}
