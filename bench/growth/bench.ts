import type { Case } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { ARTICLES, createDatabase } from "../database.ts";
import { median, spread, valuesOf } from "../figures.ts";
import { caveats, heading, list, table } from "../report.ts";
import {
  type Bench,
  type BenchOptions,
  contestantOf,
  type Field,
  runRounds,
  type Series,
  selectCases,
} from "../rounds.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";
import { measureStarts, reportStarts, START, type Start } from "./start.ts";

const TABLES = [10, 100, 1000];
const ROWS = [10_000, 100_000, 1_000_000];
const PAGE = 20;
/** Where only tables or rows grow. */
const CONNECTIONS = 16;

const counted = (count: number) => count.toLocaleString("en-US");

/** The service with the tables of the other benches and this many more, each with a key and a reference to another one. */
const serving = (tables: number): Program => ({
  name: `${counted(tables)} tables`,
  about: `serves ${counted(tables)} further tables`,
  base: "",
  command: (database, port) => ourCommand(database, port, { DB_SCHEMAS: `public,tables_${tables}` }),
});

const OURS: Program = {
  name: "ours",
  about: "server.ts as `npm start` runs it",
  base: "",
  command: (database, port) => ourCommand(database, port),
};

const SCHEMA = TABLES.map(
  (count) => `
  create schema tables_${count};
  grant usage on schema tables_${count} to anon, authenticated;
  do $$
  begin
    for n in 1..${count} loop
      execute format(
        'create table tables_${count}.thing_%s (id bigint primary key, name text, other_id bigint references tables_${count}.thing_%s)',
        n, (n + 1) / 2);
    end loop;
  end $$;
  grant select on all tables in schema tables_${count} to anon, authenticated;`,
).join("");

/** Filled tables of each size, with a policy that every row fulfils. */
const FILL = ROWS.map(
  (count) => `
  create table public.rows_${count} (id bigint primary key, name text not null, created_at timestamptz not null);
  insert into public.rows_${count}
  select n, 'Row number ' || n, timestamptz '2020-01-01' + n * interval '1 minute' from generate_series(1, ${count}) as n;
  alter table public.rows_${count} enable row level security;
  create policy "everyone reads" on public.rows_${count} for select using (true);
  grant select on public.rows_${count} to anon, authenticated;`,
).join("");

const reading = (name: string, about: string, pathOf: (n: number) => string, prefer?: string): Case => ({
  name,
  about,
  writes: false,
  ownFields: [],
  refused: [],
  requests: () => {
    const headers = { apikey: ANON_KEY, Authorization: bearer(), ...(prefer && { Prefer: prefer }) };
    return Array.from({ length: 200 }, (_, n) => ({ method: "GET" as const, path: pathOf(n), headers, body: null }));
  },
});

const ROW = reading(
  "row",
  "`GET /rest/v1/articles?id=eq.…`",
  (n) => `/rest/v1/articles?id=eq.${1 + ((n * 997) % ARTICLES)}`,
);
const PAGES: readonly Case[] = ROWS.flatMap((count) => {
  const path = `/rest/v1/rows_${count}?order=id&limit=${PAGE}`;
  return [
    reading(`first-page-${count}`, `\`${path}\``, () => path),
    reading(`last-page-by-key-${count}`, `\`${path}&id=gt.…\``, (n) => `${path}&id=gt.${count - PAGE - n}`),
    reading(`last-page-by-offset-${count}`, `\`${path}&offset=…\``, () => `${path}&offset=${count - PAGE}`),
    reading(`count-${count}`, `\`${path}\` with \`Prefer: count=exact\``, () => path, "count=exact"),
  ];
});

type Measurements = {
  readonly databaseVersion: string;
  readonly tables: readonly Series[];
  readonly connections: readonly Series[];
  readonly rows: readonly Series[];
  readonly starts: readonly Start[];
  /** MB by server, when it was idle after its start. */
  readonly idleMemory: ReadonlyMap<string, number>;
};

export const GROWTH: Bench = {
  name: "growth",
  about: "Measures what a request costs as tables, rows and connections become more, and a start on a full server.",
  cases: [...[ROW, ...PAGES].map(({ name }) => name), START],
  defaults: { rounds: "3", seconds: "2", connections: "1,4,16,64,256" },
  run: async (options, command) => reportGrowth(await measureAll(options), options, command),
};

async function measureAll(options: BenchOptions): Promise<Measurements> {
  options.progress("creating the database");
  const starts = await measureStarts(OURS, options);
  await using database = await createDatabase(SCHEMA, FILL);
  await using stack = new AsyncDisposableStack();
  const servers: RunningServer[] = [];
  for (const program of [OURS, ...TABLES.map(serving)]) servers.push(stack.use(await startServer(program, database)));
  const [ours] = servers.map(contestantOf);
  const measure = (field: Pick<Field, "contestants" | "connections">, cases: readonly Case[]) => {
    const selected = selectCases(cases, options);
    return selected.length === 0 ? [] : runRounds({ ...field, cases: selected, database }, options);
  };
  return {
    databaseVersion: database.version,
    tables: await measure({ contestants: servers.map(contestantOf), connections: [CONNECTIONS] }, [ROW]),
    connections: await measure({ contestants: [ours!], connections: options.connections }, [ROW]),
    rows: await measure({ contestants: [ours!], connections: [CONNECTIONS] }, PAGES),
    starts,
    idleMemory: new Map(servers.map(({ name, idleMemory }) => [name, idleMemory])),
  };
}

/** A cost is flat if it is at most this many times that of the smallest size. */
const FLAT = 1.25;

/** Formats the measurements as Markdown. */
function reportGrowth(
  { databaseVersion, tables, connections, rows, starts, idleMemory }: Measurements,
  options: BenchOptions,
  command: string,
) {
  const kindOf = ({ case: name }: Series) => name.slice(0, name.lastIndexOf("-"));
  return [
    heading("Growth", command, databaseVersion),
    list([OURS, ...TABLES.map(serving)]),
    caveats(options),
    "CPU in microseconds per request, of the server and of Postgres. Growth: that of both, to the first line of its kind. " +
      `Flat: at most ${FLAT}.`,
    "### More tables",
    tableOf(
      ["tables", "idle memory MB"],
      tables,
      (each) => [each.contestant, String(Math.round(idleMemory.get(each.contestant)!))],
      () => "",
    ),
    "### More connections",
    tableOf(
      ["connections"],
      connections,
      (each) => [String(each.connections)],
      () => "",
    ),
    "### More rows",
    tableOf(
      ["request"],
      [...rows].sort((a, b) => ORDER.indexOf(kindOf(a)) - ORDER.indexOf(kindOf(b))),
      (each) => [each.case],
      kindOf,
    ),
    "### Starts",
    "On a server with what the service does not serve; each line has what is in the lines above.",
    reportStarts(starts),
  ].join("\n\n");
}

const ORDER = ["first-page", "last-page-by-key", "last-page-by-offset", "count"];

/** A line for each series. Series of one kind are compared with the first of them. */
function tableOf(
  head: readonly string[],
  all: readonly Series[],
  cellsOf: (each: Series) => string[],
  kindOf: (each: Series) => string,
): string {
  const first = new Map<string, Series>();
  for (const each of all) if (!first.has(kindOf(each))) first.set(kindOf(each), each);
  const lines = all.map((each) => {
    const growth = median(valuesOf(each, "cpu")) / median(valuesOf(first.get(kindOf(each))!, "cpu"));
    return [
      ...cellsOf(each),
      spread(valuesOf(each, "requestsPerSecond"), 0),
      spread(valuesOf(each, "p99"), 1),
      spread(valuesOf(each, "serverCpu"), 0),
      spread(valuesOf(each, "databaseCpu"), 0),
      growth.toFixed(2),
      growth <= FLAT ? "flat" : "grows",
    ];
  });
  return table([...head, "requests/s", "p99 ms", "server CPU", "Postgres CPU", "growth", ""], lines);
}
