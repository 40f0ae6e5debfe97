#!/usr/bin/env node
// The one command of the package. What this file imports must load with Node 20: an older Node than the service needs only starts the
// one that it needs. Everything else is loaded by the command that runs.
import "./early-signals.ts";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import module from "node:module";
import { dirname, extname, join, resolve } from "node:path";
import { COMMAND, type Commands } from "../config/command.ts";
import { PARTS } from "../parts/list.ts";
import { V8_OPTIONS } from "./v8-options.ts";

/** The oldest Node that runs the service. */
const MIN_NODE = [24, 2];

/** The environment of every command, whatever the shell has. */
const PRODUCTION = { NODE_ENV: "production", GRAPHILE_ENV: "production" };

/** Where Node keeps what it has compiled, relative to the folder of the application. */
const COMPILED = "node_modules/.cache/compiled";

const START = "start";
const DEV = "dev";

const DEV_HELP = `\
Starts the service for development. When a file of the application changes, the service uses it: its TypeScript is loaded again, and
db/migrations/current.sql runs after a change in db/migrations or db/schema. If a file has an error, the previous version keeps serving.

  ${COMMAND} dev            the application in the current folder, or in the nearest one above it
  ${COMMAND} dev <folder>   the application in this folder
  ${COMMAND} dev --help     show this help

The settings are those of ${COMMAND} start, and those of the file .env. It writes database.types.ts.
`;

const COMMANDS: Commands = {
  ...Object.assign({}, ...PARTS.map(({ commands }) => commands)),
  parts: {
    about: "list what the service has beside its core, and what is open",
    load: async () => (await import("./parts.ts")).partsCommand,
  },
  module: {
    about: "list or remove the parts of the service in the database",
    load: async () => (await import("./module.ts")).moduleCommand,
  },
  upgrade: {
    about: "show what a new version changes in the database, and change it",
    load: async () => (await import("./upgrade.ts")).upgrade,
  },
  reset: {
    about: "delete the embedded database",
    load: async () => (await import("./embedded-database.ts")).reset,
  },
  url: {
    about: "print the connection URL of the database, for psql",
    load: async () => (await import("./embedded-database.ts")).url,
  },
  documents: {
    about: "check that trusted documents fit the GraphQL schema",
    load: async () => (await import("./documents.ts")).documents,
  },
  user: {
    about: "manage user accounts",
    load: async () => (await import("./user.ts")).user,
  },
  key: {
    about: "manage anon and service keys",
    load: async () => (await import("./key.ts")).key,
  },
  image: {
    about: "make the files of a container image from an application",
    load: async () => (await import("./image.ts")).image,
  },
  ready: {
    about: "ask the service on this machine whether it is ready, for health checks",
    load: async () => (await import("./ready.ts")).ready,
  },
};

const HELP = `\
Content Service turns a PostgreSQL database into an API.

${[
  [START, "start the service"],
  [DEV, "start it for development, and follow the files"],
  ...Object.entries(COMMANDS).map(([name, { about }]) => [name, about]),
]
  .map(([name, about]) => `  ${COMMAND} ${name!.padEnd(9)}  ${about}`)
  .join("\n")}

${COMMAND} <command> --help describes a command, and ${COMMAND} start --help lists all settings.
The settings are those of the environment and of SETTINGS_FILE. Without SETTINGS_FILE, every command except start and test also reads
the file .env of the application, for development.
The exit code is 0, or 1 if the command has failed, or 2 if an argument or a setting is invalid.
`;

async function main([name = "", ...args]: string[]): Promise<void> {
  if (isTooOld(process.versions.node)) return startOtherNode();
  Object.assign(process.env, PRODUCTION);
  if (existsSync(dirname(dirname(COMPILED)))) process.env.NODE_COMPILE_CACHE ??= resolve(COMPILED);
  if (name === START) return serve(args);
  if (name === DEV && !args.some((each) => each === "--help" || each === "-h")) return serve(["--dev", ...args]);
  const { print } = await import("./print.ts");
  if (name === DEV) return print(DEV_HELP);
  if (name === "--help" || name === "-h") return print(HELP);
  if (name === "--version" || name === "-v") return print(`${version()}\n`);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) return refuse(`${await unknown(name)}\n\n${HELP}`);
  Object.assign(process.env, command.environment);
  if (process.env.NODE_COMPILE_CACHE) module.enableCompileCache();
  const [{ runCommand }, work] = await Promise.all([import("./command.ts"), command.load()]);
  await runCommand(work, args);
}

/** Replaces this process by the service, with the options of Node. With --eval, that would be this command again, and so on. */
function serve(args: readonly string[]): void {
  const isEvaluated = process.execArgv.some((option) => /^(-e|-p|-pe|--eval|--print)(=|$)/.test(option));
  if (isEvaluated) return void refuse(`the service does not start from node --eval: run ${import.meta.filename}\n`);
  const options = [`--require=${siblingOf("early-signals")}`, ...V8_OPTIONS, ...process.execArgv];
  execute(process.execPath, [...options, siblingOf("../server"), ...args]);
}

async function unknown(name: string): Promise<string> {
  if (name === "") return "no command was given";
  const { similarTo } = await import("../db/catalog/similar.ts");
  const meant = similarTo(name, [START, DEV, ...Object.keys(COMMANDS)]);
  return `unknown command: ${name}${meant === null ? "" : `; did you mean ${meant}?`}`;
}

/** A file of the package, which has sources in TypeScript and is published in JavaScript: `early-signals` → `/…/cli/early-signals.js` */
function siblingOf(name: string): string {
  return join(import.meta.dirname, name + extname(import.meta.filename));
}

const version = (): string => module.createRequire(import.meta.url)("../package.json").version;

function refuse(message: string): void {
  process.stderr.write(message);
  process.exitCode = 2;
}

function isTooOld(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < MIN_NODE[0]! || (major === MIN_NODE[0] && minor < MIN_NODE[1]!);
}

/** Runs this command with the Node of the npm package `node`. */
function startOtherNode(): void {
  const node = [`${process.cwd()}/`, import.meta.filename].map(installedNode).find((file) => file !== null);
  if (node) execute(node, process.argv.slice(1));
  else {
    const cure = existsSync("node_modules/content-service") ? IN_APPLICATION : OUTSIDE;
    refuse(
      `this command needs Node ${MIN_NODE.join(".")} or later, and this is Node ${process.versions.node}: install a newer one on this machine${cure}\n`,
    );
  }
}

/** The application has a Node for development. */
const IN_APPLICATION =
  ". Or give the application one: npm ci installs that of its development, which npm ci --omit=dev leaves out, and after " +
  "npm install --save-prod node@24 both install it";
const OUTSIDE =
  ", or run npx --package=node@24 --package=content-service content-service. With the package as a file, --package=/absolute/path/content-service-<version>.tgz takes the place of the second --package";

/** The program of the package `node`, as a file at `from` finds it. Its install script has to have run. */
function installedNode(from: string): string | null {
  try {
    const file = join(dirname(module.createRequire(from).resolve("node/package.json")), "bin/node");
    return existsSync(file) ? file : null;
  } catch {
    return null;
  }
}

/** Replaces this process. A Node that cannot do that starts another process, and ends with it. */
function execute(program: string, args: readonly string[]): void {
  process.execve?.(program, [program, ...args], process.env);
  const child = spawn(program, args, { stdio: "inherit" });
  const signals = ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"] as const;
  for (const signal of signals) process.removeAllListeners(signal).on(signal, () => child.kill(signal));
  child.once("exit", (code, signal) => {
    for (const each of signals) process.removeAllListeners(each);
    if (signal) process.kill(process.pid, signal);
    else process.exitCode = code!;
  });
}

await main(process.argv.slice(2));
