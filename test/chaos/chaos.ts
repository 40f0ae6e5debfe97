import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import pg from "pg";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { Tokens } from "../../identity/tokens.ts";
import { until } from "../support/until.ts";
import { ChannelSubscriber } from "./channel-subscriber.ts";
import { countOutOfOrder, duplicatesOf, lostOf } from "./received.ts";
import { SUBSCRIPTIONS, Subscriber } from "./subscriber.ts";
import { openAuditedWriting, Writers } from "./writers.ts";

/** What is cut or killed. */
export type Action = "sockets" | "service" | "replication" | "database";
export type Kind = "table" | "graphql" | "channel";

export type ChaosOptions = {
  /** Returns the connection string of the owner of a database. The tables events and audit are created in it. */
  url(): string;
  /** Stops the database server and starts it again. */
  restartDatabase?(): Promise<void>;
  readonly actions: readonly Action[];
  readonly writers?: number;
  /** Milliseconds between the transactions of one writer. */
  readonly pause?: number;
  readonly kinds: readonly Kind[];
  /** Subscribers of each kind. */
  readonly subscribers?: number;
  /** Rows that are written before each action. */
  readonly rows?: number;
  onAction?(action: Action, number: number): void;
};

export type SubscriberReport = {
  readonly kind: Kind;
  readonly connections: number;
  readonly lost: number;
  readonly duplicates: number;
  /** Milliseconds from the arrival of the oldest duplicate to the loss of its connection; null without duplicates. */
  readonly oldestDuplicate: number | null;
  /** Rows that arrived before an earlier row of the same writer. */
  readonly outOfOrder: number;
  readonly gaps: number;
};

export type ChaosReport = {
  readonly written: number;
  readonly subscribers: readonly SubscriberReport[];
  /** Whether all subscribers received the rows in the same order. */
  readonly isOneOrder: boolean;
};

/**
 * Disturbs a service while writers write and subscribers read, and compares what arrived with the audit table. Rejects if something
 * that must become true does not.
 */
export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const { url, actions, kinds, writers: count = 4, pause = 20, subscribers: each = 3, rows = 50, onAction } = options;
  await using stack = new AsyncDisposableStack();
  const service = new ServiceProcess(url(), await findFreePort(), kinds.includes("graphql"));
  await service.start();
  stack.defer(() => service.kill());
  await sqlOf(url(), TABLES);
  await service.serves("/rest/v1/events?limit=0");
  if (kinds.includes("graphql")) await service.serves("/graphql?query={events{totalCount}}", 'totalCount":0');

  const subscribers = kinds.flatMap((kind) =>
    Array.from({ length: each }, () => ({ kind, subscriber: subscribe(kind, service.url) })),
  );
  stack.defer(async () => void (await Promise.all(subscribers.map(({ subscriber }) => subscriber.close()))));
  await until(
    () => subscribers.every(({ subscriber }) => subscriber.isReady),
    () => "the subscribers get the first id",
  );
  const writers = new Writers({ open: () => openAuditedWriting(url()), count, pause });
  stack.defer(() => writers.stop());
  const moreRows = () => {
    const enough = writers.written + rows;
    return until(
      () => writers.written >= enough,
      () => `${rows} rows are written`,
    );
  };

  for (const [number, action] of actions.entries()) {
    await moreRows();
    onAction?.(action, number + 1);
    if (action === "sockets") for (const { subscriber } of subscribers) subscriber.cut();
    else if (action === "service") await service.restart();
    else if (action === "replication") await sqlOf(url(), CUT_REPLICATION).catch(() => {});
    else await options.restartDatabase?.();
  }
  await moreRows();
  await writers.stop();
  const audit = (await sqlOf(url(), "select id from public.audit order by id")).map(({ id }) => id as number);
  const expected = new Set(audit);
  const isComplete = () => subscribers.every(({ subscriber }) => lostOf(expected, subscriber.received.ids).size === 0);
  const received = () => subscribers.reduce((sum, { subscriber }) => sum + subscriber.received.ids.length, 0);
  await until(isComplete, () => "everything arrives", received).catch(() => {});

  const orders = subscribers.map(({ subscriber }) => [...new Set(subscriber.received.ids)].join());
  return {
    written: audit.length,
    subscribers: subscribers.map(({ kind, subscriber: { received, connections, oldestDuplicate } }) => ({
      ...{ kind, connections, oldestDuplicate },
      lost: lostOf(expected, received.ids).size,
      duplicates: duplicatesOf(received.ids),
      outOfOrder: countOutOfOrder(received.ids),
      gaps: received.gaps,
    })),
    isOneOrder: new Set(orders).size === 1,
  };
}

const TABLES = `
  create table public.events (id int primary key);
  alter table public.events enable row level security;
  create policy "everyone" on public.events for select using (id > 0);
  grant select on public.events to anon;
  create table public.audit (id int primary key);
  alter table public.audit enable row level security;`;

/** In this database only: others may share the server. */
const CUT_REPLICATION = `select pg_terminate_backend(active_pid) from pg_replication_slots
  where active_pid is not null and database = current_database()`;

const SECRET = "a secret of the chaos run, long enough for HS256";
const KEY = new Tokens({
  secret: SECRET,
  privateKey: "",
  audience: "",
  anonymousRole: "anon",
  accessSeconds: 3600,
}).issueKey("anon");

const subscribe = (kind: Kind, url: string) =>
  kind === "channel" ? new ChannelSubscriber(url, KEY, "events") : new Subscriber(SUBSCRIPTIONS[kind](url));

/** `npm start` on a database, which can be killed. */
class ServiceProcess {
  readonly url: string;
  readonly #environment: NodeJS.ProcessEnv;
  #child: ChildProcess | null = null;

  constructor(databaseUrl: string, port: number, hasGraphQL: boolean) {
    this.url = `http://127.0.0.1:${port}`;
    this.#environment = {
      PATH: process.env.PATH,
      DATABASE_URL: databaseUrl,
      JWT_SECRET: SECRET,
      PORT: String(port),
      INSTANCE_ID: "chaos",
      API_KEY_REQUIRED: "off",
      RATE_LIMIT: "0",
      SEED: "none",
      GRAPHQL_DOCUMENTS: hasGraphQL ? "any" : "none",
      LOG_LEVEL: "silent",
    };
  }

  async start(): Promise<void> {
    this.#child = spawn(process.execPath, ["cli/content-service.ts", "start", "demo"], {
      env: this.#environment,
      stdio: "ignore",
    });
    await this.serves("/health");
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  /** Waits for a response of 200 with this text. */
  async serves(path: string, text = ""): Promise<void> {
    let received = "";
    const isServed = async () => {
      const response = await fetch(`${this.url}${path}`).catch(() => null);
      received = response ? `${response.status} ${await response.text()}` : "nothing";
      return received.startsWith("200") && received.includes(text);
    };
    await until(isServed, () => `${path} is served, but sends ${received}`);
  }
}

async function sqlOf(url: string, text: string): Promise<any[]> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}
