import pg from "pg";
import { createDatabase } from "../database.ts";
import { spread } from "../figures.ts";
import { cpuOf } from "../process-usage.ts";
import { table } from "../report.ts";
import type { BenchOptions } from "../rounds.ts";
import { type Program, startServer } from "../servers.ts";

/** What other applications have on the same server, and in schemas that the service does not serve; each step keeps that of the step before. */
const STEPS = [
  { name: "nothing", sql: "" },
  {
    name: "5,000 roles",
    sql: `do $$ begin
      for n in 1..5000 loop execute format('create role stranger_%s', n); end loop;
      for n in 1..500 loop execute format('grant stranger_%s to stranger_%s', n, n + 500); end loop;
    end $$`,
  },
  {
    name: "500 schemas",
    sql: "do $$ begin for n in 1..500 loop execute format('create schema strange_%s', n); end loop; end $$",
  },
  {
    name: "5,000 tables",
    sql: `do $$ begin
      for n in 1..5000 loop
        execute format('create table strange_%s.thing_%s (id bigint primary key, name text not null, at timestamptz)', 1 + n % 500, n);
      end loop;
    end $$`,
  },
];

export const START = "start";

export type Start = {
  readonly step: string;
  /** Seconds of CPU time of each start, until the service is ready and idle. */
  readonly server: readonly number[];
  readonly postgres: readonly number[];
};

/** Starts the service on a database of its own, which fills with what it does not serve. */
export async function measureStarts(program: Program, options: BenchOptions): Promise<readonly Start[]> {
  if (options.cases?.includes(START) === false) return [];
  await using database = await createDatabase();
  const starts: Start[] = [];
  for (const { name, sql } of STEPS) {
    const owner = new pg.Client({ connectionString: database.ownerUrl });
    await owner.connect();
    await owner.query(sql);
    await owner.query("vacuum analyze");
    await owner.end();
    const [server, postgres]: [number[], number[]] = [[], []];
    // The first start of a step is not counted: it follows what has changed.
    for (let round = 0; round <= options.rounds; round++) {
      options.signal.throwIfAborted();
      await database.settle();
      const before = cpuOf(database.pid);
      await using running = await startServer(program, database);
      const used = [cpuOf(running.pid), cpuOf(database.pid) - before].map((each) => each / 1_000_000);
      if (round === 0) continue;
      server.push(used[0]!);
      postgres.push(used[1]!);
      options.progress(
        `round ${round}/${options.rounds}, start beside ${name}: ${used.map((each) => each.toFixed(2))}`,
      );
    }
    starts.push({ step: name, server, postgres });
  }
  return starts;
}

export const reportStarts = (starts: readonly Start[]): string =>
  table(
    ["beside", "server CPU s", "Postgres CPU s"],
    starts.map(({ step, server, postgres }) => [step, spread(server, 2), spread(postgres, 2)]),
  );
