import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { type Cluster, startCluster } from "./embedded.ts";
import { type MigrationLog, migrate } from "./migrate.ts";
import { type Logins, provisionLogins } from "./provision.ts";
import { keepSecret } from "./secrets.ts";

export type OpenOptions = {
  /** The owner's login on a server of one's own; "" starts the embedded one. */
  readonly databaseUrl: string;
  /** The same without a pooler in between; "" when there is none. */
  readonly databaseDirectUrl: string;
  readonly dataDir: string;
  /** Passwords of the login roles are derived from it. */
  readonly secret: string;
  readonly migrate: boolean;
  readonly seed: "demo" | "none";
  readonly log: MigrationLog;
};

/** A database that is ready to be served. */
export type OpenedDatabase = {
  readonly logins: Logins;
  /** A connection string for LISTEN. */
  readonly listenUrl: string;
  /** The embedded server; null on a server of one's own. */
  readonly cluster: Cluster | null;
};

const DATABASE = "content";
const SEED = new URL("../seed.sql", import.meta.url);

/** Starts the embedded server where there is no other, then migrates, provisions and seeds what needs it. */
export async function openDatabase(options: OpenOptions): Promise<OpenedDatabase> {
  const cluster = options.databaseUrl === "" ? await startEmbedded(options) : null;
  try {
    const url = cluster?.url(DATABASE) ?? options.databaseUrl;
    return { ...(await prepare(url, options)), cluster };
  } catch (error) {
    await cluster?.stop();
    throw error;
  }
}

async function prepare(url: string, options: OpenOptions): Promise<Omit<OpenedDatabase, "cluster">> {
  const directUrl = options.databaseDirectUrl || url;
  if (!options.migrate) return { logins: { data: url, service: url, auth: url }, listenUrl: directUrl };

  await migrate(directUrl, options.log);
  const logins = await provisionLogins(directUrl, url, options.secret);
  if (options.seed === "demo") await withClient(directUrl, async (client) => client.query(await readFile(SEED, "utf8")));
  return { logins, listenUrl: withLogin(directUrl, logins.data) };
}

async function startEmbedded({ dataDir, log }: OpenOptions): Promise<Cluster> {
  const cluster = await startCluster({
    dataDir: join(dataDir, "postgres"),
    password: await keepSecret(join(dataDir, "postgres-password")),
    onLog: (line) => log("debug", line),
  });
  await withClient(cluster.url("postgres"), async (client) => {
    const { rowCount } = await client.query("select from pg_database where datname = $1", [DATABASE]);
    if (rowCount === 0) await client.query(`create database ${DATABASE}`);
  });
  return cluster;
}

async function withClient(connectionString: string, callback: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await callback(client);
  } finally {
    await client.end();
  }
}

/** The address of the first, the name and password of the second. */
function withLogin(address: string, login: string): string {
  const url = new URL(address);
  const { username, password } = new URL(login);
  url.username = username;
  url.password = password;
  return url.href;
}
