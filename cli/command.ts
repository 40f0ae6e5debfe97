import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { type ParseArgsOptionsConfig as OptionsConfig, parseArgs } from "node:util";
import pg from "pg";
import { type Configured, configure, misspeltSettings } from "../app/configured.ts";
import { findApplication } from "../app/load.ts";
import { COMMAND } from "../config/command.ts";
import { addDotEnv, type Config, ConfigError, type Environment, folderIn } from "../config/config.ts";
import { settingsOfParts } from "../config/declared.ts";
import { reasonOf, withClient } from "../db/cluster/client.ts";
import { MigrationFailure } from "../db/cluster/migration-failure.ts";
import { inTransaction as runInTransaction } from "../db/cluster/modules.ts";
import { PARTS } from "./list.ts";

/**
 * A command that failed, with a one-line message. A ConfigError ends it too, with exit code 2. Exit code 2 means that the arguments or a setting are invalid. `stdout`
 * is output that is printed although the command failed.
 */
export class CommandError extends Error {
  readonly exitCode: 1 | 2;
  readonly stdout: string;
  constructor(exitCode: 1 | 2, message: string, stdout = "") {
    super(message);
    this.exitCode = exitCode;
    this.stdout = stdout;
  }
}

/** An option of a command that has no value. */
export const FLAG = { type: "boolean", default: false } as const;
/** An option that has one. */
export const TEXT = { type: "string" } as const;

type Input<Options extends OptionsConfig> = { args: string[]; options: Options; allowPositionals: boolean };

/** What a command is run with. */
type Invocation<Options extends OptionsConfig> = {
  /** The values of its options. */
  readonly values: ReturnType<typeof parseArgs<Input<Options>>>["values"];
  /** The arguments without the options. */
  readonly args: readonly string[];
  /** The error for arguments that are not valid. The message names the help. */
  readonly refuse: (message: string) => CommandError;
};

type Definition<Options extends OptionsConfig, More extends unknown[]> = {
  readonly name: string;
  readonly help: string;
  /** As parseArgs of Node takes them, without `help`. */
  readonly options?: Options;
  /** How many arguments there may be beside options; 0 by default. */
  readonly maxArguments?: number;
  /** Whether options count as arguments, because the command hands them on to another one or to a program. */
  readonly handsOn?: boolean;
  run(invocation: Invocation<Options>, ...more: More): Promise<string>;
};

/**
 * Returns the function of a command, which returns its output and throws CommandError. With `--help` or `-h` it returns the help,
 * whatever else there is. An unknown option or an argument too many ends it with exit code 2.
 */
export function defineCommand<const Options extends OptionsConfig, More extends unknown[]>({
  name,
  help,
  options = {} as Options,
  handsOn = false,
  maxArguments = handsOn ? Number.POSITIVE_INFINITY : 0,
  run,
}: Definition<Options, More>): (args: string[], ...more: More) => Promise<string> {
  const refuse = (message: string) => new CommandError(2, `${message}; see ${COMMAND} ${name} --help`);
  const parse = (args: string[]) => {
    try {
      return parseArgs<Input<Options>>({ args, options, allowPositionals: maxArguments > 0 });
    } catch (error) {
      throw refuse((error as Error).message);
    }
  };
  return async (given, ...more) => {
    const end = given.indexOf("--");
    if (given.some((each, i) => (each === "--help" || each === "-h") && (end < 0 || i < end))) return help;
    const { values, positionals: args } = parse(handsOn ? ["--", ...given] : given);
    if (args.length > maxArguments) throw refuse(`Unexpected argument '${args[maxArguments]}'`);
    return run({ values, args, refuse }, ...more);
  };
}

/** The result of a command. */
export type Outcome = { readonly exitCode: 0 | 1 | 2; readonly stdout: string; readonly stderr: string };

/** Runs `work` with the arguments, and prints its result or its error. */
export async function runCommand(work: (args: string[]) => Promise<string>, args: string[]): Promise<void> {
  // Only the process of a command may listen to its output.
  const { print } = await import("./print.ts");
  const { exitCode, stdout, stderr } = await outcomeOf(work(args));
  process.exitCode = exitCode;
  print(stdout);
  process.stderr.write(stderr);
}

export async function outcomeOf(work: Promise<string>): Promise<Outcome> {
  try {
    return { exitCode: 0, stdout: await work, stderr: "" };
  } catch (error) {
    if (error instanceof ConfigError) return { exitCode: 2, stdout: "", stderr: `${error.message}\n` };
    const { constructor: kind, message } = error as Error;
    // What the system, the database or graphile-migrate refuses is a plain Error; a bug is a TypeError or another subclass.
    if (kind === Error) return { exitCode: 1, stdout: "", stderr: `${message}\n` };
    if (!(error instanceof CommandError)) throw error;
    return { exitCode: error.exitCode, stdout: error.stdout, stderr: `${message}\n` };
  }
}

/** The settings that the parts of the service declare. */
export const settingsOfService = () => settingsOfParts(PARTS);

/**
 * The settings and the application of the service, from this process and `.env` unless another environment is given; no command needs
 * its keys. Rejects with ConfigError.
 */
export async function readService(environment?: Environment): Promise<Configured> {
  const folder = environment === undefined ? findApplication(folderIn()) : null;
  const fromFile = folder === null ? [] : addDotEnv(folder);
  const configured = await configure({ environment, ofParts: await settingsOfService(), needsKeys: false });
  for (const line of misspeltSettings(fromFile, configured.config)) process.stderr.write(line);
  return configured;
}

/** The same without the application. */
export const readSettings = async (environment?: Environment): Promise<Config> =>
  (await readService(environment)).config;

/** A program of a package that the application has installed. Throws CommandError. */
export function programOf(folder: string, name: string, program: string): string {
  try {
    return join(dirname(createRequire(join(folder, "package.json")).resolve(`${name}/package.json`)), program);
  } catch {
    throw new CommandError(2, `${name} is not installed in ${folder}: npm install --save-dev ${name}`);
  }
}

/** Connects as the owner to DATABASE_URL, or to the running embedded database. Throws CommandError. */
export async function withOwner<Result>(
  config: Pick<Config, "databaseUrl" | "dataDir">,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  return withClient(ownerUrl(config), work).catch(throwFailure);
}

/** Throws what a command reports of an error of the database or of a migration, and any other error as it is. */
export function throwFailure(error: Error): never {
  if (error instanceof MigrationFailure) throw new CommandError(1, error.message);
  throw isOfDatabase(error) ? cannotUseDatabase(error) : error;
}

const isOfDatabase = (error: Error & { readonly syscall?: string }): boolean =>
  error instanceof pg.DatabaseError ||
  error instanceof AggregateError ||
  /^(connect|getaddrinfo)$/.test(error.syscall ?? "") ||
  /^(Connection terminated|read ECONNRESET)/.test(error.message);

/** Runs `work` in one transaction. Throws CommandError if the database does not have the tables of this service. */
export async function inTransaction<Result>(client: pg.Client, work: () => Promise<Result>): Promise<Result> {
  try {
    return await runInTransaction(client, work);
  } catch (error) {
    if (!UNKNOWN_NAME.has((error as pg.DatabaseError).code)) throw error;
    throw new CommandError(
      1,
      "this database does not have the tables of this service. With MIGRATE=off the service has no accounts or keys: sign " +
        "tokens with JWT_SECRET (docs/configuration.md, Any database). Otherwise start the service on it once",
    );
  }
}

/** SQLSTATEs of an unknown schema, function or table. */
const UNKNOWN_NAME: ReadonlySet<string | undefined> = new Set(["3F000", "42883", "42P01"]);

/** The connection URL of the owner. Throws CommandError if neither database is available. */
export function ownerUrl({ databaseUrl, dataDir }: Pick<Config, "databaseUrl" | "dataDir">): string {
  const url = databaseUrl || runningUrl(dataDir);
  if (url === null)
    throw new CommandError(
      1,
      `no embedded database is running in ${dataDir} (DATA_DIR); start it with ${COMMAND} start, or set DATABASE_URL`,
    );
  return url;
}

export const cannotUseDatabase = (error: Error): CommandError =>
  new CommandError(1, `cannot use the database: ${reasonOf(error)}`);

/** Formats rows as plain text: a header with the names of the columns, and aligned columns. */
export function inColumns(names: readonly string[], rows: readonly Readonly<Record<string, string>>[]): string {
  const lines = [names, ...rows.map((row) => names.map((name) => row[name] ?? ""))];
  const widths = names.map((_, i) => Math.max(...lines.map((line) => line[i]!.length)));
  const aligned = lines.map((line) => line.map((cell, i) => cell.padEnd(widths[i]!)).join("  "));
  return aligned.map((line) => `${line.trimEnd()}\n`).join("");
}

/** For the shell of the reader. */
export const quoted = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** What has become of current.sql. `left` is how many statements were left to run. */
export const appliedText = (left: number): string =>
  left === 0
    ? `db/migrations/current.sql has nothing new: all of it has run on this database. ${COMMAND} migrate apply --again runs it again.\n`
    : `db/migrations/current.sql has been applied. When it is complete, run ${COMMAND} migrate commit "what it does".\n`;

/** The owner's connection string of the embedded database that runs on this folder; null when it is not running. */
export function runningUrl(dataDir: string): string | null {
  try {
    const password = readFileSync(join(dataDir, "postgres-password"), "utf8").trim();
    // The fourth line of postmaster.pid is the port.
    const port = readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[3];
    return `postgres://postgres:${password}@127.0.0.1:${port}/content`;
  } catch {
    return null;
  }
}
