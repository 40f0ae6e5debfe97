import { createClient } from "graphql-sse";
import jwt from "jsonwebtoken";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { connect } from "../support/graphql-client.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** A field whose value waits until the test gives the lock back. */
const HELD = 4711;

const DDL = `
  create table public.todos (
    id int primary key generated always as identity,
    owner bigint not null, title text not null, done boolean not null default false
  );
  alter table public.todos enable row level security;
  create policy "own" on public.todos for select using (owner = (select auth.uid()) or owner = 0);
  grant select on public.todos to anon, authenticated;
  create table public.places (x int, y int, name text, primary key (x, y));
  alter table public.places enable row level security;
  create policy "everyone" on public.places for select using (true);
  grant select (x, y) on public.places to anon;
  create table public.crates (id int primary key, label text);
  insert into public.crates values (1, 'one'), (2, 'two');
  create function public.crates_held(crate public.crates) returns text language plpgsql stable
    as $$ begin perform pg_advisory_xact_lock_shared(${HELD}); return 'held'; end $$;
  grant select on public.crates to anon;
  create table public.jars (id int primary key, label text);
  insert into public.jars values (1, 'one');
  grant select on public.jars to anon;
  grant execute on function public.crates_held to anon;
  create table public.doors (note text primary key);
  insert into public.doors values ('behind the door');
  create function public.todos_note(todo public.todos) returns text language sql stable security definer set search_path = ''
    return (select note from public.doors);
  grant execute on function public.todos_note to anon;
`;

let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(DDL);
  // No heartbeat: the position of a stream is there from its start.
  const settings = { GRAPHQL_DOCUMENTS: "any", INSTANCE_ID: "tables", sseHeartbeat: 3600 };
  service = await startTestService(settings, database);
});
afterAll(() => service.stop());
// The next test must not count subscriptions that this one has left open.
beforeEach(() => expect.poll(() => service.service.open().subscriptions, POLL).toBe(0));

const sql = async (text: string, ...values: unknown[]) => (await service.database.owner.query(text, values)).rows;
const todo = async (owner: number, title: string) =>
  (await sql("insert into todos (owner, title) values ($1, $2) returning id", owner, title))[0].id;

/** A subscription over Server-Sent Events. */
function events(query: string, { as, ...sent }: { as?: "ada" | "bob"; lastEventId?: string | undefined } = {}) {
  const headers: Record<string, string> = as ? { authorization: `Bearer ${service.token(as)}` } : {};
  return new EventStreamClient(`${service.url}/graphql`, { ...sent, headers, method: "POST", body: { query } });
}

/** Waits until the stream gets what is committed from now on. */
async function ready(...clients: EventStreamClient[]): Promise<void> {
  for (const client of clients) await expect.poll(() => client.lastEventId, POLL).toBeDefined();
}

test("every table has onCreated, onUpdated and onDeleted, which send what the subscriber may see", async () => {
  const ada = connect(service, { as: "ada" });
  const created = await ada.subscribe("subscription { onTodoCreated { id title done } }");
  const updated = await ada.subscribe("subscription { onTodoUpdated { id title done } }");
  const deleted = await ada.subscribe("subscription { onTodoDeleted { id title done } }");
  const anonymous = await connect(service).subscribe("subscription { onTodoCreated { title } }");
  const own = await todo(1, "own");
  const other = await todo(2, "other");
  const shared = await todo(0, "shared");
  const all = [own, other, shared];
  const row = (id: number, title: string, done: boolean) => ({ id: String(id), title, done });
  await created.expect({ onTodoCreated: row(own, "own", false) }, { onTodoCreated: row(shared, "shared", false) });
  await anonymous.expect({ onTodoCreated: { title: "shared" } });
  await sql("update todos set done = true where id = any($1)", all);
  await updated.expect({ onTodoUpdated: row(own, "own", true) }, { onTodoUpdated: row(shared, "shared", true) });
  await sql("delete from todos where id = any($1)", all);
  await deleted.expect({ onTodoDeleted: row(own, "own", true) }, { onTodoDeleted: row(shared, "shared", true) });
  for (const { faults, error } of [created, updated, deleted, anonymous]) expect([faults, error]).toEqual([[], null]);
});

test("the arguments of onUpdated and onDeleted are the primary key", async () => {
  const client = connect(service);
  const one = await client.subscribe("subscription { onPlaceUpdated(x: 1, y: 2) { x y } }");
  const column = await client.subscribe("subscription { onPlaceDeleted(x: 1) { x y } }");
  await sql("insert into places values (1, 1, 'a'), (1, 2, 'b'), (2, 2, 'c')");
  await sql("update places set name = name || '!'");
  await sql("delete from places");
  await column.expect({ onPlaceDeleted: { x: "1", y: "1" } }, { onPlaceDeleted: { x: "1", y: "2" } });
  for (const { onPlaceUpdated } of one.events) expect(onPlaceUpdated).toEqual({ x: "1", y: "2" });
});

test("onArticleChanged sends the new and the old article, also where they have fields of their own", async () => {
  const changed = await connect(service).subscribe(`subscription {
    onArticleChanged(filter: { authorId: { equalTo: 2 }, title: { startsWith: "Changed" } }) {
      operation new { title author { name } } old { title authorId tags status createdAt }
    }
  }`);
  const created = new Date("2026-11-20T08:30:00.123Z");
  const insert = `insert into articles (author_id, title, content, status, tags, created_at)
    values ($1, $2, 'x', 'PUBLISHED', '{a,"b c"}', $3) returning id`;
  await sql(insert, 1, "Changed by another", created);
  const [{ id }] = await sql(insert, 2, "Changed soon", created);
  await sql("update articles set title = 'Changed now' where id = $1", id);
  await sql("delete from articles where id = $1", id);
  const old = { authorId: "2", tags: ["a", "b c"], status: "PUBLISHED", createdAt: created.toISOString() };
  await expect
    .poll(() => changed.events.map(({ onArticleChanged: { operation, old } }) => [operation, old]), POLL)
    .toEqual([
      ["INSERT", null],
      ["UPDATE", { ...old, title: "Changed soon" }],
      ["DELETE", { ...old, title: "Changed now" }],
    ]);
  // It is read when the event arrives, and may be gone by then.
  for (const { onArticleChanged } of changed.events)
    expect([undefined, "Bob Kahn"]).toContain(onArticleChanged.new?.author.name);
  expect([changed.faults, changed.error]).toEqual([[], null]);
});

test("an old row has a column that is renamed, and renamed back, between the moments in which its event is decided and read", async () => {
  const held = await connect(service).subscribe("subscription { onCrateDeleted { id label held } }");
  const other = await connect(service).subscribe("subscription { onCrateDeleted { id } }");
  // The second event waits until the first one is read.
  await sql("select pg_advisory_lock($1)", HELD);
  await sql("delete from crates where id = 1");
  await other.expect({ onCrateDeleted: { id: "1" } });
  const waiting = () => sql("select from pg_locks where locktype = 'advisory' and objid = $1 and not granted", HELD);
  await expect.poll(waiting, POLL).toHaveLength(1);
  await sql("alter table crates rename label to mark");
  await sql("delete from crates where id = 2");
  await other.expect({ onCrateDeleted: { id: "1" } }, { onCrateDeleted: { id: "2" } });
  await sql("alter table crates rename mark to label");
  await sql("select pg_advisory_unlock($1)", HELD);
  const row = (id: string, label: string) => ({ onCrateDeleted: { id, label, held: "held" } });
  await held.expect(row("1", "one"), row("2", "two"));
});

test("an argument with a value that no key can have is refused, with its name", async () => {
  const refused = async (query: string) => {
    const { errors } = await connect(service).run(`subscription { ${query} }`);
    return errors!.map(({ message, extensions }: any) => [message, extensions.code, extensions.fields]);
  };
  const number = 'invalid input syntax for type bigint: "abc"';
  for (const verb of ["Updated", "Deleted"])
    expect(await refused(`onComment${verb}(id: "abc") { id }`)).toEqual([
      [number, "VALIDATION_ERROR", [{ field: "id", message: number, code: "VALIDATION_ERROR" }]],
    ]);
  const text = 'invalid input syntax for type integer: "b"';
  expect(await refused('onPlaceUpdated(x: "1", y: "b") { x }')).toEqual([
    [text, "VALIDATION_ERROR", [{ field: "y", message: text, code: "VALIDATION_ERROR" }]],
  ]);
  expect(await refused('onCommentUpdated(id: 1, filter: { articleId: { equalTo: "abc" } }) { id }')).toEqual([
    [number, "VALIDATION_ERROR", undefined],
  ]);
});

test("a TRUNCATE ends the subscriptions to deletions with an error, and no others", async () => {
  const deleted = await connect(service).subscribe("subscription { onPlaceDeleted { x } }");
  const changed = await connect(service).subscribe("subscription { onPlaceChanged { operation } }");
  const created = await connect(service).subscribe("subscription { onPlaceCreated { x } }");
  await sql("truncate places");
  await sql("insert into places values (7, 7, 'a')");
  await created.expect({ onPlaceCreated: { x: "7" } });
  for (const ended of [deleted, changed])
    await expect.poll(() => JSON.stringify([ended.faults, ended.error]), POLL).toMatch(/missed.*CHANGES_MISSED/);
  await sql("delete from places");
});

test("a table that is created and granted while the service runs has subscriptions", async () => {
  await sql(`create table public.boats (id int primary key, name text);
    alter table public.boats enable row level security;
    create policy "everyone" on public.boats for select using (true);
    grant select on public.boats to anon`);
  const { errors } = await expect
    .poll(() => service.gql('{ __type(name: "Subscription") { fields { name } } }'), POLL)
    .toSatisfy(({ data }) => data.__type.fields.some(({ name }: any) => name === "onBoatCreated"))
    .then(() => ({ errors: undefined }));
  expect(errors).toBeUndefined();
  const created = await connect(service).subscribe("subscription { onBoatCreated { name } }");
  await sql("insert into boats values (1, 'Fram')");
  await created.expect({ onBoatCreated: { name: "Fram" } });
});

test("many subscribers of a role get their own rows, which are read in one transaction for each event", async () => {
  const query = "subscription { onTodoCreated { title } }";
  const ada = await connect(service, { as: "ada" }).subscribe(query);
  const bob = await connect(service, { as: "bob" }).subscribe(query);
  const clients = Array.from({ length: 20 }, () => connect(service, { as: "bob" }));
  const others = await Promise.all(clients.map((client) => client.subscribe(query)));
  await expect.poll(() => service.service.open().subscriptions, POLL).toBe(22);
  const before = service.service.databaseWaits();
  await todo(0, "for both");
  for (const client of [ada, bob, ...others]) await client.expect({ onTodoCreated: { title: "for both" } });
  // Each alone would need a transaction of its own. On a busy machine, several are read for one event.
  expect(service.service.databaseWaits() - before).toBeLessThan(11);
  await todo(2, "for bob");
  await todo(1, "for ada");
  await ada.expect({ onTodoCreated: { title: "for both" } }, { onTodoCreated: { title: "for ada" } });
  await bob.expect({ onTodoCreated: { title: "for both" } }, { onTodoCreated: { title: "for bob" } });
});

test("an event whose row is read when the connection to the database is lost is sent when it is restored", async () => {
  const created = await connect(service).subscribe("subscription { onTodoCreated { title note } }");
  const locker = new pg.Client({ connectionString: service.database.url });
  await locker.connect();
  onTestFinished(() => locker.end());
  await locker.query("begin; lock table doors in access exclusive mode");
  await todo(0, "interrupted");
  const cut = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`;
  await expect.poll(async () => (await sql(cut)).length, POLL).toBe(1);
  await locker.query("rollback");
  await created.expect({ onTodoCreated: { title: "interrupted", note: "behind the door" } });
  expect([created.faults, created.error]).toEqual([[], null]);
});

test("graphql-sse receives the events of a subscription, and the result of a query", async () => {
  const client = createClient({ url: `${service.url}/graphql`, retryAttempts: 0 });
  onTestFinished(() => client.dispose());
  const results: unknown[] = [];
  let isDone = false;
  const end = client.subscribe(
    { query: "subscription { onTodoCreated { title } }" },
    { next: (result) => results.push(result), error: (error) => results.push(error), complete: () => (isDone = true) },
  );
  await expect
    .poll(async () => {
      await todo(0, "over SSE");
      return results[0];
    }, POLL)
    .toEqual({
      data: { onTodoCreated: { title: "over SSE" } },
      extensions: { changePosition: expect.stringMatching(/^[a-z0-9-]+$/) },
    });
  end();
  await expect.poll(() => isDone, POLL).toBe(true);
  const { value } = await client.iterate({ query: "{ users(limit: 1) { name } }" }).next();
  expect(value).toEqual({ data: { users: [expect.anything()] } });
});

test("a subscription over SSE resumes with Last-Event-ID, without a gap and without a duplicate", async () => {
  const query = "subscription { onTodoCreated { id } }";
  const first = events(query, { as: "ada" });
  await ready(first);
  const seen = await todo(1, "seen");
  // What was committed shortly before a subscription may be among its events.
  const eventOf = (id: number) => first.events.find(({ data }) => Number(data.data.onTodoCreated.id) === id);
  await expect.poll(() => eventOf(seen), POLL).toBeDefined();
  first.close();
  const missed = [await todo(1, "missed 1"), await todo(2, "hidden"), await todo(1, "missed 2")];
  const second = events(query, { as: "ada", lastEventId: eventOf(seen)!.id });
  missed.push(await todo(1, "live"));
  const received = await second.take(3, "next");
  expect(received.map(({ data }) => Number(data.data.onTodoCreated.id))).toEqual([missed[0], missed[2], missed[3]]);
});

test("a subscription over SSE resumes where it began if its connection was lost before the first event", async () => {
  const query = "subscription { onTodoCreated { id } }";
  const first = events(query, { as: "ada" });
  await expect.poll(() => first.lastEventId, POLL).toBeTruthy();
  first.close();
  const missed = await todo(1, "missed");
  const second = events(query, { as: "ada", lastEventId: first.lastEventId });
  const [received] = await second.take(1, "next");
  expect(Number(received!.data.data.onTodoCreated.id)).toBe(missed);
});

test.each([
  ["an invalid document", "subscription { nothing }", "VALIDATION_ERROR"],
  ["a field without a caller", "{ me { id } }", "AUTH_REQUIRED"],
])("over SSE, %s is a result with errors, and the end", async (_what, query, code) => {
  const client = events(query);
  const [next, complete] = await client.take(2);
  expect(next).toMatchObject({ event: "next", data: { errors: [{ extensions: { code } }] } });
  expect(complete).toMatchObject({ event: "complete", data: "" });
});

test("a subscription that resumes from a position that is too old gets an error, and the end", async () => {
  const client = events("subscription { onTodoCreated { id } }", { lastEventId: "other-1-1" });
  const [next] = await client.take(2);
  expect(next!.data.errors[0].message).toMatch(/changes have been missed/);
});

test.each([
  ["is not valid", "nonsense", "AUTH_REQUIRED"],
  ["has expired", undefined, "AUTH_EXPIRED"],
])(
  "a subscription over Server-Sent Events with a token that %s is 401, not a stream of an anonymous caller",
  async (_, given, code) => {
    const expired = () => jwt.sign({ ...(jwt.decode(service.token("ada")) as object), exp: 1 }, JWT_SECRET);
    const response = await fetch(`${service.url}/graphql?query=subscription{onTodoCreated{id}}`, {
      headers: { accept: "text/event-stream", authorization: `Bearer ${given ?? expired()}` },
    });
    expect([response.status, ((await response.json()) as any).errors[0].extensions.code]).toEqual([401, code]);
  },
);

test.each(["onJarUpdated { id label }", "onJarDeleted { id label }"])(
  "a subscription ends with one error when a column that it selects is renamed: %s",
  async (field) => {
    const label = await connect(service).subscribe(`subscription { ${field} }`);
    const all = await connect(service).subscribe("subscription { onJarUpdated { id } }");
    await sql("alter table jars rename label to mark");
    onTestFinished(
      () => void sql("alter table jars rename mark to label; insert into jars values (1) on conflict do nothing"),
    );
    await sql("update jars set mark = mark || '!'");
    await sql("update jars set mark = mark || '?'; delete from jars");
    await expect
      .poll(() => label.error, POLL)
      .toMatchObject([
        { message: "the schema has changed: this field no longer exists", extensions: { code: "RESOURCE_NOT_FOUND" } },
      ]);
    expect([label.events, label.faults, all.error]).toEqual([[], [], null]);
  },
);
