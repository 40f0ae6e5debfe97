import pg from "pg";
import { type Config, ConfigError, type Environment, readConfig } from "../config/config.ts";
import { runningUrl } from "../db/cluster/data-directory.ts";

const CONNECT_MILLISECONDS = 10_000;

/** Why a command has done nothing: one line, and 2 as exit code where the command itself or a setting is wrong. */
export class Refusal extends Error {
  readonly exitCode: 1 | 2;
  constructor(exitCode: 1 | 2, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** What a command leaves to who called it. */
export type Outcome = { readonly exitCode: 0 | 1 | 2; readonly stdout: string; readonly stderr: string };

/** Prints what `work` gives for the arguments of this process, or why it gives nothing. */
export async function runCommand(work: (args: string[]) => Promise<string>): Promise<void> {
  const { exitCode, stdout, stderr } = await outcomeOf(work(process.argv.slice(2)));
  process.stdout.write(stdout);
  process.stderr.write(stderr);
  process.exitCode = exitCode;
}

export async function outcomeOf(work: Promise<string>): Promise<Outcome> {
  try {
    return { exitCode: 0, stdout: await work, stderr: "" };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { exitCode: error.exitCode, stdout: "", stderr: `${error.message}\n` };
  }
}

/** Those of npm start; of this process, unless others are given. Throws Refusal. */
export function readSettings(environment?: Environment): Config {
  try {
    return readConfig(environment);
  } catch (error) {
    throw error instanceof ConfigError ? new Refusal(2, error.message) : error;
  }
}

/** Connects to DATABASE_URL, or to the embedded database that runs, as the owner. Throws Refusal. */
export async function withOwner<Result>(
  config: Pick<Config, "databaseUrl" | "dataDir">,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({
    connectionString: urlOf(config),
    connectionTimeoutMillis: CONNECT_MILLISECONDS,
  });
  try {
    await client.connect();
    return await work(client);
  } catch (error) {
    throw error instanceof Refusal
      ? error
      : new Refusal(1, `the database can not be read: ${reasonOf(error as Error)}`);
  } finally {
    await client.end();
  }
}

function urlOf({ databaseUrl, dataDir }: Pick<Config, "databaseUrl" | "dataDir">): string {
  const url = databaseUrl || runningUrl(dataDir);
  if (url === null)
    throw new Refusal(1, `no embedded database is running on ${dataDir}; start it with npm start, or set DATABASE_URL`);
  return url;
}

/** A name with several addresses fails with one error for each, and no message of its own. */
const reasonOf = (error: Error): string =>
  error instanceof AggregateError ? error.errors.map(({ message }) => message).join("; ") : error.message;
