import pg from "pg";
import { atHost, hostsOf } from "../../config/postgres-url.ts";

/** How long a server may take to connect, and then to say whether it is the primary. */
const ANSWER_MILLISECONDS = 3000;

/** Servers of which one is the primary. */
class Hosts {
  readonly #all: readonly string[];
  /** The one that last was the primary. */
  current: string;
  #isKnown = false;
  #search: Promise<void> | null = null;

  constructor(all: readonly string[]) {
    this.#all = all;
    this.current = all[0]!;
  }

  /** Finds the primary, if it is not known. Rejects with what each host answers if none is one. */
  find(url: string): Promise<void> {
    if (this.#isKnown) return Promise.resolve();
    this.#search ??= this.#ask(url).finally(() => {
      this.#search = null;
    });
    return this.#search;
  }

  /** The current host does not accept connections, or is a standby: looks for the primary. */
  lose(url: string): void {
    this.#isKnown = false;
    this.find(url).catch(() => {});
  }

  async #ask(url: string): Promise<void> {
    const answers = this.#all.map(async (host) => {
      await refuseStandby(atHost(url, host)).catch((error: Error) => {
        throw new Error(`${host}: ${error.message}`, { cause: error });
      });
      return host;
    });
    this.current = await Promise.any(answers).catch(({ errors }: AggregateError) => {
      throw new Error(
        `no server is the primary and accepts connections: ${errors.map(({ message }) => message).join("; ")}`,
      );
    });
    this.#isKnown = true;
  }
}

async function refuseStandby(url: string): Promise<void> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: ANSWER_MILLISECONDS,
    query_timeout: ANSWER_MILLISECONDS,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query("select pg_is_in_recovery() as standby");
    if (rows[0].standby) throw new Error(STANDBY);
  } finally {
    client.end().catch(() => {});
  }
}

const STANDBY = "the server is a standby";

/** By their names: all connections to the same servers know the same primary. */
const known = new Map<string, Hosts>();

function groupOf(url: string): Hosts | null {
  const all = hostsOf(url);
  if (all === null) return null;
  const hosts = known.get(all.join()) ?? new Hosts(all);
  known.set(all.join(), hosts);
  return hosts;
}

/** `url` with the host that is the primary, as far as is known. */
export function atPrimary(url: string): string {
  const hosts = groupOf(url);
  return hosts === null ? url : atHost(url, hosts.current);
}

/** Finds the primary among the hosts of a URL, if it has several. Rejects with what each host answers if none is one. */
export const findPrimary = async (url: string): Promise<void> => groupOf(url)?.find(url);

/** Connects to the primary among the hosts of its URL. When that fails, the next client connects to the one that is found then. */
export class PrimaryClient extends pg.Client {
  readonly #url: string;
  readonly #hosts: Hosts | null;

  constructor(config: pg.ClientConfig = {}) {
    const { connectionString } = config;
    super(connectionString === undefined ? config : { ...config, connectionString: atPrimary(connectionString) });
    this.#url = connectionString ?? "";
    this.#hosts = groupOf(this.#url);
    // The server may end the connection while no query runs. The next query then fails.
    this.on("error", () => {});
  }

  override connect(): Promise<this>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): unknown {
    // A pool's own callback would keep the result of the query that the connection is opened for, as long as that is open.
    const connected = this.#hosts === null ? super.connect() : this.#connectTo(this.#hosts);
    return callback ? connected.then(() => callback(null!), callback) : connected;
  }

  async #connectTo(hosts: Hosts): Promise<this> {
    const { connection } = this as unknown as { connection: pg.Connection };
    let isStandby = false;
    connection.on("parameterStatus", ({ parameterName, parameterValue }) => {
      if (parameterName === "in_hot_standby") isStandby = parameterValue === "on";
    });
    try {
      await super.connect();
      if (isStandby) throw new Error(STANDBY);
      return this;
    } catch (error) {
      this.end().catch(() => {});
      hosts.lose(this.#url);
      throw error;
    }
  }
}
