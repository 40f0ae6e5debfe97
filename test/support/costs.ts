import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Reporter, TestModule } from "vitest/node";
import { COUNTED, type Counted, readCounts } from "./counts.ts";
import { listTestFiles } from "./lanes.ts";

/** What a test file costs: seconds of CPU time, with PostgreSQL and all processes; its tests; the processes that it starts. */
export type FileCost = { readonly cpu: number; readonly tests: number; readonly processes: number };
const FILE = "test/costs.json";

/** `{ "test/db/pool.test.ts": { cpu: 0.8, tests: 12, processes: 0 } }`, as of the last run that wrote it. */
export const readCosts = (): Readonly<Record<string, FileCost>> =>
  existsSync(FILE) ? JSON.parse(readFileSync(FILE, "utf8")) : {};

type Cost = Readonly<Record<"cpu" | "postgres" | "wall" | "tests" | Counted, number>>;
type Row = readonly [name: string, cost: Cost];
const COLUMNS = ["cpu", "postgres", "wall", "tests", ...COUNTED] as const;

/**
 * Prints what each file costs, the most expensive first, and each folder: seconds of CPU time of the whole run and of PostgreSQL
 * alone, seconds that pass, and what it starts. The CPU time hardly depends on what else the machine does. Each file needs the run
 * for itself, so there is one worker, and the first file has the cost of loading the service. Writes the costs to test/costs.json:
 *
 *   npm run test:all -- --costs
 *   npm test -- graphql/filters --costs
 */
export default class Costs implements Reporter {
  readonly #files: Row[] = [];
  #before = present();

  onTestModuleEnd(module: TestModule): void {
    const now = present();
    const since = (what: keyof Cost) => now[what] - this.#before[what];
    const spent = Object.fromEntries(COLUMNS.map((what) => [what, since(what)])) as Cost;
    this.#files.push([module.relativeModuleId, { ...spent, tests: [...module.children.allTests()].length }]);
    this.#before = now;
    if (module.state() === "failed") process.stdout.write(`failed: ${module.relativeModuleId}\n`);
  }

  onTestRunEnd(): void {
    const folders = Map.groupBy(this.#files, ([name]) => dirname(name).split("/").slice(0, 2).join("/"));
    print(this.#files);
    print([...folders].map(([name, files]) => [name, sumOf(files)]));
    print([["all", sumOf(this.#files)]]);
    const measured = this.#files.map(([name, { cpu, tests, processes }]) => [
      name,
      { cpu: round(cpu), tests, processes },
    ]);
    writeCosts({ ...readCosts(), ...Object.fromEntries(measured) });
  }
}

const round = (seconds: number) => Math.round(seconds * 10) / 10;

/** A line for each file that exists. */
function writeCosts(costs: Readonly<Record<string, FileCost>>): void {
  const rows = listTestFiles().filter((file) => file in costs);
  const lines = rows.map((file) => `  ${JSON.stringify(file)}: ${JSON.stringify(costs[file])}`);
  writeFileSync(FILE, `{\n${lines.join(",\n")}\n}\n`);
}

const sumOf = (files: readonly Row[]) =>
  Object.fromEntries(COLUMNS.map((what) => [what, files.reduce((sum, [, cost]) => sum + cost[what], 0)])) as Cost;

const SECONDS: readonly (keyof Cost)[] = ["cpu", "postgres", "wall"];

function print(rows: readonly Row[]): void {
  const line = (name: string, cells: readonly string[]) =>
    `${cells.map((cell) => cell.padStart(10)).join("")}  ${name}\n`;
  const cellsOf = (cost: Cost) => COLUMNS.map((what) => cost[what].toFixed(SECONDS.includes(what) ? 1 : 0));
  const sorted = rows.toSorted(([, a], [, b]) => b.cpu - a.cpu);
  const lines = sorted.map(([name, cost]) => line(name, cellsOf(cost)));
  process.stdout.write(`\n${line("", COLUMNS)}${lines.join("")}`);
}

/** Everything since the start of the run. Source: proc_pid_stat(5); Linux counts hundredths of a second. */
function present(): Cost {
  const processes = new Map(readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? processOf(name) : [])));
  const isOurs = (pid: number): boolean => pid === process.pid || isOursBelow(processes.get(pid)?.parent);
  const isOursBelow = (parent: number | undefined) => parent !== undefined && parent > 0 && isOurs(parent);
  const ours = [...processes].filter(([pid]) => isOurs(pid)).map(([, each]) => each);
  const secondsOf = (some: typeof ours) => some.reduce((sum, { ticks }) => sum + ticks, 0) / 100;
  return {
    cpu: secondsOf(ours),
    postgres: secondsOf(ours.filter(({ program }) => program === "postgres")),
    wall: performance.now() / 1000,
    tests: 0,
    ...readCounts(),
  };
}

type Process = { readonly program: string; readonly parent: number; readonly ticks: number };

/** With the time of the children that have ended. The program may hold spaces and brackets. */
function processOf(pid: string): [[number, Process]] | [] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const end = text.lastIndexOf(")");
    const fields = text.slice(end + 2).split(" ");
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return [[Number(pid), { program: text.slice(text.indexOf("(") + 1, end), parent: Number(fields[1]), ticks }]];
  } catch {
    return [];
  }
}
