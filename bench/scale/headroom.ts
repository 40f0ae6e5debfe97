import { exactCpuOf } from "../process-usage.ts";
import { table } from "../report.ts";
import type { BenchOptions } from "../rounds.ts";
import { type Instances, readRows } from "./instances.ts";

/** Reads per second that one process is sent. */
const RATES = [1000, 2000, 4000, 6000, 8000, 10_000, 12_000, 14_000];
/** So that requests wait in the process, and not in the load tool. */
const CONNECTIONS = 256;
const WARM_UP = { rate: 500, seconds: 10 };

export const HEADROOM = "headroom";

/** Of a rate. CPU of the process in thousandths of a core; times in milliseconds. */
export type Step = {
  readonly rate: number;
  readonly answered: number;
  readonly millicores: number;
  readonly p50: number;
  readonly p99: number;
};

/** Reads one process at growing rates: whether its CPU or its latency shows first that it needs help. */
export async function measureHeadroom(instances: Instances, options: BenchOptions): Promise<readonly Step[]> {
  if (!(options.cases?.includes(HEADROOM) ?? true)) return [];
  const [server] = await instances.only(1);
  const { pid } = server!;
  const send = (rate: number, seconds: number) =>
    readRows(server!, { rate, seconds, settleSeconds: 0, connections: CONNECTIONS }, options.signal);
  await send(WARM_UP.rate, WARM_UP.seconds);
  const steps: Step[] = [];
  for (const rate of RATES) {
    await instances.database.settle();
    const before = exactCpuOf(pid);
    const { admittedPerSecond, admittedP50: p50, admittedP99: p99 } = await send(rate, options.seconds);
    const millicores = (exactCpuOf(pid) - before) / options.seconds / 1000;
    steps.push({ rate, answered: admittedPerSecond, millicores, p50, p99 });
    options.progress(`${rate} reads/s: ${Math.round(millicores)} millicores, p99 ${p99.toFixed(1)} ms`);
  }
  return steps;
}

export function headroomReport(steps: readonly Step[]): readonly string[] {
  if (steps.length === 0) return [];
  const rows = steps.map(({ rate, answered, millicores, p50, p99 }) => [
    ...[String(rate), answered.toFixed(0), millicores.toFixed(0)],
    ...[p50.toFixed(1), p99.toFixed(1)],
  ]);
  return [
    "### CPU and latency under a growing load",
    "One process is sent reads of a row by its key at a fixed rate, whether earlier ones have been answered or not. Latency from when " +
      "a request was due, in milliseconds. The load tool and PostgreSQL share the cores.",
    table(["reads/s sent", "answered/s", "millicores of the process", "p50", "p99"], rows),
  ];
}
