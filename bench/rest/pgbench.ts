import { execFile } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { BenchDatabase } from "../database.ts";
import type { LoadResult } from "../load.ts";
import type { Contestant, Load } from "../rounds.ts";
import type { Exported, SentStatement } from "./exported.ts";

const LOGIN = "bench_pgbench";

/**
 * Inherits the privileges of the callers: in a pipeline, statements are prepared before the role is set. Its password is
 * cheap to verify, because pgbench opens new connections for each measurement.
 */
export const CREATE_LOGIN = `
  set scram_iterations = 1;
  create role ${LOGIN} login inherit password '${LOGIN}' in role authenticated;
  alter role ${LOGIN} set search_path = public, extensions;
  reset scram_iterations;`;

/** How pgbench sends a transaction. */
export type Mode = { readonly name: string; readonly about: string; frame(transaction: string): string };

export const FOUR_TRIPS: Mode = {
  name: "pgbench",
  about: "pgbench -M prepared with the statements of ours between begin and commit: four round trips",
  frame: (transaction) => transaction,
};

export const PIPELINE: Mode = {
  name: "pgbench, pipeline",
  about: "the same in one round trip, with a libpq pipeline",
  // pgbench prepares the statements of a script at the first one outside of a pipeline.
  frame: (transaction) =>
    `\\if :first\nselect;\n\\set first 0\n\\endif\n\\startpipeline\n${transaction}\\endpipeline\n`,
};

export const MODES = [FOUR_TRIPS, PIPELINE];

/** Null where no package has brought it. */
export function findPgbench(): string | null {
  const folders = ["/usr/bin", "/usr/local/bin", ...globSync("/usr/lib/postgresql/*/bin")];
  return folders.map((folder) => join(folder, "pgbench")).find((file) => existsSync(file)) ?? null;
}

/** `file` is the program. */
export function pgbenchContestant(
  file: string,
  mode: Mode,
  database: BenchDatabase,
  exported: readonly Exported[],
): Contestant {
  const scripts = new Map(exported.map((each) => [each.case.name, scriptOf(each, mode)]));
  return {
    name: mode.name,
    server: null,
    takes: ({ name }) => scripts.has(name),
    apply: ({ name }, load, signal) => runScript(file, scripts.get(name)!, database, load, signal),
  };
}

type Script = { readonly text: string; readonly variables: ReadonlyMap<string, string> };

/** The values become variables, which pgbench sends as parameters like the service. The key changes with each transaction. */
function scriptOf({ case: { keys }, statements, key }: Exported, { frame }: Mode): Script {
  const variables = new Map([["first", "1"]]);
  const lines = statements.map((statement, i) => `${withVariables(statement, `s${i}p`, key, variables)};\n`);
  const transaction = ["begin;\n", ...lines, "commit;\n"].join("");
  return { text: `\\set key random(1, ${keys})\n${frame(transaction)}`, variables };
}

function withVariables(
  { text, values }: SentStatement,
  prefix: string,
  key: string,
  variables: Map<string, string>,
): string {
  return text.replaceAll(/\$(\d+)/g, (_, number) => {
    const value = values[Number(number) - 1] ?? null;
    if (value === key) return ":key";
    // A variable can be neither.
    if (value === null || value === "") return value === null ? "null" : "''";
    const name = `${prefix}${number}`;
    variables.set(name, value);
    return `:${name}`;
  });
}

async function runScript(
  file: string,
  { text, variables }: Script,
  database: BenchDatabase,
  { connections, seconds }: Load,
  signal: AbortSignal,
): Promise<LoadResult> {
  const { hostname, port, pathname } = new URL(database.dataUrl);
  const args = ["-n", "-M", "prepared", "-h", hostname, "-p", port, "-U", LOGIN];
  const time = seconds + Math.ceil(connections / CONNECTED_PER_SECOND);
  args.push("-c", String(connections), "-j", "1", "-T", String(time), "-f", "-");
  for (const [name, value] of variables) args.push("-D", `${name}=${value}`);
  const env = { PGPASSWORD: LOGIN, LC_ALL: "C" };
  const running = promisify(execFile)(file, [...args, pathname.slice(1)], { env, signal });
  // If it ends before it has read the script, the rejection has the reason.
  running.child.stdin!.on("error", () => {}).end(text);
  const { stdout } = await running;
  return resultIn(stdout);
}

/** Connecting is not in the result, but in the time that it runs. On a busy machine it is slow. */
const CONNECTED_PER_SECOND = 32;

/** Throws when a transaction has failed. */
function resultIn(printed: string): LoadResult {
  const number = (pattern: RegExp) => Number(pattern.exec(printed)?.[1]);
  const requests = number(/^number of transactions actually processed: (\d+)/m);
  const requestsPerSecond = number(/^tps = ([\d.]+)/m);
  const failures = number(/^number of failed transactions: (\d+)/m);
  if (!(requests > 0) || failures > 0) throw new Error(`pgbench: ${printed}`);
  return { requests, requestsPerSecond, p50: null, p99: null };
}
