import { setTimeout } from "node:timers/promises";

/** Calls `ask` again and again, until `end()`, which returns the different answers and failures. `next` counts calls after its first one. */
export function repeatedly(ask: () => Promise<unknown>) {
  const answers = new Map<string, unknown>();
  let [calls, isEnding] = [0, false];
  let counted: number | undefined;
  const work = async () => {
    while (!isEnding) {
      const answer = await ask().catch(String);
      answers.set(JSON.stringify(answer), answer);
      calls++;
      await setTimeout(10);
    }
  };
  const running = work();
  return {
    next: () => {
      counted ??= calls;
      return calls - counted;
    },
    end: async () => {
      isEnding = true;
      await running;
      return [...answers.values()];
    },
  };
}
