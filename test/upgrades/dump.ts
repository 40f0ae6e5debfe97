import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { startScratchCluster } from "../../cli/scratch-cluster.ts";
import { withClient } from "../../db/cluster/client.ts";

const HELP = `node test/upgrades/dump.ts

Writes test/upgrades/<version>.sql.gz: the database of this version with the demo and rows in its modules. Run it when you release a version,
with PostgreSQL 15 of Debian: apt-get install postgresql-15. test/upgrades/upgrade.test.ts upgrades the database of each released version.
`;

const BINARIES = "/usr/lib/postgresql/15/bin";
const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
const ADA = { username: "ada", password: "Correct-Horse-7!" };

const run = promisify(execFile);

async function dump(file: string): Promise<void> {
  const cluster = await startScratchCluster(BINARIES);
  try {
    await withClient(cluster.url("postgres"), (owner) => owner.query("create database content"));
    const url = cluster.url("content");
    await serve(url, addRows);
    await withClient(url, (owner) => owner.query(`select tasks.run('digest', '{}')`));
    const options = { maxBuffer: 64 * 1024 * 1024 };
    const { stdout } = await run(join(BINARIES, "pg_dump"), ["--inserts", "--restrict-key=none", url], options);
    await writeFile(file, gzipSync(stdout, { level: 9 }));
  } finally {
    await cluster.remove();
  }
}

/** Runs the service with the demo while `work` uses it. */
async function serve(databaseUrl: string, work: (url: string) => Promise<void>): Promise<void> {
  const service = spawn(process.execPath, ["cli/content-service.ts", "start", "demo"], {
    cwd: PROJECT,
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: databaseUrl,
      JWT_SECRET: "a secret of the released versions, which signs no other tokens",
      PORT: "0",
      SEED: "demo",
      API_KEY_REQUIRED: "off",
    },
  });
  const ended = once(service, "exit");
  let output = "";
  service.stdout!.setEncoding("utf8").on("data", (text) => {
    output += text;
  });
  while (!output.includes("/health")) {
    if (service.exitCode !== null) throw new Error(output);
    await Promise.race([ended, once(service.stdout!, "data")]);
  }
  try {
    await work(/(http\S+)\/health/.exec(output)![1]!);
  } finally {
    service.kill("SIGTERM");
    await ended;
  }
}

/** What only requests make: a session, a key, security events. */
async function addRows(url: string): Promise<void> {
  const post = async (path: string, body: object, headers = {}) => {
    const init = { method: "POST", headers: { "content-type": "application/json", ...headers } };
    const response = await fetch(url + path, { ...init, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as { readonly accessToken: string };
  };
  const { accessToken } = await post("/auth/login", ADA);
  await post("/auth/keys", { name: "a key" }, { authorization: `Bearer ${accessToken}` });
}

const { version } = createRequire(import.meta.url)("../../package.json");
if (process.argv.length > 2) process.stdout.write(HELP);
else if (!existsSync(BINARIES)) {
  process.stderr.write(`PostgreSQL 15 is missing in ${BINARIES}: apt-get install postgresql-15\n`);
  process.exitCode = 1;
} else await dump(join(import.meta.dirname, `${version}.sql.gz`));
