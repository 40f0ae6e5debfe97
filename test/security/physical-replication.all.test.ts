import { appendFile, chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Cluster, startCluster } from "../../db/cluster/embedded.ts";

/** What initdb writes, and what data directories of earlier versions contain. */
const INITDB_RULES = `# Allow replication connections from localhost, by a user with the
# replication privilege.
local   replication     all                                     scram-sha-256
host    replication     all             127.0.0.1/32            scram-sha-256
host    replication     all             ::1/128                 scram-sha-256
`;
/** The rule of an operator who has a standby. */
const STANDBY_RULE = "host replication standby 127.0.0.1/32 scram-sha-256\n";

let folder: string;
let dataDir: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content-service-replication-"));
  // mkdtemp creates it with 0700, but the server's system user must be able to enter it.
  await chmod(folder, 0o711);
  dataDir = join(folder, "postgres");
  const cluster = await start();
  await run(cluster.url("postgres"), "create role feed login replication password 'feed'");
  await run(cluster.url("postgres"), "create role standby login replication password 'standby'");
  await cluster.stop();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const start = () => startCluster({ dataDir, password: "scratch", durable: false });

async function started(): Promise<Cluster> {
  const cluster = await start();
  onTestFinished(() => cluster.stop());
  return cluster;
}

async function run(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

/** A command of the replication protocol: `true` copies the cluster, `database` decodes the changes of one database. */
function replicate(cluster: Cluster, login: string, replication: "true" | "database"): Promise<unknown[]> {
  const url = new URL(cluster.url("postgres"));
  [url.username, url.password] = [login, login];
  url.searchParams.set("replication", replication);
  return run(url.href, "IDENTIFY_SYSTEM");
}

const REFUSED = { code: "28000", message: expect.stringContaining("no pg_hba.conf entry for replication connection") };

describe.each(["a new cluster", "a cluster of an earlier version"])("%s", (kind) => {
  beforeAll(async () => {
    if (kind !== "a new cluster") await appendFile(join(dataDir, "pg_hba.conf"), INITDB_RULES);
  });

  test("refuses to be copied by a login with the attribute replication", async () => {
    const cluster = await started();
    await expect(replicate(cluster, "feed", "true")).rejects.toMatchObject(REFUSED);
    expect(await readFile(join(dataDir, "pg_hba.conf"), "utf8")).not.toMatch(/^\s*(host|local)\s+replication/m);
  });

  test("lets that login decode the changes of a database", async () => {
    expect(await replicate(await started(), "feed", "database")).toMatchObject([{ dbname: "postgres" }]);
  });
});

test("the rule of an operator for a standby stays", async () => {
  await appendFile(join(dataDir, "pg_hba.conf"), STANDBY_RULE + INITDB_RULES);
  const cluster = await started();
  expect(await replicate(cluster, "standby", "true")).toMatchObject([{ dbname: null }]);
  await expect(replicate(cluster, "feed", "true")).rejects.toMatchObject(REFUSED);
});
