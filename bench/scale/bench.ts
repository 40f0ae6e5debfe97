import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { WebSocket } from "ws";
import { ANON_KEY, bearer } from "../credentials.ts";
import { ARTICLES, type BenchDatabase, createDatabase } from "../database.ts";
import { atMost, type Goal, goalsTable, spread } from "../figures.ts";
import { applyOpenLoad } from "../overload/open-load.ts";
import { heading, list, table } from "../report.ts";
import type { Bench, BenchOptions } from "../rounds.ts";
import { ourCommand, type Program, type RunningServer, startServer } from "../servers.ts";

const { REDIS_URL = "" } = process.env;

const PROGRAM: Program = {
  name: "ours",
  about: `instances of one process on one database, ${REDIS_URL === "" ? "without `REDIS_URL`" : "with `REDIS_URL`"}`,
  base: "",
  // All instances together have at most as many connections as the database.
  command: (database, port) => ourCommand(database, port, { DB_POOL: "3", REDIS_URL }),
};

/** Reads per second at all instances together. */
const READ_RATE = 400;
const READ_CONNECTIONS = 16;
/** Milliseconds between two requests that ask an instance whether it knows of a change. */
const ASK_PAUSE = 20;
const TOPIC = "realtime:bench";

/** Something that all instances must learn. */
type Change = {
  readonly name: string;
  readonly about: string;
  /** The change number `n`, which `commit` makes. */
  prepare(context: Context, n: number): Promise<Prepared>;
};

type Prepared = { commit(): Promise<unknown>; isKnown(instance: Instance): boolean | Promise<boolean> };
type Context = { readonly owner: pg.Client; readonly instances: readonly Instance[] };
type Instance = { readonly server: RunningServer; readonly socket: WebSocket; readonly received: Set<number> };

const statusOf = async ({ server }: Instance, path: string, user = 1): Promise<number> => {
  const headers = { apikey: ANON_KEY, Authorization: bearer(user) };
  const response = await fetch(`${server.address}${path}`, { headers });
  await response.arrayBuffer();
  return response.status;
};

const CHANGES: readonly Change[] = [
  {
    name: "account",
    about: "an account is disabled: its access token, which each instance has accepted before, is refused",
    async prepare({ owner, instances }, n) {
      const user = 1000 + n;
      const path = "/rest/v1/articles?limit=1";
      for (const instance of instances)
        if ((await statusOf(instance, path, user)) !== 200) throw new Error("the token is refused before the change");
      return {
        commit: () => owner.query("update auth_private.accounts set disabled_at = now() where user_id = $1", [user]),
        isKnown: async (instance) => (await statusOf(instance, path, user)) === 401,
      };
    },
  },
  {
    name: "schema",
    about: "a table is created and granted: it can be read",
    prepare: async ({ owner }, n) => ({
      commit: () =>
        owner.query(`begin; create table public.bench_${n} (id int primary key);
          grant select on public.bench_${n} to authenticated; commit`),
      isKnown: async (instance) => (await statusOf(instance, `/rest/v1/bench_${n}`)) === 200,
    }),
  },
  {
    name: "send",
    about: "`realtime.send` in SQL: a channel of the instance receives the broadcast",
    prepare: async ({ owner }, n) => ({
      commit: () => owner.query("select realtime.send($1, 'n', 'bench', false)", [{ n }]),
      isKnown: ({ received }) => received.has(n),
    }),
  },
  {
    name: "broadcast",
    about:
      "a client of the first instance sends a broadcast: a channel of each instance receives it. Needs `REDIS_URL`",
    prepare: async ({ instances: [first] }, n) => ({
      async commit() {
        const payload = { type: "broadcast", event: "n", payload: { n: -n } };
        first!.socket.send(JSON.stringify(["1", "2", TOPIC, "broadcast", payload]));
      },
      isKnown: ({ received }) => received.has(-n),
    }),
  },
];

/** Milliseconds from the commit until the last instance knew of it. */
type Series = { readonly processes: number; readonly change: Change; readonly milliseconds: number[] };

export const SCALE: Bench = {
  name: "scale",
  about: "Measures how soon all instances on a database know of a change, while they are read.",
  cases: CHANGES.map(({ name }) => name),
  defaults: { rounds: "20", connections: "1,2,4,8" },
  async run(options, command) {
    options.progress("creating the database");
    const series: Series[] = [];
    let version = "";
    for (const processes of options.connections) {
      await using database = await createDatabase();
      version = database.version;
      series.push(...(await measure(processes, database, options)));
    }
    return report(series, version, command);
  },
};

async function measure(processes: number, database: BenchDatabase, options: BenchOptions): Promise<readonly Series[]> {
  await using stack = new AsyncDisposableStack();
  const instances: Instance[] = [];
  for (let i = 0; i < processes; i++) instances.push(await join(stack.use(await startServer(PROGRAM, database))));
  stack.defer(() => instances.forEach(({ socket }) => void socket.terminate()));
  const owner = new pg.Client({ connectionString: database.ownerUrl });
  await owner.connect();
  stack.defer(() => owner.end());
  const loads = new AbortController();
  stack.defer(() => loads.abort());
  let fault: Error | null = null;
  for (const { server } of instances)
    applyLoad(server, READ_RATE / processes, loads.signal).catch((error) => {
      fault ??= error;
    });
  const series: Series[] = [];
  for (const change of CHANGES.filter(({ name }) => options.cases?.includes(name) ?? isPossible(name))) {
    const milliseconds: number[] = [];
    for (let n = 1; n <= options.rounds; n++) {
      options.signal.throwIfAborted();
      if (fault !== null) throw fault;
      milliseconds.push(await timeOf(change, { owner, instances }, n));
    }
    options.progress(`${processes} processes, ${change.name}: ${spread(milliseconds, 0)} ms`);
    series.push({ processes, change, milliseconds });
  }
  return series;
}

const isPossible = (name: string) => name !== "broadcast" || REDIS_URL !== "";

/** Milliseconds after which a change counts as lost. */
const GIVE_UP = 60_000;

async function timeOf(change: Change, context: Context, n: number): Promise<number> {
  const { commit, isKnown } = await change.prepare(context, n);
  await commit();
  const start = performance.now();
  const known = context.instances.map(async (instance) => {
    while (!(await isKnown(instance))) {
      if (performance.now() - start > GIVE_UP)
        throw new Error(`an instance does not know of the change ${change.name}`);
      await sleep(ASK_PAUSE);
    }
  });
  await Promise.all(known);
  return performance.now() - start;
}

/** Reads until the signal ends it. */
async function applyLoad({ address }: RunningServer, rate: number, signal: AbortSignal): Promise<void> {
  const headers = { apikey: ANON_KEY, Authorization: bearer() };
  const requests = Array.from({ length: 200 }, (_, i) => {
    const path = `/rest/v1/articles?id=eq.${1 + ((i * 997) % ARTICLES)}`;
    return { method: "GET" as const, path, headers, body: null };
  });
  const load = { address, requests, rate, connections: READ_CONNECTIONS, seconds: 3600 };
  await applyOpenLoad(load, signal).catch((error) => {
    if (!signal.aborted) throw error;
  });
}

/** An instance with a channel that receives broadcasts `{ n }`. */
async function join(server: RunningServer): Promise<Instance> {
  const url = `${server.address.replace("http", "ws")}/realtime/v1/websocket?apikey=${ANON_KEY}&vsn=2.0.0`;
  const socket = new WebSocket(url, { perMessageDeflate: false });
  const received = new Set<number>();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.once("error", reject);
  const config = { broadcast: { self: true } };
  socket.once("open", () => socket.send(JSON.stringify(["1", "1", TOPIC, "phx_join", { config }])));
  socket.on("message", (data: Buffer) => {
    const [, , , event, payload] = JSON.parse(data.toString());
    if (event === "phx_reply") resolve();
    else if (event === "broadcast") received.add(payload.payload.n);
  });
  await promise;
  return { server, socket, received };
}

const MAX_MILLISECONDS = 1000;

function report(series: readonly Series[], version: string, command: string): string {
  const rows = series.map(({ processes, change, milliseconds }) => [
    change.name,
    String(processes),
    String(milliseconds.length),
    spread(milliseconds, 0),
  ]);
  const goals = CHANGES.map(({ name }): Goal => {
    const own = series.filter(({ change }) => change.name === name);
    const values = own.length === 0 ? [] : [Math.max(...own.flatMap(({ milliseconds }) => milliseconds))];
    return { name: `the most milliseconds of ${name}`, aim: atMost(MAX_MILLISECONDS), values };
  });
  return [
    heading("Scale", command, version),
    list([PROGRAM]),
    list(CHANGES),
    `Milliseconds from the commit until the last instance knew of the change: median, least and most. Each instance is asked every ` +
      `${ASK_PAUSE} ms, and meanwhile all together are read ${READ_RATE} times a second.`,
    table(["change", "processes", "times", "milliseconds"], rows),
    goalsTable(goals),
  ].join("\n\n");
}
