import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { ARTICLES, COMMENTS, USERS } from "./database.ts";
import type { BenchOptions } from "./rounds.ts";
import { POOL_SIZE } from "./servers.ts";

/** When, how and where it was measured. */
export function heading(title: string, command: string, databaseVersion: string): string {
  const load = loadavg().map((value) => value.toFixed(1));
  const memory = Math.round(totalmem() / 1e9);
  return [
    `## ${title}`,
    `${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC, \`${command}\``,
    `${availableParallelism()} × ${cpus()[0]?.model.trim()}, ${memory} GB, node ${process.version}, PostgreSQL ${databaseVersion}, ` +
      `load average ${load.join(" ")} at the end of the run`,
  ].join("\n\n");
}

/** What to know about every bench's numbers. */
export const caveats = ({ rounds, seconds }: BenchOptions) =>
  `Rounds: ${rounds}, ${seconds} s for each number; the contestants take turns, and one at a time is loaded while the other ` +
  "servers are stopped (SIGSTOP). The load tool (our own, on bare sockets), the server and Postgres share these cores: " +
  "requests per second are those of all three together, and vary with what else the machine does; CPU per request says more. " +
  `${USERS} users, ${ARTICLES} articles, ${COMMENTS} comments; policies on; ${POOL_SIZE} connections a pool. The cluster is a ` +
  "throw-away one (fsync, synchronous_commit and full_page_writes off): a write does not wait for a disk. Ours sends its " +
  "security and CORS headers, gives ids to requests and hears a NOTIFY for each row that is written; the others do none of this.";

const TITLE =
  "# Results of the benches\n\nWritten by `npm run bench`; the newest run of each bench replaces its section.\n";

/** Puts the section in the place of the bench's former one, or at the end. */
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

/** `**ours**: server.ts`, a line for each. */
export const list = (items: readonly { readonly name: string; readonly about: string }[]): string =>
  items.map(({ name, about }) => `- **${name}**: ${about}`).join("\n");
