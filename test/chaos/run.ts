import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { type Cluster, findFreePort, startCluster } from "../../db/cluster/embedded.ts";
import { type Action, runChaos } from "./chaos.ts";
import { runRig } from "./rig/run.ts";

const HELP = `npm run chaos -- [options]
  Kills the service, its connections and the database while writers write and subscribers read, and compares what arrived
  with an audit table. Exits with 1 if something was lost or out of order. What a channel received within 100 ms and a round trip
  before its connection was lost may arrive twice; oldestDuplicate is the longest such time, in milliseconds.

  --kills N         number of disturbances, default 100
  --rows N          rows that are written before each of them, default 50
  --writers N       number of writers, default 4
  --pause MS        pause between the transactions of a writer, default 50
  --subscribers N   subscribers of each kind (streams of a table, GraphQL over SSE, channels), default 3
  --help            show this help

npm run chaos -- rig disturbs several instances with all that they need; npm run chaos -- rig --help says how.
`;

const ACTIONS: readonly Action[] = ["sockets", "service", "replication", "database"];

const [first, ...rest] = process.argv.slice(2);
const { values } = parseArgs({
  args: first === "rig" ? [] : process.argv.slice(2),
  options: {
    kills: { type: "string", default: "100" },
    rows: { type: "string", default: "50" },
    writers: { type: "string", default: "4" },
    pause: { type: "string", default: "50" },
    subscribers: { type: "string", default: "3" },
    help: { type: "boolean", default: false },
  },
});

/** A server with an empty database, which can be restarted. */
async function startDatabase() {
  const folder = await mkdtemp(join(tmpdir(), "content-chaos-"));
  // PostgreSQL may run as a separate user, which must be able to enter the folder.
  await chmod(folder, 0o711);
  const options = { dataDir: join(folder, "postgres"), password: "chaos", port: await findFreePort() };
  let cluster: Cluster = await startCluster(options);
  const client = new pg.Client({ connectionString: cluster.url("postgres") });
  await client.connect();
  await client.query("create database content");
  await client.end();
  return {
    url: () => cluster.url("content"),
    async restart() {
      await cluster.stop();
      cluster = await startCluster(options);
    },
    async [Symbol.asyncDispose]() {
      await cluster.stop();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function main(): Promise<void> {
  await using database = await startDatabase();
  const actions = Array.from({ length: Number(values.kills) }, (_, i): Action => ACTIONS[i % ACTIONS.length]!);
  const report = await runChaos({
    url: database.url,
    restartDatabase: database.restart,
    actions,
    kinds: ["table", "graphql", "channel"],
    rows: Number(values.rows),
    writers: Number(values.writers),
    pause: Number(values.pause),
    subscribers: Number(values.subscribers),
    onAction: (action, number) => process.stdout.write(`${number}/${actions.length} ${action}\n`),
  });
  console.table(report.subscribers);
  const isGood =
    report.isOneOrder && report.subscribers.every(({ lost, outOfOrder, gaps }) => lost + outOfOrder + gaps === 0);
  process.stdout.write(`${report.written} rows written; ${isGood ? "nothing lost, one order" : "FAILED"}\n`);
  process.exitCode = isGood ? 0 : 1;
}

if (first === "rig") await runRig(rest);
else if (values.help) process.stdout.write(HELP);
else await main();
