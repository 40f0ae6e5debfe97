import { parseArgs } from "node:util";
import { AUTH } from "./auth/bench.ts";
import { SIGN_INS } from "./auth/sign-ins.ts";
import { findCommit } from "./checkout.ts";
import { GRAPHQL } from "./graphql/bench.ts";
import { GROWTH } from "./growth/bench.ts";
import { HOSTILE } from "./hostile/bench.ts";
import { IMPORT } from "./import/bench.ts";
import { OVERLOAD } from "./overload/bench.ts";
import { REALTIME } from "./realtime/bench.ts";
import { REPLICAS_BENCH } from "./replicas/bench.ts";
import { writeSection } from "./report.ts";
import { REST } from "./rest/bench.ts";
import { type Bench, type BenchOptions, DEFAULTS } from "./rounds.ts";
import { SCALE } from "./scale/bench.ts";
import { SCHEMA } from "./schema/bench.ts";
import { SLOW_READERS } from "./slow-readers/bench.ts";
import { SOAK } from "./soak/bench.ts";
import { UPGRADE } from "./upgrade/bench.ts";
import { USERS } from "./users/bench.ts";

const RESULTS = new URL("results.md", import.meta.url);
const BENCHES = [
  GRAPHQL,
  SCHEMA,
  REST,
  GROWTH,
  USERS,
  AUTH,
  SIGN_INS,
  SLOW_READERS,
  SOAK,
  HOSTILE,
  OVERLOAD,
  REALTIME,
  UPGRADE,
  SCALE,
  REPLICAS_BENCH,
  IMPORT,
];

const helpOf = ({ name, about, cases, defaults = {} }: Bench) => {
  const own = Object.entries(defaults).map(([option, value]) => ` --${option} ${value}`);
  const more = own.length > 0 ? `  Default:${own.join("")}.\n` : "";
  return `npm run bench -- ${name} [options]\n  ${about}\n  Cases: ${cases.join(", ")}.\n${more}`;
};

const HELP = `${BENCHES.map(helpOf).join("\n")}
Prints the result, and with all cases writes it to bench/results.md. Requires Linux: CPU time and memory are read from /proc. The load
tool is wrk if it is installed (Debian package wrk); our own takes about four times its CPU.

  --rounds N            default 6; the servers are restarted before each round
  --seconds S           duration of each measurement, default 1
  --cases a,b           cases to measure, default all
  --connections a,b     numbers of connections to measure with, default 1,16,64
  --against COMMIT      the benches rest and graphql: also measures the service as it was at this commit
  --help                show this help
`;

/** An error in the command line. */
class UsageError extends Error {}

async function main(): Promise<void> {
  const interruption = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interruption.abort());
  try {
    const args = process.argv.slice(2);
    const asked = readArguments(args, interruption.signal);
    if (asked === null) return void process.stdout.write(HELP);
    const report = await asked.bench.run(asked.options, `npm run bench -- ${args.join(" ")}`);
    if (asked.options.cases === null) writeSection(RESULTS, asked.bench.name, report);
    process.stdout.write(`\n${report}\n`);
  } catch (error) {
    if (interruption.signal.aborted) return fail("interrupted; all servers are stopped", 130);
    if (error instanceof UsageError) return fail(`${error.message}; npm run bench -- --help`, 2);
    throw error;
  }
}

function fail(message: string, exitCode: number): void {
  process.stderr.write(`${message}\n`);
  process.exitCode = exitCode;
}

type Asked = { readonly bench: Bench; readonly options: BenchOptions };

/** Returns null for --help. Throws UsageError. */
function readArguments(args: readonly string[], signal: AbortSignal): Asked | null {
  const { values, positionals } = parse(args);
  if (values.help) return null;
  const bench = BENCHES.find(({ name }) => name === positionals[0]);
  if (!bench || positionals.length !== 1) {
    throw new UsageError(`name one of the benches ${BENCHES.map(({ name }) => name).join(", ")}`);
  }
  const { rounds, seconds, connections } = { ...DEFAULTS, ...bench.defaults, ...values };
  const options: BenchOptions = {
    rounds: positive("--rounds", rounds),
    seconds: positive("--seconds", seconds),
    cases: values.cases?.split(",").map((name) => caseOf(bench, name)) ?? null,
    connections: connections.split(",").map((text) => positive("--connections", text)),
    against: commitOf(bench, values.against),
    signal,
    progress: (line) => process.stderr.write(`${new Date().toISOString().slice(11, 19)}  ${line}\n`),
  };
  return { bench, options };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        rounds: { type: "string" },
        seconds: { type: "string" },
        against: { type: "string" },
        cases: { type: "string" },
        connections: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function positive(name: string, text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new UsageError(`${name} must be an integer from 1 to 9999, not "${text}"`);
}

function caseOf({ name, cases }: Bench, asked: string): string {
  if (cases.includes(asked)) return asked;
  throw new UsageError(`the bench ${name} has no case "${asked}"`);
}

/** The full hash of the commit, or null without --against. */
function commitOf({ name, comparesCommits = false }: Bench, asked: string | undefined): string | null {
  if (asked === undefined) return null;
  if (!comparesCommits) throw new UsageError(`the bench ${name} does not take --against`);
  try {
    return findCommit(asked);
  } catch {
    throw new UsageError(`--against: there is no commit "${asked}"`);
  }
}

await main();
