import { readdirSync, readFileSync } from "node:fs";

/** What Linux counts CPU time in: USER_HZ is 100 on every platform that Node runs on. */
const MICROSECONDS_PER_TICK = 10_000;

type Stat = { readonly parent: number; readonly own: number; readonly reaped: number };

/** Microseconds of CPU that the process has used so far, all its threads together. */
export const cpuOf = (pid: number): number => (readStat(pid)?.own ?? Number.NaN) * MICROSECONDS_PER_TICK;

/** The same of a postmaster and its backends, also those that have ended. */
export function cpuOfFamily(pid: number): number {
  const parent = readStat(pid);
  if (!parent) return Number.NaN;
  const children = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readStat(Number(name)))
    .filter((stat) => stat?.parent === pid);
  const ticks = children.reduce((sum, child) => sum + child!.own, parent.own + parent.reaped);
  return ticks * MICROSECONDS_PER_TICK;
}

/** Resident memory in MB. */
export function memoryOf(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1000;
}

/** Source: proc_pid_stat(5). Fields 4, 14 and 15, 16 and 17; field 2, the name, may hold spaces and brackets. */
function readStat(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = text
      .slice(text.lastIndexOf(")") + 2)
      .split(" ")
      .map(Number);
    return { parent: fields[1]!, own: fields[11]! + fields[12]!, reaped: fields[13]! + fields[14]! };
  } catch {
    return null;
  }
}
