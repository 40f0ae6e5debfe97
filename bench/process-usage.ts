import { readdirSync, readFileSync, writeFileSync } from "node:fs";

/** The unit in which Linux counts CPU time: USER_HZ is 100 on every platform that Node supports. */
const MICROSECONDS_PER_TICK = 10_000;

type Stat = { readonly pid: number; readonly parent: number; readonly own: number; readonly reaped: number };

/** Microseconds of CPU that a process and its children have used so far, also those that have ended. */
export function cpuOf(pid: number): number {
  const parent = readStat(pid);
  if (!parent) return Number.NaN;
  const ticks = childrenOf(pid).reduce((sum, child) => sum + child.own, parent.own + parent.reaped);
  return ticks * MICROSECONDS_PER_TICK;
}

/** Microseconds of CPU that a process has used so far, without its running children. */
export function ownCpuOf(pid: number): number {
  const stat = readStat(pid);
  return stat ? (stat.own + stat.reaped) * MICROSECONDS_PER_TICK : Number.NaN;
}

/**
 * Microseconds of CPU that the running threads of a process have used, to the nanosecond; 0 if it has ended. Source: the kernel's
 * documentation, "Scheduler Statistics", schedstat.
 */
export function exactCpuOf(pid: number): number {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const used = threads.map((id) =>
      Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, "utf8").split(" ", 1)[0]),
    );
    return used.reduce((sum, each) => sum + each, 0) / 1000;
  } catch {
    return 0;
  }
}

/**
 * Microseconds of CPU that all processes have used since the machine started, and that other machines have taken from
 * it. Source: proc_stat(5), the first line without idle (4th), iowait (5th) and the two guest fields, which user has too.
 */
export function machineCpu(): number {
  const fields = readFileSync("/proc/stat", "utf8").split("\n", 1)[0]!.trim().split(/ +/).slice(1, 9).map(Number);
  const busy = fields.filter((_, i) => i !== 3 && i !== 4).reduce((sum, each) => sum + each, 0);
  return busy * MICROSECONDS_PER_TICK;
}

/** Resident memory in MB, of a process and its children. */
export const memoryOf = (pid: number): number => sumOfStatus(pid, "VmRSS");

/** The peak of resident memory in MB since `forgetPeak`. */
export const peakOf = (pid: number): number => sumOfStatus(pid, "VmHWM");

/** Resets the peak to the present value. Source: proc_pid_clear_refs(5). */
export function forgetPeak(pid: number): void {
  for (const member of familyOf(pid)) writeFileSync(`/proc/${member}/clear_refs`, "5");
}

/** A process and its children. */
export const familyOf = (pid: number): number[] => [pid, ...childrenOf(pid).map((child) => child.pid)];

function sumOfStatus(pid: number, field: string): number {
  const kilobytes = familyOf(pid).map((member) => {
    const text = readFileSync(`/proc/${member}/status`, "utf8");
    return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(text)?.[1]);
  });
  return kilobytes.reduce((sum, each) => sum + each, 0) / 1000;
}

const childrenOf = (pid: number): Stat[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readStat(Number(name)))
    .filter((stat) => stat !== null)
    .filter(({ parent }) => parent === pid);

/** Source: proc_pid_stat(5). Fields 4, 14 and 15, 16 and 17; field 2, the name, may hold spaces and brackets. */
function readStat(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    return { pid, parent: fields[1]!, own: fields[11]! + fields[12]!, reaped: fields[13]! + fields[14]! };
  } catch {
    return null;
  }
}
