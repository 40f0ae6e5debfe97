import childProcess, { ChildProcess } from "node:child_process";
import { syncBuiltinESMExports } from "node:module";
import { relative } from "node:path";
import { expect } from "vitest";
import { count } from "./counts.ts";
import { laneOf, ONE_OF_EACH } from "./lanes.ts";

/** Counts the processes that the tests start, and refuses them to a file whose name says that it starts none. */
function guard<Method extends (...args: any[]) => unknown>(start: Method): Method {
  return function (this: unknown, ...args: unknown[]) {
    const file = relative(process.cwd(), expect.getState().testPath ?? "");
    if (laneOf(file) === "quick" && !(file in ONE_OF_EACH))
      throw new Error(`${file} starts a process: rename it to ${file.replace(".test.ts", ".all.test.ts")}`);
    count("processes");
    return start.apply(this, args);
  } as Method;
}

const guarded: { isGuarded?: boolean } = ChildProcess.prototype as object;
// The files of a worker share its modules.
if (!guarded.isGuarded) {
  guarded.isGuarded = true;
  // Not in its type: all methods that do not wait call it.
  const prototype = ChildProcess.prototype as unknown as { spawn: () => unknown };
  prototype.spawn = guard(prototype.spawn);
  for (const name of ["spawnSync", "execFileSync", "execSync"] as const)
    childProcess[name] = guard(childProcess[name]) as never;
  syncBuiltinESMExports();
}
