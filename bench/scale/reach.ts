import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { WebSocket } from "ws";
import { hashOf, newKey } from "../../identity/secrets.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { type BenchDatabase, USERS } from "../database.ts";
import { atMost, type Goal, spread } from "../figures.ts";
import { exactCpuOf } from "../process-usage.ts";
import { list, table } from "../report.ts";
import type { BenchOptions } from "../rounds.ts";
import type { RunningServer } from "../servers.ts";
import { readRows } from "./instances.ts";

/** Reads per second at all instances together. */
const READ_RATE = 400;
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

const headersOf = (credential: string) => ({ apikey: ANON_KEY, Authorization: credential });

const statusOf = async ({ server }: Instance, path: string, credential = bearer()): Promise<number> => {
  const response = await fetch(`${server.address}${path}`, { headers: headersOf(credential) });
  await response.arrayBuffer();
  return response.status;
};

/** Whether the GraphQL schema of an instance has a type. */
async function hasType({ server }: Instance, type: string): Promise<boolean> {
  const headers = { ...headersOf(bearer()), "Content-Type": "application/json" };
  const body = JSON.stringify({ query: `query { __type(name: "${type}") { name } }` });
  const response = await fetch(`${server.address}/graphql`, { method: "POST", headers, body });
  const { data } = (await response.json()) as { readonly data?: { readonly __type: object | null } };
  if (!data) throw new Error("an instance does not answer a GraphQL query");
  return data.__type !== null;
}

/** The GraphQL type of the table number `n`. */
const typeOf = (n: number) => `Bench${n}`;
/** That of the newest table. Every schema has the first value. */
let newest = "Query";

/** A change that creates a table, and how an instance shows that it has the table number `n`. */
const newTable = (
  name: string,
  about: string,
  isKnown: (instance: Instance, n: number) => Promise<boolean>,
): Change => ({
  name,
  about,
  prepare: async ({ owner, instances }, n) => {
    // The GraphQL schema of the change before is built after its table can be read, and after a pause in which the process is calm.
    await Promise.all(instances.map((instance) => until(() => hasType(instance, newest))));
    await Promise.all(instances.map(({ server }) => untilCalm(server)));
    return {
      async commit() {
        await owner.query(`begin; create table public.bench_${n} (id int primary key);
          grant select on public.bench_${n} to authenticated; commit`);
        newest = typeOf(n);
      },
      isKnown: (instance) => isKnown(instance, n),
    };
  },
});

/** A change after which a credential of a user is refused, which each instance has accepted before. */
const refusal = (
  name: string,
  about: string,
  issue: (context: Context, user: number) => Promise<{ readonly credential: string; revoke(): Promise<unknown> }>,
): Change => ({
  name,
  about,
  prepare: async (context, n) => {
    const { credential, revoke } = await issue(context, 1000 + (n % (USERS - 1000)));
    const ask = (instance: Instance) => statusOf(instance, "/rest/v1/articles?limit=1", credential);
    for (const instance of context.instances)
      if ((await ask(instance)) !== 200) throw new Error("the credential is refused before the change");
    return { commit: revoke, isKnown: async (instance) => (await ask(instance)) === 401 };
  },
});

const CHANGES: readonly Change[] = [
  refusal(
    "account",
    "an account is disabled: its access token, which each instance has accepted before, is refused",
    async ({ owner }, user) => ({
      credential: bearer(user),
      revoke: () => owner.query("update auth_private.accounts set disabled_at = now() where user_id = $1", [user]),
    }),
  ),
  refusal("key", "a key of a user is revoked, which each instance has accepted before", async ({ owner }, user) => {
    const { key, prefix } = newKey("user");
    const hash = hashOf(key);
    await owner.query(
      "insert into auth_private.api_keys (kind, user_id, name, prefix, key_hash) values ('user', $1, 'bench', $2, $3)",
      [user, prefix, hash],
    );
    return {
      credential: `Bearer ${key}`,
      revoke: () => owner.query("update auth_private.api_keys set revoked_at = now() where key_hash = $1", [hash]),
    };
  }),
  newTable("schema", "a table is created and granted: `/rest/v1` reads it", async (instance, n) => {
    return (await statusOf(instance, `/rest/v1/bench_${n}`)) === 200;
  }),
  newTable("graphql", "a table is created and granted: the GraphQL schema has it", (instance, n) =>
    hasType(instance, typeOf(n)),
  ),
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
      "a client of the first instance sends a broadcast: a channel of each instance receives it. Needs Valkey or Redis",
    prepare: async ({ instances: [first] }, n) => ({
      async commit() {
        const payload = { type: "broadcast", event: "n", payload: { n: -n } };
        first!.socket.send(JSON.stringify(["1", "2", TOPIC, "broadcast", payload]));
      },
      isKnown: ({ received }) => received.has(-n),
    }),
  },
];

export const REACH_CASES = CHANGES.map(({ name }) => name);

/** Milliseconds from the commit until the last instance knew of it. */
export type Series = { readonly processes: number; readonly change: Change; readonly milliseconds: number[] };

let lastNumber = 0;

/** Makes the changes one after the other, each as often as there are rounds, while the instances are read. */
export async function measureReach(
  servers: readonly RunningServer[],
  database: BenchDatabase,
  hasRedis: boolean,
  options: BenchOptions,
): Promise<readonly Series[]> {
  const isWanted = ({ name }: Change) => (options.cases?.includes(name) ?? true) && (name !== "broadcast" || hasRedis);
  const wanted = CHANGES.filter(isWanted);
  if (wanted.length === 0) return [];
  await using stack = new AsyncDisposableStack();
  const instances: Instance[] = [];
  stack.defer(() => instances.forEach(({ socket }) => void socket.terminate()));
  for (const server of servers) instances.push(await join(server));
  // A process builds its first GraphQL schema after its start, which on a busy machine keeps it from everything else for seconds.
  await Promise.all(instances.map((instance) => until(() => hasType(instance, newest))));
  const owner = new pg.Client({ connectionString: database.ownerUrl });
  await owner.connect();
  stack.defer(() => owner.end());
  const loads = new AbortController();
  stack.defer(() => loads.abort());
  const load = { rate: READ_RATE / servers.length, seconds: 3600, settleSeconds: 0 };
  let fault: Error | null = null;
  for (const server of servers)
    readRows(server, load, loads.signal).catch((error) => {
      if (!loads.signal.aborted) fault ??= error;
    });
  const series: Series[] = [];
  for (const change of wanted) {
    const milliseconds: number[] = [];
    for (let n = 1; n <= options.rounds; n++) {
      options.signal.throwIfAborted();
      if (fault !== null) throw fault;
      milliseconds.push(await timeOf(change, { owner, instances }, ++lastNumber));
    }
    options.progress(`${servers.length} processes, ${change.name}: ${spread(milliseconds, 0)} ms`);
    series.push({ processes: servers.length, change, milliseconds });
  }
  return series;
}

/** A process is calm when it has used less than this share of a core for so many milliseconds. */
const CALM = 0.4;
const CALM_MILLISECONDS = 250;

async function untilCalm({ pid }: RunningServer): Promise<void> {
  for (let used = Number.POSITIVE_INFINITY; used > CALM; ) {
    const [before, start] = [exactCpuOf(pid), performance.now()];
    await sleep(CALM_MILLISECONDS);
    used = (exactCpuOf(pid) - before) / 1000 / (performance.now() - start);
  }
}

/** Milliseconds after which a change counts as lost. */
const GIVE_UP = 60_000;

async function timeOf(change: Change, context: Context, n: number): Promise<number> {
  const { commit, isKnown } = await change.prepare(context, n);
  await commit();
  const start = performance.now();
  await Promise.all(context.instances.map((instance) => until(() => isKnown(instance))));
  return performance.now() - start;
}

async function until(isKnown: () => boolean | Promise<boolean>): Promise<void> {
  for (const start = performance.now(); !(await isKnown()); await sleep(ASK_PAUSE))
    if (performance.now() - start > GIVE_UP) throw new Error("an instance does not know of a change");
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

export function reachGoals(series: readonly Series[]): Goal[] {
  return CHANGES.map(({ name }): Goal => {
    const own = series.filter(({ change }) => change.name === name);
    const values = own.length === 0 ? [] : [Math.max(...own.flatMap(({ milliseconds }) => milliseconds))];
    return { name: `the most milliseconds until all know of ${name}`, aim: atMost(MAX_MILLISECONDS), values };
  });
}

export function reachReport(series: readonly Series[]): readonly string[] {
  if (series.length === 0) return [];
  const rows = series.map(({ processes, change, milliseconds }) => [
    change.name,
    String(processes),
    String(milliseconds.length),
    spread(milliseconds, 0),
  ]);
  return [
    "### What all instances must learn",
    list(CHANGES),
    `Milliseconds from the commit until the last instance knew of the change: median, least and most. Each instance is asked every ` +
      `${ASK_PAUSE} ms, and meanwhile all together are read ${READ_RATE} times a second.`,
    table(["change", "processes", "times", "milliseconds"], rows),
  ];
}
