import { createDatabase } from "../database.ts";
import { heading, table } from "../report.ts";
import type { Bench, BenchOptions } from "../rounds.ts";
import { type IsolatedPlan, replaceIn } from "./network.ts";
import type { Outcome } from "./replace.ts";

type UpgradeCase = Pick<IsolatedPlan, "migrates" | "path"> & { readonly name: string; readonly workers: number };

const CASES: readonly UpgradeCase[] = [
  { name: "process", path: "/users/1", workers: 1, migrates: true },
  { name: "workers", path: "/users/1", workers: 2, migrates: true },
  // Without the database, so that a small machine has the whole rate.
  { name: "light", path: "/live", workers: 1, migrates: true },
  { name: "without-migration", path: "/users/1", workers: 1, migrates: false },
];

/** Requests per second. */
const RATE = 2000;
const SOCKETS = 500;

export const UPGRADE: Bench = {
  name: "upgrade",
  about:
    "Replaces the running service, --rounds times in each case, at a constant rate of requests and with open WebSockets, and counts\n" +
    "  the requests that are lost. Requires unshare and ip: each case runs in a network of its own.",
  cases: CASES.map(({ name }) => name),
  defaults: { rounds: "2" },
  run: async (options, command) => report(await measureAll(options), options, command),
};

type Measured = { readonly version: string; readonly rows: readonly (readonly [UpgradeCase, Outcome])[] };

async function measureAll({ cases, rounds, signal, progress }: BenchOptions): Promise<Measured> {
  await using database = await createDatabase();
  const rows: [UpgradeCase, Outcome][] = [];
  for (const each of CASES.filter(({ name }) => cases?.includes(name) ?? true)) {
    signal.throwIfAborted();
    const version = {
      WORKERS: String(each.workers),
      // A hundredth of them may be WebSockets of one IP address.
      MAX_CONNECTIONS: String(100 * SOCKETS),
    };
    const versions = Array.from({ length: rounds + 1 }, () => version);
    const load = { rate: RATE, concurrency: 64, sockets: SOCKETS, pause: 2000 };
    const outcome = await replaceIn(
      { databaseUrl: database.ownerUrl, versions, migrates: each.migrates, path: each.path, ...load },
      signal,
    );
    progress(`${each.name}: ${JSON.stringify(outcome)}`);
    rows.push([each, outcome]);
  }
  return { version: database.version, rows };
}

function report({ version, rows }: Measured, { rounds }: BenchOptions, command: string): string {
  const HEAD = [
    "case",
    "request",
    "processes",
    "tcp_migrate_req",
    "sent",
    "per second",
    "2xx",
    "lost",
    "p50 ms",
    "p99 ms",
    "max ms",
    "sockets sent away",
    "in 100 ms",
  ];
  const cellsOf = ([
    { name, path, workers, migrates },
    { sent, rate, answers, p50, p99, max, closed, burst },
  ]: Measured["rows"][number]) =>
    [
      name,
      `GET ${path}`,
      workers,
      migrates ? 1 : 0,
      sent,
      rate,
      answers[200] ?? 0,
      sent - (answers[200] ?? 0),
      p50,
      p99,
      max,
      closed[1012] ?? 0,
      burst,
    ].map(String);
  return [
    heading("Upgrade: the running service is replaced", command, version),
    `In each case the service is replaced ${rounds} times, at ${RATE} requests/s, at most 64 at once (each fourth on a connection of its own) and ` +
      `with ${SOCKETS} WebSockets. The load tool, both versions and Postgres share the cores, so the times are those of a busy machine. A time ` +
      "begins when the request is due, and includes the time for which it waits for a connection. The last column is the most WebSockets that " +
      "were sent away within 100 ms.",
    table(HEAD, rows.map(cellsOf)),
  ].join("\n\n");
}
