import { createWriteStream, type WriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type pg from "pg";
import { withClient } from "../../db/cluster/client.ts";
import { type Cluster, findFreePort, startCluster } from "../../db/cluster/embedded.ts";
import { makeTemplate } from "../support/cluster.ts";
import { kill, processesBelow } from "../support/processes.ts";
import { Relay } from "../support/relay.ts";
import { allowReplication, copyData } from "../support/streaming-replica.ts";
import { until } from "../support/until.ts";

export const DATABASE = "content";

const COUNT = 3;

/** A database server, which is the primary or a standby. */
export class Server implements AsyncDisposable {
  readonly name: string;
  readonly dataDir: string;
  readonly port: number;
  /** The network through which instances read from it. */
  readonly reads: Relay;
  readonly #log: WriteStream;
  #cluster: Cluster | null = null;

  constructor(name: string, dataDir: string, port: number, reads: Relay) {
    this.name = name;
    this.dataDir = dataDir;
    this.port = port;
    this.reads = reads;
    this.#log = createWriteStream(`${dataDir}.log`).on("error", () => {});
  }

  url(database = DATABASE): string {
    return `postgres://postgres:scratch@127.0.0.1:${this.port}/${database}`;
  }

  async query(text: string, database = DATABASE): Promise<any[]> {
    try {
      return await withClient(this.url(database), async (owner) => (await owner.query(text)).rows);
    } catch (error) {
      // A standby cancels whatever conflicts with what it replays.
      if ((error as { code?: string }).code === "40001") return this.query(text, database);
      throw error;
    }
  }

  async start(): Promise<void> {
    const { dataDir, port } = this;
    const onLog = (line: string) => this.#log.write(`${line}\n`);
    this.#cluster = await startCluster({ dataDir, port, password: "scratch", durable: false, onLog });
  }

  /** Fast shutdown. */
  async stop(): Promise<void> {
    await this.#cluster?.stop();
  }

  async kill(): Promise<void> {
    const { pid, ended } = this.#cluster!;
    const all = [pid, ...processesBelow(pid)];
    for (const each of all) kill(each, "SIGKILL");
    await ended;
    await this.stop();
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    const { pid } = this.#cluster!;
    for (const each of [pid, ...processesBelow(pid)]) kill(each, name);
  }

  receivedPosition = async (): Promise<bigint> => {
    const [row] = await this.query(
      "select greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'::pg_lsn as bytes",
    );
    return BigInt(row.bytes);
  };

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.reads[Symbol.asyncDispose]();
    // The last lines of a server may come after its end.
    this.#log.destroy();
  }
}

/** A primary and its standbys. Each commit waits until one standby has it, so that a promotion loses none. */
export class Servers implements AsyncDisposable {
  readonly all: readonly Server[];
  /** The network through which the standbys follow the primary. */
  readonly replication: Relay;
  primary: Server;

  private constructor(all: readonly Server[], replication: Relay) {
    this.all = all;
    this.replication = replication;
    this.primary = all[0]!;
  }

  get standbys(): readonly Server[] {
    return this.all.filter((server) => server !== this.primary);
  }

  /** With the demo in the database. PostgreSQL's user must be able to enter the folder. */
  static async start(folder: string): Promise<Servers> {
    const all: Server[] = [];
    for (let number = 1; number <= COUNT; number++) {
      const port = await findFreePort();
      const reads = await Relay.open(`tcp://127.0.0.1:${port}`);
      all.push(new Server(`server_${number}`, join(folder, `server_${number}`), port, reads));
    }
    const servers = new Servers(all, await Relay.open(`tcp://127.0.0.1:${all[0]!.port}`));
    try {
      await servers.#start();
    } catch (error) {
      await servers[Symbol.asyncDispose]();
      throw error;
    }
    return servers;
  }

  async #start(): Promise<void> {
    const { primary } = this;
    await primary.start();
    await makeTemplate(primary.url("postgres"), primary.url());
    await withClient(primary.url(), async (owner) => {
      await allowReplication(primary, owner);
      // The settings of a scratch cluster are on the command line, which this overrides.
      await owner.query(`alter database ${DATABASE} set synchronous_commit = 'on'`);
      for (const setting of SETTINGS) await owner.query(`alter system set ${setting}`);
      // The copies have it too, for when they are the primary. Here it takes effect below: no standby could confirm a commit before.
      const names = this.all.map(({ name }) => name).join(", ");
      await owner.query(`alter system set synchronous_standby_names = 'ANY 1 (${names})'`);
      for (const standby of this.standbys) await this.#copyTo(standby, owner);
      await owner.query("select pg_reload_conf()");
    });
    await this.areFollowing();
  }

  /** Waits until all standbys follow the primary, and have what it has now. */
  async areFollowing(): Promise<void> {
    const FOLLOWING = `select count(*)::int as count from pg_stat_replication
      where state = 'streaming' and application_name like 'server\\_%'`;
    const areAll = async () => (await this.primary.query(FOLLOWING).catch(() => []))[0]?.count === this.standbys.length;
    await until(areAll, () => "the standbys follow the primary");
    const [{ bytes }] = await this.primary.query("select pg_current_wal_lsn() - '0/0'::pg_lsn as bytes");
    const isBehind = async (standby: Server) => (await standby.receivedPosition().catch(() => -1n)) < BigInt(bytes);
    for (const standby of this.standbys)
      await until(
        async () => !(await isBehind(standby)),
        () => `${standby.name} has what the primary has`,
      );
  }

  /** Kills the primary, and makes that standby the primary which has most. The previous primary becomes a copy of it. */
  async promote(): Promise<void> {
    const previous = this.primary;
    await previous.kill();
    this.replication.target = null;
    this.replication.cut();
    const found = await Promise.all(
      this.standbys.map(async (server) => ({ server, position: await server.receivedPosition() })),
    );
    const { server } = found.reduce((most, each) => (each.position > most.position ? each : most));
    await server.query("select pg_promote()");
    this.primary = server;
    this.replication.target = `tcp://127.0.0.1:${server.port}`;
    await rm(previous.dataDir, { recursive: true, force: true });
    await withClient(server.url(), (owner) => this.#copyTo(previous, owner));
    await this.areFollowing();
  }

  /** Starts a server again that was stopped or killed. What is left of its processes may take a moment to end. */
  async restart(server: Server): Promise<void> {
    let reason = "";
    const isStarted = () =>
      server.start().then(
        () => true,
        (error: Error) => {
          reason = error.message;
          return false;
        },
      );
    await until(isStarted, () => `${server.name} starts: ${reason}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((server) => server[Symbol.asyncDispose]()));
    await this.replication[Symbol.asyncDispose]();
  }

  /** `owner` is connected to the primary. */
  async #copyTo(standby: Server, owner: pg.ClientBase): Promise<void> {
    const way = `host=127.0.0.1 port=${this.replication.port} user=postgres password=scratch`;
    const settings = `primary_conninfo = '${way} application_name=${standby.name}'\n`;
    await copyData(this.primary.dataDir, owner, standby.dataDir, settings);
    await standby.start();
  }
}

const SETTINGS = [
  "wal_keep_size = '1GB'",
  "max_standby_streaming_delay = '100ms'",
  "wal_retrieve_retry_interval = '100ms'",
];
