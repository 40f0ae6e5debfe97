import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chown, readFile, writeFile } from "node:fs/promises";
import { spawnGuarded } from "../../db/cluster/guarded-program.ts";
import type { SystemUser } from "../../db/cluster/system-user.ts";
import { kill, processesBelow } from "./processes.ts";
import { until } from "./until.ts";

export type ProgramOptions = {
  readonly command: readonly [file: string, ...args: string[]];
  /** All variables that it has. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Its working directory. */
  readonly folder?: string;
  readonly user?: SystemUser | undefined;
  /** The file of its output; without it, the output is lost. */
  readonly log?: string;
  isReady(): Promise<boolean>;
};

/** A server that is started beside the tests, and disturbed. It ends when this process does, however it does. */
export class Program {
  readonly #options: ProgramOptions;
  #child: ChildProcess | null = null;

  private constructor(options: ProgramOptions) {
    this.#options = options;
  }

  static async start(options: ProgramOptions): Promise<Program> {
    const { log, user } = options;
    if (log !== undefined) {
      await writeFile(log, "");
      if (user) await chown(log, user.uid, user.gid);
    }
    const program = new Program(options);
    await program.start();
    return program;
  }

  get pid(): number {
    return this.#child!.pid!;
  }

  get isRunning(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Resolves when it is ready. Rejects if it ends before. */
  async start(): Promise<void> {
    const { command, environment = {}, folder = "/", user, log = "/dev/null", isReady } = this.#options;
    const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
    this.#child = await spawnGuarded({
      file: "/bin/sh",
      // It replaces the shell, so it has the pid of the child.
      args: [
        "-c",
        'exec "$@" >>"$0" 2>&1',
        log,
        "env",
        "--ignore-environment",
        `--chdir=${folder}`,
        ...variables,
        ...command,
      ],
      user,
      signals: ["SIGTERM", "SIGKILL"],
    });
    this.#child.stderr!.resume();
    const isReadyOrEnded = async () => !this.isRunning || (await isReady());
    const lines = async () => (await readFile(log, "utf8")).trimEnd().split("\n").slice(-20).join("\n");
    await until(isReadyOrEnded, () => `${command[0]} starts`).catch(async ({ message }: Error) => {
      throw new Error(`${message}:\n${await lines()}`);
    });
    if (!this.isRunning) throw new Error(`${command.join(" ")} ended before it was ready:\n${await lines()}`);
  }

  /** Ends it as a crash does, with the processes that it has started. */
  async kill(): Promise<void> {
    if (!this.isRunning) return;
    const exited = once(this.#child!, "exit");
    for (const pid of [this.pid, ...processesBelow(this.pid)]) kill(pid, "SIGKILL");
    await exited;
  }

  /** To it and the processes that it has started: stops them, or lets them go on. */
  signal(name: "SIGSTOP" | "SIGCONT"): void {
    for (const pid of [this.pid, ...processesBelow(this.pid)]) kill(pid, name);
  }
}
