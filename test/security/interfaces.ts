import { expect } from "vitest";
import { defineRoute } from "../../app/index.ts";
import { ChannelClient } from "../support/channel-socket.ts";
import type { TestDatabase } from "../support/database.ts";
import { DEMO } from "../support/demo.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { connect } from "../support/graphql-client.ts";
import { type DemoUser, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/**
 * Ada is let in, bob is not. The function before each request tells `seen` what a transaction is run with, when it is committed. A replica
 * cannot tell: there it raises an error, which the primary repeats, unless that is what the header `x-expected` says.
 */
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
  declare
    headers constant jsonb := current_setting('request.headers');
    seen constant jsonb := jsonb_build_object(
      'role', current_user, 'sub', current_setting('request.jwt.claims')::json ->> 'sub',
      'method', current_setting('request.method'), 'path', current_setting('request.path'),
      'header', headers ->> 'x-probe',
      'mode', current_setting('app.mode', true), 'lockTimeout', current_setting('lock_timeout'),
      'statementTimeout', current_setting('statement_timeout'), 'isolation', current_setting('transaction_isolation'),
      'zone', current_setting('timezone'), 'searchPath', current_setting('search_path'),
      'tenant', current_setting('app.settings.tenant', true)
    );
  begin
    perform checks.before_each();
    if not pg_is_in_recovery() then
      perform pg_notify('seen', seen::text);
    elsif not seen @> (headers ->> 'x-expected')::jsonb then
      raise 'seen on the replica: %', seen;
    end if;
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
  create function public.refuse() returns int language plpgsql as $$
  begin raise exception 'Too late' using detail = 'It is noon', hint = 'come earlier'; end $$;
  create function public.forbid() returns int language plpgsql as $$
  begin raise sqlstate 'PT403' using message = 'Not this way'; end $$;
  create function public.echo() returns int language sql stable return 1;
  grant execute on function public.deny, public.refuse, public.forbid, public.echo to authenticated, anon;
`;

const SETTINGS = {
  DB_PRE_REQUEST: "checks.before",
  DB_EXTRA_SEARCH_PATH: "extensions, checks",
  PGRST_APP_SETTINGS_tenant: "7",
  GRAPHQL_DOCUMENTS: "any",
  TASK_CONCURRENCY: "2",
  REALTIME: "on",
  sseHeartbeat: 1,
};

const route = defineRoute({
  path: "/own",
  methods: {
    GET: async ({ query }, _response, { db }) => db.query(`select ${query.call ?? "echo"}()`),
  },
});

/** Starts a service that calls the function before each request. */
export async function startChecked(database: TestDatabase, settings: object = {}): Promise<TestService> {
  const { owner } = database;
  const [{ name }] = (await owner.query("select current_database() as name")).rows;
  await owner.query(`
    ${DDL};
    alter role authenticated in database ${name} set app.mode = 'of the role';
    alter role authenticated in database ${name} set lock_timeout = '4s';
    alter role authenticated in database ${name} set statement_timeout = '61s';
    alter role authenticated in database ${name} set timezone = 'Asia/Tokyo';
  `);
  const definition = { ...DEMO, config: { ...DEMO.config, routes: [route] } };
  return startTestService({ ...SETTINGS, ...settings }, database, undefined, undefined, { definition });
}

/** What a transaction of Ada by an interface is run with. */
export const expectedOf = ({ method, path, zone = "Asia/Tokyo" }: Interface) => ({
  ...{ role: "authenticated", sub: "1", method, path, header: "1" },
  ...{ mode: "of the role", lockTimeout: "4s", statementTimeout: "61s", zone },
  ...{ searchPath: '"public", "extensions", "checks"', tenant: "7" },
});

/** Who uses the interfaces of a service, and what the requests of their transactions are to be run with. */
export type Caller = { readonly at: TestService; readonly as: DemoUser; readonly expected?: object };

const probesOf = ({ expected = {} }: Caller) => ({ "x-probe": "1", "x-expected": JSON.stringify(expected) });

export const headersOf = (by: Caller): Record<string, string> => ({
  apikey: by.at.service.tokens.issueKey("anon"),
  authorization: `Bearer ${by.at.token(by.as)}`,
  ...probesOf(by),
});

export async function sent(by: Caller, path: string, init: { method?: string; body?: unknown; headers?: object } = {}) {
  const { method = init.body === undefined ? "GET" : "POST", body } = init;
  const headers = { ...headersOf(by), "content-type": "application/json", ...init.headers };
  const reply = await fetch(`${by.at.url}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return `${reply.status} ${await reply.text()}`;
}

const graphql = (by: Caller, query: string) => sent(by, "/graphql", { body: { query } });

/** What the client of a stream gets first. */
async function streamed(
  by: Caller,
  path: string,
  more: { lastEventId?: string; body?: unknown } = {},
): Promise<string> {
  const client = new EventStreamClient(`${by.at.url}${path}`, {
    headers: headersOf(by),
    ...(more.body !== undefined && { method: "POST" }),
    ...more,
  });
  await expect.poll(() => client.text.replace(/^retry: \d+\s*/, ""), POLL).not.toBe("");
  return client.text;
}

/** The position of a stream that has begun. */
async function positionNow(at: TestService): Promise<string> {
  const client = new EventStreamClient(`${at.url}/rest/v1/notes`, { headers: headersOf({ at, as: "ada" }) });
  await expect.poll(() => client.lastEventId, POLL).toBeDefined();
  client.close();
  return client.lastEventId!;
}

export const socketOf = (by: Caller) => connect(by.at, { as: by.as, headers: probesOf(by) });

async function joined(by: Caller, config: object): Promise<string> {
  const client = await new ChannelClient(by.at, "127.0.0.1", probesOf(by)).open();
  const reply = await client.ask("room", "phx_join", { config, access_token: by.at.token(by.as) });
  return JSON.stringify(reply);
}

async function subscribed(by: Caller): Promise<string> {
  const { service: opened } = by.at;
  await expect.poll(() => opened.open().subscriptions, POLL).toBe(0);
  const subscription = socketOf(by).subscribeSoon("subscription { onNoteCreated { id body } }");
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
  /** Whether a replica may answer. */
  readonly isRead?: true;
  /** What `use` needs. */
  readonly prepare?: (at: TestService) => Promise<string>;
  readonly use: (by: Caller, prepared?: string) => Promise<string>;
};

export const INTERFACES: Readonly<Record<string, Interface>> = {
  "tables, reading": {
    isRead: true,
    method: "GET",
    path: "/notes",
    use: (by) => sent(by, "/rest/v1/notes?select=id"),
  },
  "tables, writing": {
    ...{ method: "POST", path: "/notes" },
    use: (by) => sent(by, "/rest/v1/notes", { body: { body: "x" } }),
  },
  "tables, with QUERY": {
    isRead: true,
    method: "QUERY",
    path: "/notes",
    use: (by) => sent(by, "/rest/v1/notes", { method: "QUERY" }),
  },
  functions: {
    isRead: true,
    method: "POST",
    path: "/rpc/echo",
    use: (by) => sent(by, "/rest/v1/rpc/echo", { body: {} }),
  },
  exports: {
    isRead: true,
    ...{ method: "GET", path: "/notes" },
    use: (by) => sent(by, "/rest/v1/notes", { headers: { accept: "application/x-ndjson" } }),
  },
  "a stream of a table": { isRead: true, method: "GET", path: "/notes", use: (by) => streamed(by, "/rest/v1/notes") },
  "a stream that is resumed": {
    ...{ method: "GET", path: "/notes" },
    prepare: positionNow,
    use: (by, position) => streamed(by, "/rest/v1/notes", { lastEventId: position! }),
  },
  "a task": {
    ...{ method: "POST", path: "/rpc/echo" },
    use: (by) => sent(by, "/rest/v1/rpc/echo", { body: {}, headers: { prefer: "respond-async" } }),
  },
  // The contract's times are UTC.
  resources: { isRead: true, method: "GET", path: "/articles", zone: "UTC", use: (by) => sent(by, "/articles") },
  "routes of the application": { method: "GET", path: "/own", use: (by) => sent(by, "/own") },
  "GraphQL, reading": {
    isRead: true,
    method: "POST",
    path: "/graphql",
    use: (by) => graphql(by, "{ notes { edges { node { id } } } }"),
  },
  "GraphQL, writing": { method: "POST", path: "/graphql", use: (by) => graphql(by, "mutation { deny }") },
  "GraphQL over a WebSocket": {
    isRead: true,
    ...{ method: "GET", path: "/graphql" },
    use: async (by) => JSON.stringify(await socketOf(by).run("{ notes { edges { node { id } } } }")),
  },
  "a subscription over a WebSocket": { method: "GET", path: "/graphql", use: subscribed },
  "a subscription over server-sent events": {
    ...{ method: "POST", path: "/graphql" },
    use: (by) => streamed(by, "/graphql", { body: { query: "subscription { onNoteCreated { id } }" } }),
  },
  "a public channel": { method: "GET", path: "/realtime/v1/websocket", use: (by) => joined(by, {}) },
  "a private channel": { method: "GET", path: "/realtime/v1/websocket", use: (by) => joined(by, { private: true }) },
  "a channel with changes": {
    ...{ method: "GET", path: "/realtime/v1/websocket" },
    use: (by) => joined(by, { postgres_changes: [{ event: "*", schema: "public", table: "notes" }] }),
  },
  "broadcasts over HTTP": {
    ...{ method: "POST", path: "/realtime/v1/api/broadcast" },
    use: (by) => {
      const message = { topic: "room", event: "e", payload: {} };
      return sent(by, "/realtime/v1/api/broadcast", { body: { messages: [message] } });
    },
  },
};
