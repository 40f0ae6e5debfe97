import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { ARTICLES, COMMENTS, USERS } from "./database.ts";
import { type BenchOptions, LEAD_IN_SECONDS, MAX_FOREIGN_CORES, TURNS } from "./rounds.ts";
import { POOL_SIZE } from "./servers.ts";
import { hasWrk } from "./wrk.ts";

/** When, how and where the numbers were measured. */
export function heading(title: string, command: string, databaseVersion: string): string {
  const load = loadavg().map((value) => value.toFixed(1));
  const memory = Math.round(totalmem() / 1e9);
  return [
    `## ${title}`,
    `${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC, \`${command}\``,
    `${availableParallelism()} × ${cpus()[0]?.model.trim()}, ${memory} GB, node ${process.version}, PostgreSQL ${databaseVersion}, ` +
      `load average ${load.join(" ")} at the end`,
  ].join("\n\n");
}

/** The conditions that apply to the numbers of every bench. */
export const caveats = ({ rounds, seconds }: BenchOptions) =>
  `Rounds: ${rounds}. In each, the contestants take ${TURNS} turns of ${seconds} s in each case. Only one is loaded at a time; the other ` +
  "servers are stopped (SIGSTOP). The load tool, the server and Postgres share the cores, so requests per second depend on " +
  "all three and on other work of the machine; CPU per request is more reliable. The servers are restarted before each round, " +
  `and have ${LEAD_IN_SECONDS} s of each case before its turns. ` +
  `${hasWrk ? "The load tool is wrk, and our own where wrk cannot check the responses, or where few requests are answered: it awaits those under way at the end." : "wrk is not installed: our own load tool takes about four times its CPU."} ` +
  `Measurements during which other work used more than ${MAX_FOREIGN_CORES} cores are repeated up to twice. ` +
  `${USERS} users, ${ARTICLES} articles, ${COMMENTS} comments; row-level security is on; ${POOL_SIZE} connections per pool. The cluster is a ` +
  "temporary one (fsync, synchronous_commit and full_page_writes off): writes do not wait for a disk. Ours also sends " +
  "security headers and assigns request ids; the others do not.";

const TITLE =
  "# Benchmark results\n\nWritten by `npm run bench`. The latest result of each bench replaces its section.\n";

/** Replaces the section of the bench in the file, or appends it. */
export function writeSection(file: URL, bench: string, text: string): void {
  const [begin, end] = [`<!-- ${bench}: begin -->`, `<!-- ${bench}: end -->`];
  const section = `${begin}\n${text}\n${end}\n`;
  const old = existsSync(file) ? readFileSync(file, "utf8") : TITLE;
  const [from, to] = [old.indexOf(begin), old.indexOf(end)];
  const present = from >= 0 && to > from;
  writeFileSync(file, present ? old.slice(0, from) + section + old.slice(to + end.length + 1) : `${old}\n${section}`);
}

/** A Markdown table whose columns line up. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, i) => Math.max(3, title.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

/** A list of names and descriptions: `**ours**: server.ts`. */
export const list = (items: readonly { readonly name: string; readonly about: string }[]): string =>
  items.map(({ name, about }) => `- **${name}**: ${about}`).join("\n");
