import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { PROJECT } from "./command.ts";
import { kill, processesBelow } from "./processes.ts";

/** Starts a command as another user in a root file system that cannot be written, in which it is the first process. */
const CONTAINER = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t proc proc "$0/proc" &&
  user="$1" && shift && exec unshare --root="$0" --wd=/app --setuid="$user" --setgid="$user" -- "$@"`;
const NAMESPACES = ["--mount", "--pid", "--fork", "--kill-child"];

/** Whether this user may make namespaces. */
export const canRunContainers = spawnSync("unshare", [...NAMESPACES, "true"]).status === 0;

/** What a Dockerfile says. */
export class Dockerfile {
  readonly #text: string;
  constructor(file: string) {
    this.#text = readFileSync(file, "utf8");
  }

  /** The command of a container, and that of its health check. */
  get command(): readonly string[] {
    return [...JSON.parse(this.#instruction("ENTRYPOINT")!), ...JSON.parse(this.#instruction("CMD") ?? "[]")];
  }
  get healthCheck(): readonly string[] {
    return JSON.parse(this.#instruction("HEALTHCHECK")!.replace(/^.* CMD /, ""));
  }

  get environment(): Readonly<Record<string, string>> {
    const variables = this.#instruction("ENV")!.split(" ");
    return Object.fromEntries(variables.map((each) => each.split("=")));
  }

  #instruction(name: string): string | undefined {
    return new RegExp(`^${name} (.*)$`, "m").exec(this.#text)?.[1];
  }
}

/** A running command. `pid` is that of its process, which has started when the service is ready. */
export type Container = {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly exited: Promise<unknown>;
  readonly output: Promise<string>;
  readonly errors: Promise<string>;
};

/** Runs commands in the files of an image, without Docker. */
export class Containers {
  readonly #root: string;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #running: ChildProcess[] = [];
  /** The user of all commands, whom this machine does not know. */
  readonly user = String(randomInt(100_000, 1_000_000));

  constructor(root: string, { environment }: Dockerfile) {
    this.#root = root;
    this.#environment = environment;
  }

  run(command: readonly string[], settings: Readonly<Record<string, string>>): Container {
    const child = spawn("unshare", [...NAMESPACES, "sh", "-c", CONTAINER, this.#root, this.user, ...command], {
      cwd: PROJECT,
      env: { PATH: process.env.PATH, ...this.#environment, ...settings },
    });
    this.#running.push(child);
    return {
      child,
      exited: new Promise((resolve) => child.once("close", resolve)),
      output: text(child.stdout!),
      errors: text(child.stderr!),
      get pid() {
        return processesBelow(child.pid!)[0]!;
      },
    };
  }

  end(): void {
    for (const { pid } of this.#running) kill(pid!, "SIGKILL");
  }
}

/** Polls the service, for `expect.poll`. */
export const readyAt = (port: string) => () =>
  fetch(`http://127.0.0.1:${port}/ready`).then(
    ({ status }) => status,
    () => 0,
  );
