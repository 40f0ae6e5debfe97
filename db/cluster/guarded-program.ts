import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Socket } from "node:net";
import type { Writable } from "node:stream";
import type { SystemUser } from "./system-user.ts";

/** How to start a program of PostgreSQL. */
export type Program = {
  readonly file: string;
  readonly args: readonly string[];
  readonly user: SystemUser | undefined;
  /** The signals that end it: each gets 10 seconds. */
  readonly signals: readonly NodeJS.Signals[];
};

/**
 * The user of the program may lack access to the working directory. The environment is minimal, because PG… variables change
 * what PostgreSQL does, and it must not see our secrets.
 */
const SPAWN_OPTIONS = { cwd: "/", env: { LC_ALL: "C" } } as const;

/**
 * Starts a program that ends when this process does, however it does: killed, or out of memory. Rejects when the program cannot
 * be executed.
 */
export async function spawnGuarded({ file, args, user, signals }: Program): Promise<ChildProcess> {
  const guard = await startGuard(signals, user);
  const child = spawn(file, args, { ...SPAWN_OPTIONS, ...user, detached: true, stdio: ["ignore", "ignore", "pipe"] });
  // At once: a program that the guard does not know would outlive this process.
  if (child.pid !== undefined) guard.write(`${child.pid}\n`);
  child.once("exit", () => guard.end("ended\n"));
  child.once("error", () => guard.end());
  await once(child, "spawn");
  return child;
}

/**
 * Starts a shell beside the program. It waits at a pipe whose other end only this process has, and stops the program when the pipe
 * is closed. Resolves to the pipe.
 */
async function startGuard(signals: readonly NodeJS.Signals[], user: SystemUser | undefined): Promise<Writable> {
  // In a process group of its own, so that it survives a signal to the group of this process.
  const options = { ...SPAWN_OPTIONS, ...user, detached: true } as const;
  const shell = spawn("/bin/sh", ["-c", SCRIPT, "guard", ...signals.map((signal) => signal.slice("SIG".length))], {
    ...options,
    stdio: ["pipe", "ignore", "ignore"],
  });
  await once(shell, "spawn");
  shell.unref();
  (shell.stdin as Socket).unref();
  // The shell may have been killed.
  return shell.stdin!.on("error", () => {});
}

/**
 * Reads the pid of the program, then the line that says that it has ended. If the pipe closes without that line, the process
 * that started it has died, and the program is stopped.
 */
const SCRIPT = `
read -r pid || exit
read -r ended && exit
for signal in "$@"; do
  kill -s "$signal" "$pid" || exit
  waits=0
  while kill -0 "$pid" && [ "$((waits += 1))" -le 100 ]; do sleep 0.1; done
done`;
