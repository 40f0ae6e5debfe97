import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { hasRedis, startRedis } from "../support/redis.ts";
import { startReplicaRig } from "../support/replica-rig.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { recorded } from "../support/transcript.ts";

import { POLL } from "../support/until.ts";

// What every subscriber is promised, whatever its wire, and wherever the service reads the changes.

const TODOS = `
  create table public.todos (id int primary key, owner bigint not null, title text);
  alter table public.todos replica identity full, enable row level security;
  create policy "own" on public.todos to authenticated using (owner = (select auth.uid()));
  grant select on public.todos to authenticated;`;
const [ADA, BOB] = [1, 2];

/** What has been received over one connection: `["INSERT 1", "gap"]`. */
class Received {
  readonly all: string[] = [];
  /** The last position, and how much was received up to it. */
  at: { readonly position: string; readonly count: number } | undefined;
  isEnded = false;

  add(change: string): void {
    this.all.push(change);
  }

  mark(position: string | undefined): void {
    if (position === undefined) return;
    this.at = { position, count: this.all.length };
  }
}

type Connection = { cut(): void; pause(): void; resume(): void };
type Wire = (service: TestService, received: Received, after: string | undefined) => Connection;

const Socket = recorded(WebSocket);

/** The messages of a socket, as JSON. */
function readSocket(
  received: Received,
  url: string,
  protocol: string[],
  first: unknown,
  read: (message: any, send: (message: unknown) => void) => void,
): Connection {
  const socket = new Socket(url.replace("http", "ws"), protocol);
  const send = (message: unknown) => socket.send(JSON.stringify(message));
  void once(socket, "open").then(
    () => send(first),
    () => {},
  );
  socket.on("message", (data) => read(JSON.parse(String(data)), send));
  socket.on("error", () => {});
  socket.on("close", () => {
    received.isEnded = true;
  });
  onTestFinished(() => socket.terminate());
  return { cut: () => socket.terminate(), pause: () => socket.pause(), resume: () => socket.resume() };
}

const channel: Wire = (service, received, since) => {
  const options = { positions: true, ...(since && { since }) };
  const config = {
    postgres_changes: [{ event: "*", schema: "public", table: "todos" }],
    postgres_changes_options: options,
  };
  const join = ["1", "1", "realtime:todos", "phx_join", { config, access_token: service.token("ada") }];
  const key = service.service.tokens.issueKey("anon");
  const url = `${service.url}/realtime/v1/websocket?apikey=${key}&vsn=2.0.0`;
  return readSocket(received, url, [], join, ([, , , event, payload]) => {
    if (event === "postgres_changes") {
      const { type, record, old_record } = payload.data;
      received.add(`${type} ${record?.id ?? old_record.id}`);
    }
    const isGap = payload.gap || /^Gap/.test(payload.response?.reason);
    if (isGap) received.add("gap");
    if (event === "phx_close" || event === "phx_error" || (payload.status === "error" && !isGap))
      received.isEnded = true;
    if (event === "system") received.mark(payload.position);
  });
};

const tableStream: Wire = (service, received, lastEventId) => {
  const headers = { authorization: `Bearer ${service.token("ada")}` };
  return readStream(
    received,
    new EventStreamClient(`${service.url}/rest/v1/todos`, { headers, lastEventId }),
    (event) => {
      const { event: name, data } = event;
      if (name === "gap") received.add("gap");
      if (data.eventType) received.add(`${name} ${data.new?.id ?? data.old.id}`);
    },
  );
};

const CHANGED = "subscription { onTodoChanged { operation new { id } old { id } } }";

function addResult(received: Received, { data, errors }: any): void {
  const { operation, new: now, old } = data?.onTodoChanged ?? {};
  if (operation) received.add(`${operation} ${now?.id ?? old.id}`);
  if (errors?.[0].extensions.code === "CHANGES_MISSED") received.add("gap");
}

const graphqlStream: Wire = (service, received, lastEventId) => {
  const headers = { authorization: `Bearer ${service.token("ada")}` };
  const sent = { method: "POST", body: { query: CHANGED }, headers, lastEventId };
  const client = new EventStreamClient(`${service.url}/graphql`, sent);
  return readStream(received, client, ({ data }) => addResult(received, data));
};

/** Every event of a stream has its position. */
function readStream(
  received: Received,
  client: EventStreamClient,
  read: (event: EventStreamClient["events"][number]) => void,
): Connection {
  let done = 0;
  const timer = setInterval(() => {
    for (; done < client.events.length; done++) {
      const event = client.events[done]!;
      read(event);
      received.mark(event.id);
    }
    received.isEnded = client.isEnded;
  }, 5);
  onTestFinished(() => clearInterval(timer));
  return {
    cut() {
      client.close();
      clearInterval(timer);
    },
    pause: () => client.response!.pause(),
    resume: () => client.response!.resume(),
  };
}

const graphqlSocket: Wire = (service, received, after) => {
  const payload = { query: CHANGED, ...(after && { extensions: { after } }) };
  const first = { type: "connection_init", payload: { Authorization: `Bearer ${service.token("ada")}` } };
  return readSocket(received, `${service.url}/graphql`, ["graphql-transport-ws"], first, (message, send) => {
    if (message.type === "connection_ack") send({ id: "1", type: "subscribe", payload });
    if (message.type === "ping") send({ type: "pong" });
    if (message.type === "next") {
      addResult(received, message.payload);
      received.mark(message.payload.extensions?.changePosition);
    }
    if (message.type === "error") addResult(received, { errors: message.payload });
    if (message.type === "error" || message.type === "complete") received.isEnded = true;
  });
};

const WIRES: Readonly<Record<string, Wire>> = {
  ...{ channel, "stream of a table": tableStream },
  ...{ "GraphQL over WebSocket": graphqlSocket, "GraphQL over Server-Sent Events": graphqlStream },
};

/** A client that connects again at its last position. */
class Reader {
  readonly #wire: Wire;
  #kept: readonly string[] = [];
  #received = new Received();
  #position: string | undefined;
  connection: Connection;

  constructor(wire: Wire, service: TestService, position?: string) {
    this.#wire = wire;
    this.#position = position;
    this.connection = wire(service, this.#received, position);
  }

  get all(): readonly string[] {
    return [...this.#kept, ...this.#received.all];
  }

  get isEnded(): boolean {
    return this.#received.isEnded;
  }

  reconnect(service: TestService): void {
    this.connection.cut();
    const { all, at } = this.#received;
    this.#kept = [...this.#kept, ...all.slice(0, at?.count ?? 0)];
    this.#position = at?.position ?? this.#position;
    this.#received = new Received();
    this.connection = this.#wire(service, this.#received, this.#position);
  }
}

type Feed = {
  readonly services: readonly TestService[];
  /** At the server that decodes the changes. */
  readonly decoder: { query(text: string): Promise<unknown> };
  readonly database: TestDatabase;
  close(): Promise<void>;
};

const SETTINGS = {
  GRAPHQL_DOCUMENTS: "any",
  GRAPHQL_EXTRAS: "changes",
  API_KEY_REQUIRED: "off",
  changesPolicyTimeout: 60_000,
};

async function servesTodos({ url }: TestService): Promise<boolean> {
  const query = encodeURIComponent('{ __type(name: "Todo") { name } }');
  const response = await fetch(`${url}/graphql?query=${query}`, { headers: { accept: "application/json" } });
  return ((await response.json()) as any).data?.__type?.name === "Todo";
}

async function feedOn(database: TestDatabase, ...all: readonly Readonly<Record<string, string>>[]): Promise<Feed> {
  const services: TestService[] = [];
  for (const settings of all) services.push(await startTestService({ ...SETTINGS, ...settings }, database));
  // The roles exist from the first start on.
  await database.owner.query(TODOS);
  for (const service of services) await vi.waitUntil(() => servesTodos(service), POLL);
  const close = async () => {
    const [first, ...others] = services;
    for (const { service } of others) await service.stop();
    await first!.stop();
  };
  return { services, decoder: database.owner, database, close };
}

const FEEDS: Readonly<Record<string, () => Promise<Feed>>> = {
  "a slot": async () => feedOn(await createTestDatabase(), { INSTANCE_ID: "one" }),
  "a slot for each of two processes": async () =>
    feedOn(await createTestDatabase(), { INSTANCE_ID: "one" }, { INSTANCE_ID: "two" }),
  ...(hasRedis && {
    "the log of two processes": async () => {
      const redis = await startRedis();
      const settings = { REDIS_URL: redis.url };
      const feed = await feedOn(await createTestDatabase(), settings, settings);
      return { ...feed, close: () => feed.close().finally(() => redis.kill()) };
    },
  }),
  "a standby": async () => {
    const rig = await startReplicaRig(1);
    const [standby] = rig.replicas;
    // Without it, the primary removes rows of its catalog that the slot needs, which is a gap.
    await standby!.query("alter system set hot_standby_feedback = on");
    await standby!.query("select pg_reload_conf()");
    const isHeld = async () => (await rig.primary.owner.query("select backend_xmin from pg_stat_replication")).rows[0];
    await vi.waitUntil(async () => (await isHeld())?.backend_xmin != null, POLL);
    const feed = await feedOn(rig.primary, { CHANGES_URL: standby!.url, INSTANCE_ID: "one", SEED: "demo" });
    return { ...feed, decoder: standby!, close: () => feed.close().finally(() => rig.remove()) };
  },
};

type Expect = (...expected: readonly string[]) => Promise<void>;

describe.each(Object.keys(FEEDS))("subscribers of %s", (name) => {
  let feed: Feed;
  let last = 0;
  let turn = 0;
  beforeAll(async () => {
    feed = await FEEDS[name]!();
  });
  afterAll(() => feed?.close());

  const sql = (text: string, ...values: unknown[]) => feed.database.owner.query(text, values);
  const next = () => feed.services[turn++ % feed.services.length]!;

  /** Inserts rows with the next numbers, whose owners are Ada and Bob in turn. */
  async function insert(count: number, title = ""): Promise<string[]> {
    const ids = Array.from({ length: count }, (_, i) => last + 1 + i);
    last += count;
    await sql(`insert into todos select id, ${ADA} + id % 2, $2 from unnest($1::int[]) as id`, ids, title);
    return ids.filter((id) => id % 2 === 0).map((id) => `INSERT ${id}`);
  }

  /** A reader for each wire, and a change that all of them have received: what is compared begins with it. */
  async function readers(): Promise<{ all: Record<string, Reader>; expectAll: Expect }> {
    const all = Object.fromEntries(Object.entries(WIRES).map(([wire, open]) => [wire, new Reader(open, next())]));
    let begin = "";
    await vi.waitUntil(async () => {
      begin = (await insert(2))[0]!;
      // A stream ends with a gap, and its client connects again.
      for (const reader of Object.values(all)) if (reader.isEnded) reader.reconnect(next());
      return Object.values(all).every((reader) => reader.all.length > 0);
    }, POLL);
    const expectAll: Expect = async (...expected) => {
      const received = ({ all }: Reader) => all.slice(all.indexOf(begin));
      const each = Object.fromEntries(Object.keys(WIRES).map((wire) => [wire, [begin, ...expected]]));
      await expect
        .poll(() => Object.fromEntries(Object.entries(all).map(([wire, reader]) => [wire, received(reader)])), POLL)
        .toEqual(each);
    };
    await expectAll();
    return { all, expectAll };
  }

  test("receive the changes of the rows that they may see, once and in order", async () => {
    const { expectAll } = await readers();
    const [first, second] = [await insert(20), await insert(2)];
    const seen = last % 2 === 0 ? last : last - 1;
    await expectAll(...first, ...second);
    await sql("update todos set title = 'changed' where id in ($1, $1 - 1)", seen);
    await sql(`update todos set owner = ${BOB} where id = $1`, seen);
    await sql(`update todos set owner = ${ADA} where id = $1`, seen);
    const changed = [`UPDATE ${seen}`, `DELETE ${seen}`, `UPDATE ${seen}`];
    await expectAll(...first, ...second, ...changed);
    await sql("delete from todos where id in ($1, $1 - 1)", seen);
    await expectAll(...first, ...second, ...changed, `DELETE ${seen}`);
  });

  test("continue at their position, at whatever process, while rows are written", async () => {
    const { all, expectAll } = await readers();
    const expected: string[] = [];
    let isWriting = true;
    const writing = (async () => {
      while (isWriting) expected.push(...(await insert(5)));
    })();
    for (let cut = 0; cut < 8; cut++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      for (const reader of Object.values(all)) reader.reconnect(next());
    }
    isWriting = false;
    await writing;
    await expectAll(...expected);
  });

  test("receive what is kept when they read again after a pause", async () => {
    const { all, expectAll } = await readers();
    for (const { connection } of Object.values(all)) connection.pause();
    const expected: string[] = [];
    for (let i = 0; i < 40; i++) expected.push(...(await insert(10, "x".repeat(10_000))));
    for (const { connection } of Object.values(all)) connection.resume();
    await expectAll(...expected);
  });

  test("lose nothing when the service loses the server that decodes the changes", async () => {
    const { expectAll } = await readers();
    const expected: string[] = [];
    for (let i = 0; i < 3; i++) {
      expected.push(...(await insert(4)));
      await feed.decoder.query(
        "select pg_terminate_backend(active_pid) from pg_replication_slots where active and database = current_database()",
      );
      expected.push(...(await insert(4)));
      await expectAll(...expected);
    }
  });

  test("get a gap after a position that is not kept", async () => {
    await readers();
    const all = Object.entries(WIRES).map(([wire, open]) => [wire, new Reader(open, next(), "other-1c4e8-2")] as const);
    await expect
      .poll(() => Object.fromEntries(all.map(([wire, reader]) => [wire, reader.all])), POLL)
      .toEqual(Object.fromEntries(Object.keys(WIRES).map((wire) => [wire, ["gap"]])));
  });

  test("get a gap for a change that cannot be checked, and go on after it", async () => {
    const { all, expectAll } = await readers();
    await expectAll(...(await insert(2)));
    await sql("alter event trigger protect_published_writes disable");
    onTestFinished(async () => void (await sql("alter event trigger protect_published_writes enable")));
    const id = last % 2 === 0 ? last : last - 1;
    await sql(`begin; alter table todos replica identity default; delete from todos where id = ${id}; commit`);
    const open = () => Object.entries(all).flatMap(([wire, { isEnded }]) => (isEnded ? [] : [wire]));
    await expect.poll(open, POLL).toEqual([]);
    const stream = all["stream of a table"]!;
    stream.reconnect(next());
    for (const reader of Object.values(all)) await expect.poll(() => reader.all.at(-1), POLL).toBe("gap");
    const [later] = await insert(2);
    await expect.poll(() => stream.all.slice(-2), POLL).toEqual(["gap", later]);
  });

  test("receive nothing after the account was disabled", async () => {
    const { all, expectAll } = await readers();
    await sql("update auth_private.accounts set disabled_at = now() where user_id = $1", ADA);
    onTestFinished(async () => {
      await sql("update auth_private.accounts set disabled_at = null where user_id = $1", ADA);
    });
    const open = () => Object.entries(all).flatMap(([wire, { isEnded }]) => (isEnded ? [] : [wire]));
    await expect.poll(open, POLL).toEqual([]);
    await insert(10);
    await new Promise((resolve) => setTimeout(resolve, 500));
    await expectAll();
  });
});
