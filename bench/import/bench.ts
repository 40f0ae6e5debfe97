import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SECRET } from "../credentials.ts";
import { type BenchDatabase, createDatabase } from "../database.ts";
import { cpuOf } from "../process-usage.ts";
import { heading, table } from "../report.ts";
import type { Bench, BenchOptions } from "../rounds.ts";

const ACCOUNTS = 100_000;
/** Seconds in which they are imported. */
const GOAL = 60;

/** "new": accounts that do not exist. "again": the same file once more, as after an interruption. */
const CASES = ["new", "again"] as const;

export const IMPORT: Bench = {
  name: "import",
  about: `Imports ${ACCOUNTS} accounts with bcrypt hashes by the command user import, --rounds times, each time into a new database.`,
  cases: CASES,
  defaults: { rounds: "1" },
  run: async (options, command) => report(await measureAll(options), command),
};

/** CPU is in seconds, of the command and of Postgres. */
type Measured = {
  readonly name: (typeof CASES)[number];
  readonly seconds: number;
  readonly commandCpu: number;
  readonly databaseCpu: number;
  readonly outcome: string;
};

async function measureAll({ rounds, signal, progress }: BenchOptions) {
  const folder = await mkdtemp(join(tmpdir(), "content-service-bench-import-"));
  const file = join(folder, "users.ndjson");
  const rows: Measured[] = [];
  let version = "";
  try {
    await writeFile(
      file,
      Array.from({ length: ACCOUNTS }, (_, i) => `${JSON.stringify(accountOf(i))}\n`),
    );
    for (let round = 0; round < rounds; round++) {
      await using database = await createDatabase();
      version = database.version;
      for (const name of CASES) {
        await database.settle();
        const measured = { name, ...(await importFile(file, database, signal)) };
        progress(`${name}: ${JSON.stringify(measured)}`);
        rows.push(measured);
      }
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return { version, rows };
}

/** A row of the file. Each has a salt of its own; the cost of bcrypt does not matter before the first sign-in. */
const accountOf = (i: number) => ({
  email: `imported${i}@example.com`,
  name: `Imported user ${i}`,
  password_hash: `$2b$10$${String(i).padStart(22, "C")}.E5YPO9kmyuRGyh0XouQYb4YMJKvyOe`,
  email_confirmed: i % 10 !== 0,
  created_at: new Date(Date.UTC(2020, 0, 1) + i * 600_000).toISOString(),
});

const COMMAND = fileURLToPath(new URL("../../cli/content-service.ts", import.meta.url));

/** Runs the command as an operator does. Rejects if rows are refused. */
async function importFile(file: string, { ownerUrl, pid }: BenchDatabase, signal: AbortSignal) {
  const env = { ...process.env, DATABASE_URL: ownerUrl, JWT_SECRET: SECRET };
  const begun = performance.now();
  // Children that have ended count.
  const cpu = () => [process.pid, pid].map((each) => cpuOf(each) / 1e6);
  const before = cpu();
  const child = spawn(process.execPath, [COMMAND, "user", "import", file], { env, signal, stdio: "pipe" });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`user import has failed: ${output}`);
  const seconds = (performance.now() - begun) / 1000;
  const [commandCpu = 0, databaseCpu = 0] = cpu().map((used, i) => used - before[i]!);
  return { seconds, commandCpu, databaseCpu, outcome: output.trim().split("\n").at(-1)! };
}

function report({ version, rows }: Awaited<ReturnType<typeof measureAll>>, command: string): string {
  const cellsOf = ({ name, seconds, commandCpu, databaseCpu, outcome }: Measured) => [
    ...[name, String(ACCOUNTS), seconds.toFixed(1), String(Math.round(ACCOUNTS / seconds))],
    ...[String(GOAL), seconds <= GOAL ? "reached" : "**missed**"],
    ...[commandCpu.toFixed(1), databaseCpu.toFixed(1), outcome],
  ];
  return [
    heading("Import of accounts", command, version),
    `\`user import\` with a file of ${ACCOUNTS} accounts with bcrypt hashes, from the start of the command to its end, into the demo with 10,000 users. ` +
      "**new**: none of the accounts exists. **again**: all exist, as when an import is started again.",
    table(
      ["case", "rows", "seconds", "rows/s", "wanted s", "", "CPU s of the command", "of Postgres", "output"],
      rows.map(cellsOf),
    ),
  ].join("\n\n");
}
