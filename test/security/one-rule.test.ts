import { globSync, readFileSync } from "node:fs";
import pg from "pg";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defineRoute } from "../../app/index.ts";
import { ChannelClient } from "../support/channel-socket.ts";
import { createTestDatabase } from "../support/database.ts";
import { DEMO } from "../support/demo.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { connect } from "../support/graphql-client.ts";
import { type DemoUser, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** Ada is let in, bob is not. The function tells `seen` what a transaction is run with, when it is committed. */
const DDL = `
  create schema checks;
  create table checks.banned (sub text primary key);
  insert into checks.banned values ('2');
  create function checks.before_each() returns void language plpgsql security definer set search_path = '' as $$
  declare who text := current_setting('request.jwt.claims')::json ->> 'sub';
  begin
    if exists (select from checks.banned as b where b.sub = who) then
      raise exception 'You are banned' using errcode = 'DENID', detail = 'since today', hint = 'ask';
    end if;
    perform set_config('app.user_id', who, true);
  end $$;
  create function checks.before() returns void language plpgsql as $$
  begin
    perform checks.before_each();
    perform pg_notify('seen', json_build_object(
      'role', current_user, 'sub', current_setting('request.jwt.claims')::json ->> 'sub',
      'method', current_setting('request.method'), 'path', current_setting('request.path'),
      'header', current_setting('request.headers')::json ->> 'x-probe',
      'mode', current_setting('app.mode', true), 'lockTimeout', current_setting('lock_timeout'),
      'statementTimeout', current_setting('statement_timeout'), 'isolation', current_setting('transaction_isolation'),
      'zone', current_setting('timezone'), 'searchPath', current_setting('search_path')
    )::text);
  end $$;
  grant usage on schema checks to anon, authenticated, service_role;
  grant execute on all functions in schema checks to anon, authenticated, service_role;
  create table public.notes (id int primary key generated always as identity, owner_id int not null default 1, body text);
  alter table public.notes enable row level security;
  create policy own on public.notes using (owner_id = nullif(current_setting('app.user_id', true), '')::int) with check (true);
  insert into public.notes (owner_id, body) values (1, 'mine'), (2, 'theirs');
  grant select, insert, update, delete on public.notes to authenticated;
  create function public.deny() returns int language plpgsql as $$
  begin raise exception 'You are no member' using errcode = 'DENID', detail = 'of the club', hint = 'join'; end $$;
  create function public.forbid() returns int language plpgsql as $$
  begin raise sqlstate 'PT403' using message = 'Not this way'; end $$;
  create function public.echo() returns int language sql stable return 1;
  grant execute on function public.deny, public.forbid, public.echo to authenticated, anon;
`;

const SETTINGS = {
  DB_PRE_REQUEST: "checks.before",
  GRAPHQL_MAX_TABLES: "100",
  TASK_CONCURRENCY: "2",
  REALTIME: "on",
  SSE_HEARTBEAT: "1",
};

const route = defineRoute({
  path: "/own",
  methods: {
    GET: async ({ query }, _response, { db }) => db.query(`select ${query.call ?? "echo"}()`),
  },
});

let service: TestService;
let listener: pg.Client;
const seen: any[] = [];
beforeAll(async () => {
  const database = await createTestDatabase();
  const { owner } = database;
  const [{ name }] = (await owner.query("select current_database() as name")).rows;
  await owner.query(`
    ${DDL};
    alter role authenticated in database ${name} set app.mode = 'of the role';
    alter role authenticated in database ${name} set lock_timeout = '4s';
    alter role authenticated in database ${name} set statement_timeout = '61s';
    alter role authenticated in database ${name} set timezone = 'Asia/Tokyo';
  `);
  listener = new pg.Client(database.url);
  await listener.connect();
  listener.on("notification", ({ payload }) => seen.push(JSON.parse(payload!)));
  await listener.query("listen seen");
  const definition = { ...DEMO, config: { ...DEMO.config, routes: [route] } };
  service = await startTestService(SETTINGS, database, undefined, undefined, { definition });
  return async () => {
    await listener.end();
    await service.stop();
  };
});

const headersOf = (as: DemoUser): Record<string, string> => ({
  apikey: service.service.tokens.issueKey("anon"),
  authorization: `Bearer ${service.token(as)}`,
  "x-probe": "1",
});

async function sent(as: DemoUser, path: string, init: { method?: string; body?: unknown; headers?: object } = {}) {
  const { method = init.body === undefined ? "GET" : "POST", body } = init;
  const headers = { ...headersOf(as), "content-type": "application/json", ...init.headers };
  const reply = await fetch(`${service.url}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return `${reply.status} ${await reply.text()}`;
}

const graphql = (as: DemoUser, query: string) => sent(as, "/graphql", { body: { query } });

/** What the client of a stream gets first. */
async function streamed(
  as: DemoUser,
  path: string,
  more: { lastEventId?: string; body?: unknown } = {},
): Promise<string> {
  const client = new EventStreamClient(`${service.url}${path}`, {
    headers: headersOf(as),
    ...(more.body !== undefined && { method: "POST" }),
    ...more,
  });
  await expect.poll(() => client.text.replace(/^retry: \d+\s*/, ""), POLL).not.toBe("");
  return client.text;
}

/** The position of a stream that has begun. */
async function positionNow(): Promise<string> {
  const client = new EventStreamClient(`${service.url}/rest/v1/notes`, { headers: headersOf("ada") });
  await expect.poll(() => client.lastEventId, POLL).toBeDefined();
  client.close();
  seen.length = 0;
  return client.lastEventId!;
}

const socketOf = (as: DemoUser) => connect(service, { as, headers: { "x-probe": "1" } });

async function joined(as: DemoUser, config: object): Promise<string> {
  const client = await new ChannelClient(service, "127.0.0.1", { "x-probe": "1" }).open();
  const reply = await client.ask("room", "phx_join", { config, access_token: service.token(as) });
  return JSON.stringify(reply);
}

async function subscribed(as: DemoUser): Promise<string> {
  const { service: opened } = service;
  await expect.poll(() => opened.open().subscriptions, POLL).toBe(0);
  const subscription = socketOf(as).subscribeSoon("subscription { onNoteCreated { id body } }");
  const answer = () => subscription.faults[0] ?? (opened.open().subscriptions > 0 ? "subscribed" : null);
  await expect.poll(answer, POLL).not.toBeNull();
  return JSON.stringify(answer());
}

/** A request of an interface: what the database sees of it, and how the client sends it. The result is what the client gets. */
type Interface = {
  readonly method: string;
  readonly path: string;
  /** The time zone; that of the role if it is absent. */
  readonly zone?: string;
  readonly use: (as: DemoUser) => Promise<string>;
};

const INTERFACES: Readonly<Record<string, Interface>> = {
  "tables, reading": { method: "GET", path: "/notes", use: (as) => sent(as, "/rest/v1/notes?select=id") },
  "tables, writing": {
    ...{ method: "POST", path: "/notes" },
    use: (as) => sent(as, "/rest/v1/notes", { body: { body: "x" } }),
  },
  "tables, with QUERY": {
    method: "QUERY",
    path: "/notes",
    use: (as) => sent(as, "/rest/v1/notes", { method: "QUERY" }),
  },
  functions: { method: "POST", path: "/rpc/echo", use: (as) => sent(as, "/rest/v1/rpc/echo", { body: {} }) },
  exports: {
    ...{ method: "GET", path: "/notes" },
    use: (as) => sent(as, "/rest/v1/notes", { headers: { accept: "application/x-ndjson" } }),
  },
  "a stream of a table": { method: "GET", path: "/notes", use: (as) => streamed(as, "/rest/v1/notes") },
  "a stream that is resumed": {
    ...{ method: "GET", path: "/notes" },
    use: async (as) => streamed(as, "/rest/v1/notes", { lastEventId: await positionNow() }),
  },
  "a task": {
    ...{ method: "POST", path: "/rpc/echo" },
    use: (as) => sent(as, "/rest/v1/rpc/echo", { body: {}, headers: { prefer: "respond-async" } }),
  },
  // The contract's times are UTC.
  resources: { method: "GET", path: "/articles", zone: "UTC", use: (as) => sent(as, "/articles") },
  "routes of the application": { method: "GET", path: "/own", use: (as) => sent(as, "/own") },
  "GraphQL, reading": {
    method: "POST",
    path: "/graphql",
    use: (as) => graphql(as, "{ notes { edges { node { id } } } }"),
  },
  "GraphQL, writing": { method: "POST", path: "/graphql", use: (as) => graphql(as, "mutation { deny }") },
  "GraphQL over a WebSocket": {
    ...{ method: "GET", path: "/graphql" },
    use: async (as) => JSON.stringify(await socketOf(as).run("{ notes { edges { node { id } } } }")),
  },
  "a subscription over a WebSocket": { method: "GET", path: "/graphql", use: subscribed },
  "a subscription over server-sent events": {
    ...{ method: "POST", path: "/graphql" },
    use: (as) => streamed(as, "/graphql", { body: { query: "subscription { onNoteCreated { id } }" } }),
  },
  "a public channel": { method: "GET", path: "/realtime/v1/websocket", use: (as) => joined(as, {}) },
  "a private channel": { method: "GET", path: "/realtime/v1/websocket", use: (as) => joined(as, { private: true }) },
  "a channel with changes": {
    ...{ method: "GET", path: "/realtime/v1/websocket" },
    use: (as) => joined(as, { postgres_changes: [{ event: "*", schema: "public", table: "notes" }] }),
  },
  "broadcasts over HTTP": {
    ...{ method: "POST", path: "/realtime/v1/api/broadcast" },
    use: (as) => {
      const message = { topic: "room", event: "e", payload: {} };
      return sent(as, "/realtime/v1/api/broadcast", { body: { messages: [message] } });
    },
  },
};

/** Where statements run as a caller. A new place needs a row above that shows it, or runs for no caller. */
const PLACES = [
  "app/test.ts",
  "db/rights/checker.ts",
  "db/rights/row-access.ts",
  "graphql/execute/engine.ts",
  "realtime/channel-access.ts",
  "realtime/message-policies.ts",
  "rest-gateway/resources/runner.ts",
  "rest-gateway/routes/route.ts",
  "rest-gateway/table/index.ts",
  "rest-gateway/tasks/index.ts",
  "rest-gateway/tasks/own-task.ts",
  "rest-gateway/tasks/task-repository.ts",
  "service/app.ts",
];

test("every place that runs statements as a caller is known", () => {
  const sources = globSync(
    "{app,cli,console,db,graphql,http,identity,pages,plugins,realtime,rest-gateway,service}/**/*.ts",
  );
  expect(sources.filter((path) => /\.for(Role|Task)\(/.test(readFileSync(path, "utf8"))).toSorted()).toEqual(PLACES);
});

describe.each(Object.entries(INTERFACES))("%s", (name, { method, path, zone = "Asia/Tokyo", use }) => {
  test("runs with the function before each request, the settings of the role, the claims and the request", async () => {
    seen.length = 0;
    const answer = await use("ada");
    // A transaction that fails tells nothing.
    if (name === "GraphQL, writing") return expect(answer).toContain("DENID");
    // A task is accepted in UTC, and runs in the time zone of its caller.
    const own = () => seen.find((each) => each.path === path && each.zone === zone);
    await expect.poll(own, POLL).toBeDefined();
    expect(own()).toEqual({
      ...{ role: "authenticated", sub: "1", method, path, header: "1" },
      ...{ mode: "of the role", lockTimeout: "4s", statementTimeout: "61s" },
      ...{ zone, searchPath: expect.stringMatching(/\bpublic\b.*\bextensions\b/), isolation: expect.any(String) },
    });
  });

  test("is refused by the function, in its own words", async () => {
    const answer = await use("bob");
    for (const part of ["You are banned", "DENID", "since today", "ask"]) expect(answer).toContain(part);
  });
});

/** A subscriber: what it has got so far, as text. */
type Subscriber = (as: DemoUser) => Promise<() => string>;

const SUBSCRIBERS: Readonly<Record<string, Subscriber>> = {
  "a stream of a table": async (as) => {
    const client = new EventStreamClient(`${service.url}/rest/v1/notes`, { headers: headersOf(as) });
    await client.take(1, "snapshot");
    return () => client.text;
  },
  "a subscription of GraphQL": async (as) => {
    const subscription = await socketOf(as).subscribe("subscription { onNoteCreated { body } }");
    return () => JSON.stringify([subscription.events, subscription.error]);
  },
  "a channel": async (as) => {
    const client = new ChannelClient(service, "127.0.0.1");
    const received: string[] = [];
    client.socket.on("message", (data) => received.push(String(data)));
    await client.open();
    const config = { postgres_changes: [{ event: "*", schema: "public", table: "notes" }] };
    await client.ask("notes", "phx_join", { config, access_token: service.token(as) });
    await expect.poll(() => received.join(), POLL).toContain("Subscribed to PostgreSQL");
    return () => received.join();
  },
};

test.each(Object.entries(SUBSCRIBERS))(
  "%s gets the changes that the settings of the function show its caller, until the function refuses",
  async (name, subscribe) => {
    const { owner } = service.database;
    const write = (to: number, body: string) =>
      owner.query("insert into notes (owner_id, body) values ($1, $2)", [to, `${body} of ${name}`]);
    const received = await subscribe("ada");
    await write(2, "hidden");
    await write(1, "shown");
    await expect.poll(received, POLL).toContain(`shown of ${name}`);
    expect(received()).not.toContain("hidden");
    await owner.query("insert into checks.banned values ('1')");
    onTestFinished(async () => {
      await owner.query("delete from checks.banned where sub = '1'");
    });
    await write(1, "later");
    await expect.poll(received, POLL).toContain("You are banned");
    expect(received()).not.toContain("later");
  },
);

test.each([
  [
    "/rest/v1/rpc/deny",
    { body: {} },
    '400 {"code":"DENID","message":"You are no member","details":"of the club","hint":"join"}',
  ],
  ["/rest/v1/rpc/forbid", { body: {} }, '403 {"code":"PT403","message":"Not this way","details":null,"hint":null}'],
] as const)("an error of the application reaches %s whole", async (path, init, expected) => {
  expect(await sent("ada", path, init)).toBe(expected);
});

test.each([
  ["deny", { message: "You are no member", extensions: { code: "DENID", detail: "of the club", hint: "join" } }],
  ["forbid", { message: "Not this way", extensions: { code: "PT403" } }],
])("an error of the application reaches GraphQL whole: %s", async (name, error) => {
  const { errors } = await service.gql(`mutation { ${name} }`, { as: "ada" });
  expect(errors).toEqual([{ ...error, path: [name], locations: expect.any(Array) }]);
});

test("an error of the application reaches the routes of the application whole", async () => {
  expect(await sent("ada", "/own?call=deny")).toMatch(
    /^400 {"error":{"code":"DENID","message":"You are no member","detail":"of the club","hint":"join"/,
  );
  expect(await sent("ada", "/own?call=forbid")).toMatch(/^403 {"error":{"code":"PT403","message":"Not this way"/);
});
