import { readdirSync, readFileSync } from "node:fs";

export const argumentsOf = (pid: number): string => read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();

/** The processes that this one has started, directly or not, each before those that it has started itself. */
export function processesBelow(parent: number, among = runningProcesses()): number[] {
  const children = among.filter((each) => each.parent === parent);
  return children.flatMap(({ pid }) => [pid, ...processesBelow(pid, among)]);
}

/** The processes with this text in their arguments, of one group if it is given. */
export const processesNamed = (text: string, group?: number): number[] =>
  runningProcesses()
    .filter(({ pid, group: own }) => (group === undefined || own === group) && argumentsOf(pid).includes(text))
    .map(({ pid }) => pid);

type RunningProcess = { readonly pid: number; readonly parent: number; readonly group: number };

/** From /proc: the program ps would have to be started for each look. */
const runningProcesses = (): RunningProcess[] =>
  readdirSync("/proc").flatMap((name) => {
    const [, state, parent, group] =
      /\) (\S) (\d+) (\d+)/.exec(/^\d+$/.test(name) ? read(`/proc/${name}/stat`) : "") ?? [];
    return state === undefined || state === "Z"
      ? []
      : [{ pid: Number(name), parent: Number(parent), group: Number(group) }];
  });

/** "" if the process has ended. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has already ended.
  }
}
