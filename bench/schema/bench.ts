import { execFile } from "node:child_process";
import { promisify } from "node:util";
import pg from "pg";
import { startScratchCluster } from "../../cli/scratch-cluster.ts";
import { V8_OPTIONS } from "../../cli/v8-options.ts";
import { spread } from "../figures.ts";
import { heading, table } from "../report.ts";
import type { Bench, BenchOptions } from "../rounds.ts";
import { fileOf } from "../servers.ts";
import type { BuildRequest, Built } from "./build.ts";

const TABLES = [30, 350, 1000] as const;
const SCHEMAS = ["stock", "ours"] as const;
const BUILD = fileOf("schema/build.ts");
const run = promisify(execFile);

type Cell = { readonly tables: number; readonly schema: BuildRequest["schema"]; readonly built: Built[] };
type Measurements = { readonly databaseVersion: string; readonly cells: readonly Cell[] };

export const SCHEMA: Bench = {
  name: "schema",
  about:
    "Measures how long the GraphQL schema of a database takes to build, and its memory, beside stock PostGraphile.",
  cases: TABLES.map((count) => `tables-${count}`),
  run: async (options, command) => reportSchema(await measureAll(options), options, command),
};

/** Tables of 9 columns, 4 of them in an index, each with two foreign keys to other tables. */
const tablesOf = (count: number): string => `
  create schema api;
  do $$ begin create role anon; exception when duplicate_object then end $$;
  grant usage on schema api to anon;
  create type api.state as enum ('NEW', 'OPEN', 'DONE');
  ${Array.from(
    { length: count },
    (_, n) => `
  create table api.thing_${n} (
    id bigint generated always as identity primary key, parent_id bigint references api.thing_${n >> 1},
    other_id bigint references api.thing_${(n * 7) % (n + 1)}, name text not null, state api.state not null default 'NEW',
    amount numeric, tags text[] not null default '{}', doc jsonb, created_at timestamptz not null default now()
  );
  create index on api.thing_${n} (parent_id);
  create index on api.thing_${n} (other_id);
  create index on api.thing_${n} (name);
  create index on api.thing_${n} (created_at);`,
  ).join("")}
  grant all on all tables in schema api to anon;`;

async function measureAll({ cases, rounds, signal, progress }: BenchOptions): Promise<Measurements> {
  const cluster = await startScratchCluster();
  try {
    const cells: Cell[] = [];
    let databaseVersion = "";
    for (const tables of TABLES.filter((count) => cases?.includes(`tables-${count}`) ?? true)) {
      databaseVersion = await createTables(cluster.url, tables);
      const own = SCHEMAS.map((schema): Cell => ({ tables, schema, built: [] }));
      for (let round = 1; round <= rounds; round++) {
        for (const { schema, built } of own) {
          signal.throwIfAborted();
          built.push(await build({ databaseUrl: cluster.url(nameOf(tables)), schema }));
          progress(
            `round ${round}/${rounds}, ${tables} tables, ${schema}: ${Math.round(built.at(-1)!.milliseconds)} ms`,
          );
        }
      }
      cells.push(...own);
    }
    return { databaseVersion, cells };
  } finally {
    await cluster.remove();
  }
}

const nameOf = (tables: number) => `bench_${tables}`;

async function createTables(url: (database: string) => string, tables: number): Promise<string> {
  await query(url("postgres"), `create database ${nameOf(tables)}`);
  await query(url(nameOf(tables)), tablesOf(tables));
  return (await query(url("postgres"), "show server_version")).rows[0].server_version;
}

async function query(connectionString: string, text: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  return client.query(text).finally(() => client.end());
}

/** Builds the schema in a process of its own. */
async function build(request: BuildRequest): Promise<Built> {
  const environment = { ...process.env, NODE_ENV: "production", GRAPHILE_ENV: "production" };
  const { stdout } = await run(process.execPath, [...V8_OPTIONS, BUILD, JSON.stringify(request)], { env: environment });
  return JSON.parse(stdout.slice(stdout.lastIndexOf('{"cpu"')));
}

function reportSchema({ cells, databaseVersion }: Measurements, { rounds }: BenchOptions, command: string): string {
  const rows = cells.map(({ tables, schema, built }) => {
    const stock = cells.find((cell) => cell.tables === tables && cell.schema === "stock")!;
    const ratios = built.map(({ cpu }, i) => cpu / stock.built[i]!.cpu);
    return [
      String(tables),
      schema,
      String(built[0]!.types),
      spread(
        built.map(({ milliseconds }) => milliseconds),
        0,
      ),
      spread(
        built.map(({ cpu }) => cpu),
        0,
      ),
      spread(ratios, 2),
      spread(
        built.map(({ peak }) => peak),
        0,
      ),
      spread(
        built.map(({ longestTurn }) => longestTurn),
        0,
      ),
    ];
  });
  return [
    heading("Build of the GraphQL schema", command, databaseVersion),
    "- **ours**: the schema of the service, with filters, orders and mutations. No table is tagged for aggregates and mutations of many rows\n" +
      "- **stock**: PostGraphile 5 (Amber) with connection-filter",
    `Rounds: ${rounds}; each build is a new process, with the options of V8 that the service has, and they take turns. Medians (minimum–maximum). CPU: of the process, without Postgres. Memory: the peak of the process. Longest turn: what any other request of the process waits for, in CPU time.`,
    table(["tables", "schema", "types", "ms", "CPU ms", "CPU to stock", "peak MB", "longest turn, ms"], rows),
  ].join("\n\n");
}
