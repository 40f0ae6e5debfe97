import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { Tokens } from "../../identity/tokens.ts";
import { type Command, nodeStart } from "../support/command.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { POLL, until } from "../support/until.ts";

/**
 * The one test that measures time: the longest turn of the event loop for the largest request that each interface admits, in CPU time
 * of the service and relative to a loop in the same process. Everything else waits for such a turn. A turn may take three times as
 * long as that of the largest GraphQL operation, which SECURITY.md names.
 */
const TIMES = 3;

/** The least of so many turns counts: code that runs for the first time, and collections of the heap, are not meant. */
const ROUNDS = 3;

/** The sockets of one address: wsMaxConnectionsPerAddress is 100. */
const SOCKETS = 90;

type Case = {
  readonly name: string;
  /** What is there before. The result removes it. */
  prepare?(): Promise<() => void>;
  /** Resolves when all of it has been done. `round` makes requests different from each other. */
  request(round: number): Promise<void>;
};

let database: TestDatabase;
let service: Command;
let probe: string;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "content-service-turns-"));
  database = await createTestDatabase();
  await database.owner.query(`
    create table public.entries (id bigint generated always as identity primary key, body text not null);
    grant select, insert (body), delete on public.entries to anon;
    alter table public.entries enable row level security;
    create policy "entries are public" on public.entries using (true) with check (true)`);
  service = nodeStart({
    dataDir: join(folder, "data"),
    settings: {
      NODE_OPTIONS: `--import=${new URL("../support/turn-probe.ts", import.meta.url)}`,
      DATABASE_URL: database.url,
      JWT_SECRET: SECRET,
      API_KEY_REQUIRED: "off",
      // The requests of all rows together are more than one address may send.
      RATE_LIMIT: "0",
      // So are its joins of channels and its messages.
      MAX_CONNECTIONS: "100000",
    },
    shared: true,
  });
  await service.ready();
  probe = service.logged.findLast(({ msg }) => msg === "probe")!.url;
  return async () => {
    await service.end();
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  };
});

/** The longest turns of the case in each round, in the time of the loop of the probe, in ascending order. */
async function longestTurns({ prepare, request }: Case, rounds: number): Promise<number[]> {
  const end = await prepare?.();
  const turns: number[] = [];
  try {
    for (let round = 0; round < rounds; round++) {
      await fetch(`${probe}/begin`);
      await request(round);
      const response = await fetch(`${probe}/end`);
      turns.push(((await response.json()) as { longest: number }).longest);
    }
  } finally {
    end?.();
  }
  return turns.sort((a, b) => a - b);
}

const repeat = (count: number, write: (n: number) => string, separator = ",") =>
  Array.from({ length: count }, (_, n) => write(n)).join(separator);

type Sent = { readonly method?: string; readonly type?: string; readonly body?: string; readonly status?: number };

const FORM = "application/x-www-form-urlencoded";

/** Sends a request and reads the response. */
async function send(
  path: string,
  { method = "POST", type = "application/json", body, status = 200 }: Sent,
): Promise<void> {
  const headers = body === undefined ? {} : { "content-type": type };
  const response = await fetch(`${service.url}${path}`, { method, headers, ...(body !== undefined && { body }) });
  const text = await response.text();
  const isExpected = response.status === status && !text.startsWith('{"errors"');
  expect([response.status, isExpected ? "" : text.slice(0, 300)]).toEqual([status, ""]);
}

const graphql = (query: string, variables: object = {}) =>
  send("/graphql", { body: JSON.stringify({ query, variables }) });

/** An operation of 1,000 fields: each round has other names. */
const manyFields: Case = {
  name: "GraphQL: fields",
  request: (round) =>
    graphql(`{ articles(first: 1) { edges { node { ${repeat(900, (n) => `a${round}x${n}: title`, " ")} } } } }`),
};

/** A client with a socket of its own. Counts its messages without reading them. */
class Member {
  received = 0;
  /** How the connection has ended, or else the last message. */
  last: unknown = "";
  readonly #socket: WebSocket;

  constructor(path: string, protocols: string[] = []) {
    this.#socket = new WebSocket(`${service.url.replace("http", "ws")}${path}`, protocols);
  }

  async open(): Promise<this> {
    this.#socket.on("message", (data) => {
      this.received++;
      this.last = data;
    });
    this.#socket.on("close", (code, reason) => {
      this.last = `${code} ${reason}`;
    });
    await once(this.#socket, "open");
    return this;
  }

  /** Resolves when the subscription can be sent. */
  async connect(): Promise<this> {
    this.write({ type: "connection_init" });
    await expect.poll(() => this.received, POLL).toBe(1);
    return this;
  }

  /** Resolves when the channel has got its first messages. */
  async join(topic: string, config: object, messages = 1): Promise<this> {
    const before = this.received;
    this.send(topic, "phx_join", { config });
    await expect.poll(() => this.received, POLL).toBeGreaterThanOrEqual(before + messages);
    return this;
  }

  send(topic: string, event: string, payload: object): void {
    this.write(["1", "1", `realtime:${topic}`, event, payload]);
  }

  write(message: unknown): void {
    this.#socket.send(JSON.stringify(message));
  }

  close = () => this.#socket.terminate();
}

const CHANNELS = "/realtime/v1/websocket?vsn=2.0.0";

const openMembers = async (count = SOCKETS) =>
  Promise.all(Array.from({ length: count }, () => new Member(CHANNELS).open()));

let members: readonly { received: number; readonly last?: unknown }[] = [];

/** Waits until each member has received so many messages more. */
async function receiving(messages: number, act: () => unknown): Promise<void> {
  const before = members.map(({ received }) => received);
  await act();
  const least = () => Math.min(...members.map(({ received }, i) => received - before[i]!));
  await until(
    () => least() >= messages,
    () => {
      const slowest = members.find(({ received }, i) => received - before[i]! === least());
      return `each member receives ${messages} messages: ${least()}, and last ${slowest?.last}`;
    },
    least,
  ).catch(async (error: Error) => {
    throw new Error(`${error.message}; ${await describeDelivery()}`);
  });
}

/** Where changes are: in the feed, or in the work that waits; and what the service has warned of. */
async function describeDelivery(): Promise<string> {
  const headers = { apikey: new Tokens({ ...KEYS, secret: SECRET }).issueKey("service_role") };
  const { details } = (await (await fetch(`${service.url}/health`, { headers })).json()) as any;
  const turns = (await (await fetch(`${probe}/end`)).json()) as object;
  const warnings = service.logged.filter(({ level }) => level === "warn" || level === "error").slice(-5);
  return JSON.stringify({ ...turns, changes: details?.changes, warnings });
}

const SECRET = "a secret of the test, long enough for HS256";
const KEYS = { privateKey: "", audience: "", anonymousRole: "anon", accessSeconds: 3600 };

/** Sockets with a channel each. */
const channels =
  (config: object, messages = 1, count = SOCKETS) =>
  async () => {
    const opened = await openMembers(count);
    for (const member of opened) await member.join("room", config, messages);
    members = opened;
    return () => opened.map((member) => member.close());
  };

const ENTRIES = { event: "INSERT", schema: "public", table: "entries" };

const insert = (rows: number) =>
  send("/rest/v1/entries", { body: `[${repeat(rows, (n) => `{"body":"Entry ${n}"}`)}]`, status: 201 });

/** Rows of 100 bytes, which together are as long as a body may be: 16 MiB. */
const LARGEST = 165_000;
const longText = "x".repeat(85);

/** The values that the lists of a request may have. */
const VALUES = 50_000;
const GRAPHQL_VALUES = 24_990;

const CASES: readonly Case[] = [
  {
    name: "REST: insert of many rows",
    request: () => insert(3000),
  },
  {
    name: "REST: insert of the largest body, refused for its last row",
    request: () =>
      send("/rest/v1/entries", {
        body: `[${repeat(LARGEST, () => `{"body":"${longText}"}`)},{"body":null}]`,
        status: 400,
      }),
  },
  {
    name: "REST: insert of the largest body as CSV",
    request: () =>
      send("/rest/v1/entries", {
        type: "text/csv",
        body: `body\n${repeat(LARGEST, () => longText, "\n")}`,
        status: 201,
      }),
  },
  {
    name: "REST: read with the longest list",
    request: (round) =>
      send("/rest/v1/entries", {
        method: "QUERY",
        type: FORM,
        body: `select=id&limit=1&id=in.(${repeat(VALUES, (n) => `${round}${n}`)})`,
      }),
  },
  {
    name: "REST: read with the most columns",
    request: (round) =>
      send("/rest/v1/entries", {
        method: "QUERY",
        type: FORM,
        body: `select=${repeat(1600, (n) => `a${round}x${n}:id`)}&limit=1`,
      }),
  },
  {
    name: "REST: read with the longest order",
    request: (round) =>
      send("/rest/v1/entries", {
        method: "QUERY",
        type: FORM,
        body: `select=id&order=${repeat(2000, (n) => (n % (round + 2) === 0 ? "id" : "body.desc"))}&limit=1`,
      }),
  },
  {
    name: "GraphQL: fragments",
    request: (round) => {
      const fragments = repeat(220, (n) => `fragment f${n} on Article { a${round}x${n}: title }`, " ");
      const spreads = repeat(220, (n) => `...f${n}`, " ");
      return graphql(`{ articles(first: 1) { edges { node { ${spreads} } } } } ${fragments}`);
    },
  },
  {
    name: "GraphQL: fields of the same name",
    request: (round) =>
      graphql(`{ articles(first: ${round + 1}) { edges { ${repeat(150, () => "node { title }", " ")} } } }`),
  },
  {
    name: "GraphQL: variables and directives",
    request: (round) => {
      const variables = repeat(200, (n) => `$v${n}: Boolean!`);
      const fields = repeat(200, (n) => `a${round}x${n}: title @include(if: $v${n}) @skip(if: $v${199 - n})`, " ");
      const values = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`v${n}`, n % 2 === 0]));
      return graphql(`query (${variables}) { articles(first: 1) { edges { node { ${fields} } } } }`, values);
    },
  },
  {
    name: "GraphQL: the longest list",
    request: (round) =>
      graphql("query ($ids: [ID!]) { articles(first: 1, filter: { id: { in: $ids } }) { edges { node { id } } } }", {
        ids: Array.from({ length: GRAPHQL_VALUES }, (_, n) => `${n + round}`),
      }),
  },
  {
    name: "REST: read with the most conditions",
    request: (round) =>
      send("/rest/v1/entries", {
        method: "QUERY",
        type: FORM,
        body: `select=id&limit=1&or=(${repeat(900, (n) => `id.eq.${round}${n}`)})`,
      }),
  },
  {
    name: "OpenAPI",
    request: () => send("/rest/v1/openapi.json", { method: "GET" }),
  },
  {
    name: "the document of PostgREST",
    request: () => send("/rest/v1/", { method: "GET" }),
  },
  {
    name: "broadcast over HTTP: messages",
    prepare: channels({}),
    request: () => {
      const messages = repeat(1000, () => '{"topic":"room","event":"e","payload":{}}');
      const body = `{"messages":[${messages}]}`;
      return receiving(1000, () => send("/realtime/v1/api/broadcast", { body, status: 202 }));
    },
  },
  {
    name: "broadcast over HTTP: the largest body",
    prepare: channels({}),
    request: () => {
      const text = "x".repeat(900);
      const messages = repeat(1000, () => `{"topic":"room","event":"e","payload":{"text":"${text}"}}`);
      const body = `{"messages":[${messages}]}`;
      return receiving(1000, () => send("/realtime/v1/api/broadcast", { body, status: 202 }));
    },
  },
  {
    name: "channels: broadcasts",
    prepare: channels({ broadcast: { self: true } }),
    request: () =>
      // All rounds together send fewer than wsMessageRate messages.
      receiving(30, () => {
        for (let n = 0; n < 30; n++)
          (members[0] as Member).send("room", "broadcast", { type: "broadcast", event: "e", payload: {} });
      }),
  },
  {
    name: "channels: presence",
    prepare: channels({ presence: { enabled: true } }, 2),
    request: (round) =>
      receiving(1, () => {
        for (const member of members as Member[])
          member.send("room", "presence", { type: "presence", event: "track", payload: { round } });
      }),
  },
  {
    name: "channels: one change for many channels with the most bindings",
    prepare: async () => {
      const bindings = Array.from({ length: 100 }, () => ENTRIES);
      const opened = await openMembers(5);
      for (let n = 0; n < 90; n++)
        await Promise.all(opened.map((member) => member.join(`room ${n}`, { postgres_changes: bindings }, 2)));
      members = opened;
      return () => opened.map((member) => member.close());
    },
    request: () => receiving(90, () => insert(1)),
  },
  {
    name: "channels: changes of many rows",
    prepare: channels({ postgres_changes: [ENTRIES] }, 2),
    request: () => receiving(2000, () => insert(2000)),
  },
  {
    name: "event streams: changes of many rows",
    prepare: async () => {
      const streams = Array.from(
        { length: SOCKETS },
        () => new EventStreamClient(`${service.url}/rest/v1/entries?id=gt.0&limit=1`),
      );
      for (const stream of streams) await expect.poll(() => stream.events.length, POLL).toBeGreaterThan(0);
      members = streams.map((stream) => ({
        get received() {
          return stream.events.length;
        },
        get last() {
          return stream.isEnded ? "ended" : stream.lastEventId;
        },
      }));
      return () => streams.map((stream) => stream.close());
    },
    request: () => receiving(2000, () => insert(2000)),
  },
  {
    name: "GraphQL subscriptions: changes of many rows",
    prepare: async () => {
      const opened = await Promise.all(
        Array.from({ length: 60 }, async () => {
          const member = await new Member("/graphql", ["graphql-transport-ws"]).open();
          return member.connect();
        }),
      );
      for (const member of opened)
        member.write({ id: "1", type: "subscribe", payload: { query: "subscription { onArticleCreated { id } }" } });
      // They have begun.
      await expect
        .poll(async () => {
          await publish(1);
          return opened.every(({ received }) => received > 1);
        }, POLL)
        .toBe(true);
      members = opened;
      return () => opened.map((member) => member.close());
    },
    request: () => receiving(200, () => publish(200)),
  },
  {
    name: "GraphQL: a schema of 40 tables that changes",
    prepare: async () => {
      await database.owner.query(`${repeat(40, manyColumns, ";")}`);
      return () => {};
    },
    request: async (round) => {
      await database.owner.query(
        `create table public.added_${round} (id int primary key); grant select on public.added_${round} to anon`,
      );
      await expect
        .poll(async () => {
          const body = JSON.stringify({ query: `{ __type(name: "Added${round}") { name } }` });
          const response = await fetch(`${service.url}/graphql`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body,
          });
          return response.json();
        }, POLL)
        .toEqual({ data: { __type: { name: `Added${round}` } } });
    },
  },
];

const manyColumns = (n: number) =>
  `create table public.many_${n} (id int primary key, parent int references public.many_${n >> 1}, name text, at timestamptz);
   grant all on public.many_${n} to anon`;

const publish = (count: number) =>
  database.owner.query(
    `insert into articles (title, content, author_id, status)
      select 'Title ' || n, 'Text', 1, 'PUBLISHED' from generate_series(1, ${count}) n`,
  );

describe("no turn of the event loop takes longer than three times that of 1,000 GraphQL fields", () => {
  let most: number;
  beforeAll(async () => {
    const turns = await longestTurns(manyFields, 5 * ROUNDS);
    most = TIMES * turns[Math.floor(turns.length / 2)]!;
  });

  test.each(CASES)("$name", async (each) => {
    const [least] = await longestTurns(each, ROUNDS);
    expect(least).toBeLessThan(most);
  });
});
