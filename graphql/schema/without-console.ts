import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";

const METHODS = ["log", "info", "warn", "error"] as const;

/**
 * Receives what the current work would print. Null when the work has ended: timers and connections that began in it keep this object
 * for as long as they live, and must not keep a schema with it.
 */
type Collector = { collect: ((line: string) => void) | null };

const collecting = new AsyncLocalStorage<Collector>();
/** The number of calls of `withoutConsole` that have not ended. */
let running = 0;
let restore: () => void;

/**
 * Runs `work`, and passes what it would print on the console to `collect`: the libraries that build the schema print
 * warnings, which do not belong between the lines of the log.
 */
export async function withoutConsole<Result>(
  work: () => Promise<Result>,
  collect: (line: string) => void,
): Promise<Result> {
  if (running++ === 0) restore = replaceConsole();
  const collector: Collector = { collect };
  try {
    return await collecting.run(collector, work);
  } finally {
    collector.collect = null;
    if (--running === 0) restore();
  }
}

/** Returns a function that restores the console. What other work prints is printed. */
function replaceConsole(): () => void {
  const replaced = METHODS.map((method) => [method, console[method]] as const);
  for (const [method, print] of replaced) {
    console[method] = (...args: unknown[]) => {
      const collect = collecting.getStore()?.collect;
      // Objects are dumps of PostGraphile's models.
      if (collect) collect(format(...args.filter((arg) => typeof arg !== "object")));
      else print.apply(console, args);
    };
  }
  return () => {
    for (const [method, print] of replaced) console[method] = print;
  };
}
