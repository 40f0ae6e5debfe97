import { once } from "node:events";
import { parseArgs } from "node:util";
import { type Rig, refuseMissing, startRig } from "./rig.ts";
import { DATABASE } from "./servers.ts";

const HELP = `npm run rig
  Starts on this machine what docs/deployment.md describes, with the demo, and stops it all at Ctrl-C: a primary server of PostgreSQL with
  two standbys, PgBouncer, Valkey or Redis, three instances of the service, one of which has two worker processes, and HAProxy in front
  of them and of the database. It needs the packages haproxy, pgbouncer and redis-server (or valkey-server) of Debian; PostgreSQL is the
  embedded one. Nothing is kept.

  npm run chaos -- rig disturbs such a rig and counts what is lost.
`;

function tableOf({ url, instances, servers, pooler, primary, redis, folder }: Rig): string {
  const rows: [string, string, string][] = [
    ["HAProxy", url, "in front of the instances: use this one"],
    ...instances.map(({ name, url: own, workers }): [string, string, string] => [
      name,
      own,
      workers === 1 ? "one process" : `${workers} worker processes`,
    ]),
    ["PgBouncer", pooler.pooled(servers.primary.url()), "DATABASE_URL: in transaction mode, to the HAProxy below"],
    [
      "HAProxy",
      `postgres://127.0.0.1:${primary.port}/${DATABASE}`,
      "DATABASE_DIRECT_URL: to the server that is the primary",
    ],
    ...servers.all.map((server): [string, string, string] => [
      server.name,
      server.url(),
      server === servers.primary ? "the primary" : "a standby, which follows the primary, and answers reads",
    ]),
    ["Valkey, Redis", redis.url, "REDIS_URL"],
    ["logs", folder, ""],
  ];
  const width = (column: 0 | 1) => Math.max(...rows.map((row) => row[column].length));
  return rows.map(([name, at, what]) => `  ${name.padEnd(width(0))}  ${at.padEnd(width(1))}  ${what}\n`).join("");
}

async function main(): Promise<void> {
  refuseMissing();
  const stopped = Promise.race([once(process, "SIGINT"), once(process, "SIGTERM"), once(process, "SIGHUP")]);
  await using rig = await startRig((text) => process.stdout.write(`starts ${text}\n`));
  process.stdout.write(`\n${tableOf(rig)}\nSign in as ada with the password Correct-Horse-7! Stop it with Ctrl-C.\n`);
  await stopped;
  process.stdout.write("\nstops\n");
}

const { values } = parseArgs({ options: { help: { type: "boolean", default: false } } });
if (values.help) process.stdout.write(HELP);
else await main();
