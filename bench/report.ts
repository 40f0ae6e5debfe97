import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import type { BenchOptions, Measurements, Sample, Series, ServerName } from "./graphql.ts";
import { ARTICLES, COMMENTS, USERS } from "./operations.ts";
import { CONTESTANTS, POOL_SIZE } from "./servers.ts";

/** What the run says, as Markdown that is readable as it is. */
export function reportGraphql(measured: Measurements, options: BenchOptions, command: string): string {
  const names = CONTESTANTS.map(({ name }) => name);
  const operations = options.operations.map(({ name, about }) => `- ${name}: ${about}`);
  return [
    "## GraphQL",
    `${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC, \`${command}\``,
    machineLine(measured.databaseVersion),
    CONTESTANTS.map(({ name, about }) => `- **${name}**: ${about}`).join("\n"),
    operations.join("\n"),
    caveats(options),
    "### Ours to theirs",
    "Medians of the rounds' ratios (least–most). Requests per second: above 1 ours is faster. CPU of the server's process " +
      "for each request: below 1 ours is lighter.",
    ratioTable(measured.series),
    "### Waits and memory",
    "Waits: groups of messages to Postgres that end in Sync or are a simple Query, for one request; some run side by side. " +
      "Memory: resident MB after the last round.",
    waitsTable(measured, names),
    "### All numbers",
    "Medians (least–most). CPU in microseconds for each request: of the server's process, and of Postgres for it.",
    numbersTable(measured.series),
  ].join("\n\n");
}

function machineLine(databaseVersion: string): string {
  const load = loadavg().map((value) => value.toFixed(1));
  const memory = Math.round(totalmem() / 1e9);
  return (
    `${availableParallelism()} × ${cpus()[0]?.model.trim()}, ${memory} GB, node ${process.version}, PostgreSQL ${databaseVersion}, ` +
    `load average ${load.join(" ")} at the end of the run`
  );
}

const caveats = ({ rounds, seconds }: BenchOptions) =>
  `Rounds: ${rounds}, ${seconds} s for each number; the servers take turns and one at a time is loaded. The load tool ` +
  "(our own, on bare sockets), the server and Postgres share these cores: requests per second are those of all three together, and vary " +
  "with what else the machine does; CPU per request says more. " +
  `${USERS} users, ${ARTICLES} articles, ${COMMENTS} comments; policies on; every request with a user's token and with ` +
  `variables; ${POOL_SIZE} connections a pool. The cluster is a throw-away one (fsync, synchronous_commit and ` +
  "full_page_writes off): a write does not wait for a disk. Ours sends its security and CORS headers, gives ids to requests " +
  "and hears a NOTIFY for each article, whoever wrote it, which takes a few percent of the machine from the others' " +
  "createArticle; the others do none of this.";

function ratioTable(series: readonly Series[]): string {
  const rows = series
    .filter(({ server }) => server === "ours")
    .map((ours) => {
      const against = (name: ServerName, key: "requestsPerSecond" | "serverCpu") => {
        const isPeer = (s: Series) => s.operation === ours.operation && s.connections === ours.connections;
        const theirs = series.find((each) => each.server === name && isPeer(each))!;
        const ratios = ours.samples.map((sample, i) => sample[key] / theirs.samples[i]![key]);
        return spread(ratios, 2);
      };
      const speeds = [against("stock", "requestsPerSecond"), against("hand-written", "requestsPerSecond")];
      return [
        ours.operation,
        String(ours.connections),
        ...speeds,
        against("stock", "serverCpu"),
        against("hand-written", "serverCpu"),
      ];
    });
  const head = ["requests/s to stock", "requests/s to hand-written", "CPU to stock", "CPU to hand-written"];
  return table(["operation", "connections", ...head], rows);
}

function waitsTable({ waits, memory }: Measurements, names: readonly ServerName[]): string {
  const operations = [...new Set(waits.map(({ operation }) => operation))];
  const waitsOf = (operation: string, name: ServerName) =>
    String(waits.find((each) => each.operation === operation && each.server === name)!.waits);
  const rows = operations.map((operation) => [`waits, ${operation}`, ...names.map((name) => waitsOf(operation, name))]);
  return table(["", ...names], [...rows, ["memory, MB", ...names.map((name) => memory[name].toFixed(0))]]);
}

function numbersTable(series: readonly Series[]): string {
  const column = (samples: readonly Sample[], key: keyof Sample, digits: number) =>
    spread(
      samples.map((sample) => sample[key]),
      digits,
    );
  const rows = series.map(({ operation, connections, server, samples }) => [
    operation,
    String(connections),
    server,
    column(samples, "requestsPerSecond", 0),
    column(samples, "p50", 2),
    column(samples, "p99", 1),
    column(samples, "serverCpu", 0),
    column(samples, "databaseCpu", 0),
  ]);
  return table(
    ["operation", "connections", "server", "requests/s", "p50 ms", "p99 ms", "server CPU", "Postgres CPU"],
    rows,
  );
}

/** `spread([3, 1, 2], 1)` → `2.0 (1.0–3.0)` */
function spread(values: readonly number[], digits: number): string {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
  const text = middle.toFixed(digits);
  return sorted.length === 1 ? text : `${text} (${sorted[0]!.toFixed(digits)}–${sorted.at(-1)!.toFixed(digits)})`;
}

/** A Markdown table whose columns line up. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, i) => Math.max(3, title.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

const TITLE =
  "# Results of the benches\n\nWritten by `npm run bench`; the newest run of each bench replaces its section.\n";

/** Puts the report in the place of the bench's former one, or at the end. */
export function writeSection(file: URL, bench: string, report: string): void {
  const [begin, end] = [`<!-- ${bench}: begin -->`, `<!-- ${bench}: end -->`];
  const section = `${begin}\n${report}\n${end}\n`;
  const old = existsSync(file) ? readFileSync(file, "utf8") : TITLE;
  const [from, to] = [old.indexOf(begin), old.indexOf(end)];
  const present = from >= 0 && to > from;
  writeFileSync(file, present ? old.slice(0, from) + section + old.slice(to + end.length + 1) : `${old}\n${section}`);
}
