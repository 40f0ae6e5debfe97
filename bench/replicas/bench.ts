import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import {
  allowReplication,
  startReplica,
  type TestReplica,
  whileDisturbed,
} from "../../test/support/streaming-replica.ts";
import { ANON_KEY, bearer } from "../credentials.ts";
import { type BenchDatabase, createDatabase } from "../database.ts";
import { atMost, goalsTable } from "../figures.ts";
import { openRedis } from "../redis.ts";
import { heading, list, table } from "../report.ts";
import type { Bench, BenchOptions } from "../rounds.ts";
import { ourCommand, type RunningServer, startServer } from "../servers.ts";

const INSTANCES = 3;
const REPLICAS = 2;
/** Pairs in a round. */
const PAIRS = 100;
/** Milliseconds for which each replica in turn stops to replay. */
const LAG = 30;
/** Milliseconds until the instances trust a new Redis: replicaSticky and a little. */
const SETTLING = 6000;
const NAME = "bench";

const TABLE = `
  create table public.pairs (id int primary key, value int not null);
  insert into public.pairs select n, 0 from generate_series(0, 1000) as n;
  grant select, update on public.pairs to authenticated;`;

/** How the reader of a pair says what it must see. */
type Case = { readonly name: string; readonly about: string; read(pair: Pair): Promise<number> };
type Pair = { readonly id: number; readonly user: number; readonly reader: string; readonly position: string };

const CASES: readonly Case[] = [
  {
    name: "position",
    about: "another user reads the row at another instance, with the `Change-Position` of the write",
    read: ({ id, user, reader, position }) =>
      readTable(reader, id, { ...headersOf(user + 1), "Change-Position": position }),
  },
  {
    name: "graphql",
    about: "the same with a GraphQL query of a page and its `totalCount`, with the position in `extensions`",
    read: ({ id, user, reader, position }) => readGraphQL(reader, id, user + 1, position),
  },
  {
    name: "caller",
    about: "the same user reads the row at another instance, without a position. Needs Valkey or Redis",
    read: ({ id, user, reader }) => readTable(reader, id, headersOf(user)),
  },
];

const headersOf = (user: number) => ({
  apikey: ANON_KEY,
  Authorization: bearerOf(user),
  "Content-Type": "application/json",
});
const bearers = new Map<number, string>();
function bearerOf(user: number): string {
  const known = bearers.get(user) ?? bearer(user);
  bearers.set(user, known);
  return known;
}

/** Milliseconds after which a request is repeated that the service had no capacity for, and no connection to the database. */
const RETRY = 50;
const NO_CAPACITY: readonly number[] = [503, 504];

async function answerOf(url: string, options: RequestInit): Promise<{ json: any; position: string }> {
  const response = await fetch(url, options);
  const text = await response.text();
  if (NO_CAPACITY.includes(response.status)) return sleep(RETRY).then(() => answerOf(url, options));
  if (!response.ok) throw new Error(`${response.status} ${text}`);
  return { json: text && JSON.parse(text), position: response.headers.get("change-position") ?? "" };
}

async function readTable(address: string, id: number, headers: Record<string, string>): Promise<number> {
  return (await answerOf(`${address}/rest/v1/pairs?id=eq.${id}`, { headers })).json[0].value;
}

async function readGraphQL(address: string, id: number, user: number, changePosition: string): Promise<number> {
  const query = `{ pairs(filter: { id: { equalTo: ${id} } }) { totalCount edges { node { value } } } }`;
  const body = JSON.stringify({ query, extensions: { changePosition } });
  const { json } = await answerOf(`${address}/graphql`, { method: "POST", headers: headersOf(user), body });
  if (json.errors?.[0].message.endsWith("try again"))
    return sleep(RETRY).then(() => readGraphQL(address, id, user, changePosition));
  return json.data.pairs.edges[0].node.value;
}

type Outcome = {
  readonly benchCase: Case;
  readonly pairs: number;
  readonly stale: number;
  readonly answered: number;
  readonly fallbacks: string;
  readonly seconds: number;
};

export const REPLICAS_BENCH: Bench = {
  name: "replicas",
  about:
    "Writes at one instance and reads at another, while replicas stop and go on to replay: counts stale reads. A round has 100 pairs. " +
    "Starts Valkey or Redis if REDIS_URL is not set.",
  cases: CASES.map(({ name }) => name),
  defaults: { rounds: "1000", connections: "32" },
  async run(options, command) {
    options.progress("creating the database, its replicas and the instances");
    await using stack = new AsyncDisposableStack();
    const redis = await openRedis();
    if (redis) stack.use(redis);
    const database = stack.use(await createDatabase(TABLE));
    const replicas = await startReplicas(database, stack);
    const urls = replicas.map(({ url }) => url).join();
    const settings = { METRICS: "on", DB_POOL: "4", DATABASE_REPLICA_URLS: urls, REDIS_URL: redis?.url ?? "" };
    const instances: RunningServer[] = [];
    for (let i = 0; i < INSTANCES; i++) {
      const command = (_: unknown, port: number) => ourCommand(database, port, settings);
      instances.push(stack.use(await startServer({ name: "ours", about: "", base: "", command }, database)));
    }
    for (const { address } of instances) await readGraphQL(address, 1, 1, "none-0-0").catch(() => {});
    await sleep(SETTLING);
    const outcomes: Outcome[] = [];
    const cases = CASES.filter(({ name }) => options.cases?.includes(name) ?? (name !== "caller" || redis !== null));
    for (const benchCase of cases) {
      const pairs = Math.ceil((options.rounds * PAIRS) / cases.length);
      const run = () => runPairs(benchCase, pairs, instances, options);
      outcomes.push(await whileDisturbed(replicas, run, LAG));
    }
    return report(outcomes, options.connections[0]!, database.version, command);
  },
};

async function startReplicas(database: BenchDatabase, stack: AsyncDisposableStack): Promise<TestReplica[]> {
  const owner = new pg.Client({ connectionString: database.ownerUrl });
  await owner.connect();
  stack.defer(() => owner.end());
  await allowReplication(database.cluster, owner);
  const replicas: TestReplica[] = [];
  for (let i = 0; i < REPLICAS; i++) {
    const replica = await startReplica(database.cluster, owner, NAME, i);
    stack.defer(() => replica.remove());
    replicas.push(replica);
  }
  return replicas;
}

async function runPairs(
  benchCase: Case,
  pairs: number,
  instances: readonly RunningServer[],
  { connections: [clients = 32], signal, progress }: BenchOptions,
): Promise<Outcome> {
  const before = await countsOf(instances);
  const start = performance.now();
  let next = 0;
  let stale = 0;
  const client = async (id: number) => {
    const user = 10 + 2 * id;
    for (let n = next++; n < pairs; n = next++) {
      signal.throwIfAborted();
      if (n % 1000 === 0) progress(`${benchCase.name}: ${n} of ${pairs} pairs, ${stale} stale`);
      const [writer, reader] = [instances[n % INSTANCES]!, instances[(n + 1 + (n % 2)) % INSTANCES]!];
      const { position } = await answerOf(`${writer.address}/rest/v1/pairs?id=eq.${id}`, {
        method: "PATCH",
        headers: headersOf(user),
        body: JSON.stringify({ value: n }),
      });
      if ((await benchCase.read({ id, user, reader: reader.address, position })) !== n) stale++;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, id) => client(id)));
  const after = await countsOf(instances);
  const fallbacks = [...after.fallbacks].map(
    ([reason, count]) => [reason, count - before.fallbacks.get(reason)!] as const,
  );
  return {
    ...{ benchCase, pairs, stale, answered: after.answered - before.answered },
    seconds: (performance.now() - start) / 1000,
    fallbacks: fallbacks.flatMap(([reason, count]) => (count === 0 ? [] : [`${reason} ${count}`])).join(", ") || "none",
  };
}

/** The reads that replicas have answered, and those that the primary has answered in their place, by reason. */
async function countsOf(instances: readonly RunningServer[]) {
  let answered = 0;
  const fallbacks = new Map<string, number>();
  for (const { address } of instances) {
    const text = await (await fetch(`${address}/metrics`)).text();
    for (const [, value] of text.matchAll(/^content_service_db_replica_reads_total\{[^}]*\} (\S+)$/gm))
      answered += Number(value);
    for (const [, reason, value] of text.matchAll(
      /^content_service_db_replica_fallbacks_total\{reason="(\w+)"\} (\S+)$/gm,
    ))
      fallbacks.set(reason!, (fallbacks.get(reason!) ?? 0) + Number(value));
  }
  return { answered, fallbacks };
}

function report(outcomes: readonly Outcome[], clients: number, version: string, command: string): string {
  const rows = outcomes.map(({ benchCase, pairs, stale, answered, fallbacks, seconds }) => [
    ...[benchCase.name, String(pairs), String(stale), `${Math.round((100 * answered) / pairs)} %`, fallbacks],
    String(Math.round(pairs / seconds)),
  ]);
  const stale = outcomes.reduce((sum, each) => sum + each.stale, 0);
  return [
    heading("Reads on replicas", command, version),
    `${INSTANCES} instances, ${REPLICAS} replicas, ${clients} clients. Each replica in turn stops to replay for ${LAG} ms, all the time. A client changes a row at one ` +
      "instance, and then the row is read at another: a read that returns an older value is stale.",
    list(outcomes.map(({ benchCase }) => benchCase)),
    table(["case", "pairs", "stale", "answered by replicas", "by the primary instead", "pairs per second"], rows),
    goalsTable([{ name: "stale reads", aim: atMost(0), values: [stale] }]),
  ].join("\n\n");
}
