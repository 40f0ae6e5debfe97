import { parseArgs } from "node:util";
import { type BenchOptions, benchGraphql } from "./graphql.ts";
import { OPERATIONS, type Operation } from "./operations.ts";
import { reportGraphql, writeSection } from "./report.ts";

const RESULTS = new URL("results.md", import.meta.url);

const HELP = `npm run bench -- graphql [options]

Measures our server, stock PostGraphile and a hand-written server on one throw-away database, in turn.
Prints the result and writes it to bench/results.md. Needs Linux, for CPU time and memory from /proc.

  --rounds N            how often each number is measured, default 3
  --seconds S           how long each time, default 3
  --operations a,b      of ${OPERATIONS.map(({ name }) => name).join(", ")}; default all
  --connections a,b     connections of the load, default 1,16,64
  --help                this text
`;

/** What was typed wrong. */
class UsageError extends Error {}

async function main(): Promise<void> {
  const interruption = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interruption.abort());
  try {
    const options = readArguments(process.argv.slice(2), interruption.signal);
    if (options === null) return void process.stdout.write(HELP);
    const command = `npm run bench -- ${process.argv.slice(2).join(" ")}`;
    const report = reportGraphql(await benchGraphql(options), options, command);
    writeSection(RESULTS, "graphql", report);
    process.stdout.write(`\n${report}\n`);
  } catch (error) {
    if (interruption.signal.aborted) return fail("interrupted; everything is stopped", 130);
    if (error instanceof UsageError) return fail(`${error.message}; npm run bench -- --help`, 2);
    throw error;
  }
}

function fail(message: string, exitCode: number): void {
  process.stderr.write(`${message}\n`);
  process.exitCode = exitCode;
}

/** Null asks for help. Throws UsageError. */
function readArguments(args: readonly string[], signal: AbortSignal): BenchOptions | null {
  const { values, positionals } = parse(args);
  if (values.help) return null;
  if (positionals.length !== 1 || positionals[0] !== "graphql") throw new UsageError("name one bench: graphql");
  return {
    rounds: positive("--rounds", values.rounds),
    seconds: positive("--seconds", values.seconds),
    operations: values.operations ? values.operations.split(",").map(operationOf) : OPERATIONS,
    connections: values.connections.split(",").map((text) => positive("--connections", text)),
    signal,
    progress: (line) => process.stderr.write(`${new Date().toISOString().slice(11, 19)}  ${line}\n`),
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        rounds: { type: "string", default: "3" },
        seconds: { type: "string", default: "3" },
        operations: { type: "string" },
        connections: { type: "string", default: "1,16,64" },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function positive(name: string, text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new UsageError(`${name} takes whole numbers from 1 on, not "${text}"`);
}

function operationOf(name: string): Operation {
  const operation = OPERATIONS.find((each) => each.name === name);
  if (operation) return operation;
  throw new UsageError(`there is no operation "${name}"`);
}

await main();
