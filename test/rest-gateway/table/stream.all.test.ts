import { spawn } from "node:child_process";
import jwt from "jsonwebtoken";
import { expect, onTestFinished, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../../support/browser.ts";
import { EventStreamClient, type StreamSent } from "../../support/event-stream.ts";
import { type RestSent, useRest } from "../../support/rest-client.ts";
import { JWT_SECRET } from "../../support/service.ts";
import { POLL } from "../../support/until.ts";

const DDL = `
  create table notes (
    id int primary key generated always as identity,
    owner bigint not null, title text not null, stars int not null default 0, tags text[]
  );
  alter table notes enable row level security;
  create policy "own or starred" on notes for select using (owner = (select auth.uid()) or stars > 0);
  grant select on notes to anon, authenticated, service_role;
  create table secrets (id int primary key, visible text, hidden text);
  grant select (id, visible) on secrets to anon;
  alter table secrets enable row level security;
  create policy "everyone" on secrets using (true);
  create view titles with (security_invoker) as select id, title from notes;
  grant select on titles to anon;
  create table many (id int primary key);
  grant select on many to anon;
  alter table many enable row level security;
  create policy "everyone" on many using (true);
  create table emptied (id int primary key);
  grant select on emptied to anon;
  alter table emptied enable row level security;
  create policy "everyone" on emptied using (true);
`;
const { service, rest, sql } = useRest(
  // While a stream opens, more rows are inserted than a response usually has.
  { sseHeartbeat: 1, INSTANCE_ID: "stream", API_KEY_REQUIRED: "off", DB_MAX_ROWS: "0" },
  DDL,
);

function stream(path: string, { as, ...sent }: StreamSent & { readonly as?: RestSent["as"] } = {}): EventStreamClient {
  const { url, service: running, token } = service();
  const apikey = running.tokens.issueKey(as === "service" ? "service_role" : "anon");
  const signedIn: Record<string, string> = as && as !== "service" ? { authorization: `Bearer ${token(as)}` } : {};
  return new EventStreamClient(`${url}/rest/v1/${path}`, {
    ...sent,
    headers: { apikey, ...signedIn, ...sent.headers },
  });
}

const add = async (owner: number, title: string, stars = 0): Promise<number> =>
  (await sql("insert into notes (owner, title, stars) values ($1, $2, $3) returning id", owner, title, stars))[0].id;

test("a stream sends the rows as an event, and then each change with the same shape as supabase-js", async () => {
  const before = await add(1, "before", 1);
  const events = stream("notes?title=in.(before,a,b)&order=id", { as: "ada" });
  const [snapshot] = await events.take(1);
  expect(events.headers).toMatchObject({
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
  });
  expect(snapshot).toEqual({
    event: "snapshot",
    id: expect.any(String),
    data: [{ id: before, owner: 1, title: "before", stars: 1, tags: null }],
  });

  await sql("insert into notes (owner, title, tags) values (1, 'a', '{x,\"y z\"}')");
  await sql("update notes set title = 'b' where title = 'a'");
  await sql("delete from notes where title = 'b'");
  const [inserted, updated, deleted] = await events.take(3, "INSERT", "UPDATE", "DELETE");
  const row = { id: before + 1, owner: 1, title: "a", stars: 0, tags: ["x", "y z"] };
  const common = { schema: "public", table: "notes", commit_timestamp: expect.stringMatching(/^\d{4}-.*Z$/) };
  expect(inserted!.data).toEqual({ eventType: "INSERT", ...common, new: row });
  expect(updated!.data).toEqual({ eventType: "UPDATE", ...common, new: { ...row, title: "b" }, old: row });
  expect(deleted!.data).toEqual({ eventType: "DELETE", ...common, old: { ...row, title: "b" } });
});

test("a stream has the rights and the filters of its request, and a row that leaves them is a DELETE with its key", async () => {
  const ada = stream("notes?select=id,title&title=like.right*", { as: "ada" });
  const anonymous = stream("notes?select=id,title&title=like.right*");
  const few = stream("notes?select=id,title&or=(title.eq.right 2,stars.gt.5)", { as: "service" });
  for (const client of [ada, anonymous, few]) await client.take(1, "snapshot");
  const id = await add(1, "right 1");
  const other = await add(2, "right 2", 1);
  await sql("update notes set stars = 9 where id = $1", id);
  await sql("update notes set stars = 0 where id = any($1)", [id, other]);
  await sql("update notes set title = 'left' where id = $1", id);
  await sql("delete from notes where id = any($1)", [id, other]);
  await add(1, "right end", 9);

  const seen = async (client: EventStreamClient, count: number) =>
    (await client.take(count, "INSERT", "UPDATE", "DELETE")).map(({ data }) => [data.eventType, data.new ?? data.old]);
  const one = { id, title: "right 1" };
  const two = { id: other, title: "right 2" };
  const end = ["INSERT", { id: other + 1, title: "right end" }];
  expect(await seen(ada, 7)).toEqual([
    ["INSERT", one],
    ["INSERT", two],
    ["UPDATE", one],
    ["UPDATE", one],
    ["DELETE", { id: other }],
    ["DELETE", { id }],
    end,
  ]);
  expect(await seen(anonymous, 5)).toEqual([
    ["INSERT", two],
    ["UPDATE", one],
    ["DELETE", { id }],
    ["DELETE", { id: other }],
    end,
  ]);
  expect(await seen(few, 6)).toEqual([
    ["INSERT", two],
    ["UPDATE", one],
    ["DELETE", { id }],
    ["UPDATE", two],
    ["DELETE", two],
    end,
  ]);
});

/** Inserts rows from this id on, one after the other. `stop` resolves to the ids that were inserted. */
function write(first: number): { stop(): Promise<number[]> } {
  const ids: number[] = [];
  let isWriting = true;
  const writing = (async () => {
    for (let id = first; isWriting; id++) {
      await sql("insert into many values ($1)", id);
      ids.push(id);
    }
  })();
  const stop = async () => {
    isWriting = false;
    await writing;
    return ids;
  };
  onTestFinished(async () => void (await stop()));
  return { stop };
}

test("a client that connects again gets what was committed meanwhile, once and in order", async () => {
  const path = "many?id=gte.0";
  const received: number[] = [];
  let lastEventId: string | undefined;
  let written: number[] = [];
  const writer = write(0);
  for (let round = 0; round < 6; round++) {
    const client = stream(path, { lastEventId });
    await expect.poll(() => client.events.length, POLL).toBeGreaterThan(0);
    if (round === 5) {
      written = await writer.stop();
      await expect.poll(() => client.events.at(-1)?.data.new?.id, POLL).toBe(written.at(-1));
    }
    client.close();
    for (const { event, data } of client.events)
      received.push(...(event === "snapshot" ? data.map((row: any) => row.id) : [data.new.id]));
    expect(client.events.some(({ event }) => event === "gap")).toBe(false);
    ({ lastEventId } = client);
  }
  expect(received).toEqual(written);
});

test("a response has the position after which a stream continues without a gap and without a duplicate", async () => {
  await sql("delete from many");
  const writer = write(0);
  for (let round = 0; round < 5; round++) {
    const { json, headers } = await rest("many?select=id&order=id");
    const position = headers.get("change-position");
    expect(position).toMatch(/^[a-z0-9_-]+$/);
    const client = stream("many", { lastEventId: position! });
    await client.take(10, "INSERT");
    if (round === 4) {
      const written = await writer.stop();
      await expect.poll(() => client.events.at(-1)?.data.new.id, POLL).toBe(written.at(-1));
      const ids = [...json, ...client.events.map(({ data }) => data.new)].map(({ id }) => id);
      expect(ids).toEqual(written);
    }
    client.close();
    expect(client.events.every(({ event }) => event === "INSERT")).toBe(true);
  }
});

test("a TRUNCATE is a gap, after which the rows and the changes are sent again", async () => {
  const client = stream("emptied?order=id");
  await client.take(1, "snapshot");
  await sql("insert into emptied values (1)");
  await sql("begin; truncate emptied; insert into emptied values (2); commit");
  await expect.poll(() => client.events.map(({ event }) => event), POLL).toContain("gap");
  await expect.poll(() => client.events.findLast(({ event }) => event === "snapshot")?.data, POLL).toEqual([{ id: 2 }]);
  await sql("insert into emptied values (3)");
  await expect.poll(() => client.events.findLast(({ event }) => event === "INSERT")?.data.new, POLL).toEqual({ id: 3 });
});

test("a stream that resumes has the present names of columns, and a gap where another table has replaced its table", async () => {
  await sql(
    "create table ships (id int primary key, note text, twice int generated always as (id * 2) stored); grant select on ships to anon; notify pgrst, 'reload schema'",
  );
  await expect.poll(async () => (await rest("ships")).status, POLL).toBe(200);
  const first = stream("ships");
  await first.take(1, "snapshot");
  const start = first.lastEventId;
  await sql("insert into ships values (1, 'x')");
  await first.take(1, "INSERT");
  const named = stream("ships?select=id,note");
  await named.take(1, "snapshot");
  await sql("alter table ships rename column note to remark");
  await sql("insert into ships values (2, 'y')");
  const notes = ({ data }: { readonly data: any }) => data.new;
  const renamed = [
    { id: 1, remark: "x", twice: 2 },
    { id: 2, remark: "y", twice: 4 },
  ];
  await expect.poll(async () => (await rest("ships?select=remark")).status, POLL).toBe(200);
  expect((await stream("ships", { lastEventId: start }).take(2, "INSERT")).map(notes)).toEqual(renamed);

  const message = "public.ships no longer has the column note";
  expect((await named.take(1, "problem")).map(({ data }) => data)).toEqual([{ message }]);

  await first.take(2, "INSERT");
  await sql(`alter table ships rename to old_ships; create table ships (like old_ships including all);
    grant select on ships to anon; insert into ships values (3, 'z')`);
  await expect.poll(() => first.isEnded, POLL).toBe(true);
  const resumed = stream("ships", { lastEventId: first.lastEventId });
  const [gap, snapshot] = await resumed.take(2);
  expect([gap!.event, snapshot!.event, snapshot!.data]).toEqual([
    "gap",
    "snapshot",
    [{ id: 3, remark: "z", twice: 6 }],
  ]);
});

test("a stream has neither the rows nor the changes of a table that inherits from its table", async () => {
  await sql(`create table parents (id int primary key); create table heirs (primary key (id)) inherits (parents);
    grant select on parents, heirs to anon; insert into parents values (1); insert into heirs values (2)`);
  await expect.poll(async () => (await rest("heirs")).status, POLL).toBe(200);
  const client = stream("parents?order=id");
  expect((await client.take(1, "snapshot"))[0]!.data).toEqual([{ id: 1 }]);
  await sql("insert into heirs values (3)");
  await sql("insert into parents values (4)");
  expect((await client.take(1, "INSERT"))[0]!.data.new).toEqual({ id: 4 });
  expect((await rest("parents?order=id")).json).toEqual([1, 2, 3, 4].map((id) => ({ id })));
});

test("a position of another stream is a gap: the client gets the rows again", async () => {
  const client = stream("many?id=eq.7", { lastEventId: "other-1c4e8-2" });
  expect((await client.take(2)).map(({ event }) => event)).toEqual(["gap", "snapshot"]);
  await sql("update many set id = -7 where id = 7");
  expect((await client.take(1, "DELETE"))[0]!.data.old).toEqual({ id: 7 });
});

test("a filter means the same for the rows and for their changes", async () => {
  await sql("insert into secrets values (1, null, null)");
  // The text "null": a null is not that text.
  const events = stream("secrets?select=id,visible&visible=isdistinct.null");
  const [snapshot] = await events.take(1);
  await sql("insert into secrets values (2, 'null', null), (3, null, null)");
  const [inserted] = await events.take(1, "INSERT");
  expect([snapshot!.data, inserted!.data.new]).toEqual([[{ id: 1, visible: null }], { id: 3, visible: null }]);
  await sql("delete from secrets");
});

test("heartbeats keep a stream open, and move the place at which it resumes", async () => {
  const client = stream("many?id=eq.-1");
  const id = (await client.take(1))[0]!.id;
  await sql("insert into many values (-100)");
  await expect.poll(() => client.text, POLL).toMatch(/\n:\nid: [a-z0-9_-]+\n\n/);
  await expect.poll(() => client.lastEventId, POLL).not.toBe(id);
  expect(client.events).toHaveLength(1);
});

test.each([
  ["titles", 400, /changes of public.titles cannot be streamed/],
  ["rpc/me", 400, /results of functions/],
  ["notes?select=id,name:title", 400, /without aliases/],
  ["notes?select=title::text", 400, /without aliases and casts/],
  ["articles?select=id,author:users(name)", 400, /cannot embed/],
  ["notes?tags=cs.{x}", 400, /cannot be filtered with cs/],
  ["notes?stars=eq.many", 400, /invalid input syntax for type integer/],
  ["secrets?select=id,hidden", 403, /may not read the column hidden/],
  ["secrets?hidden=eq.x&select=id", 403, /may not read the column hidden/],
  ["no_table", 404, /no_table/],
])("a stream that is not possible is refused with the reason: %s", async (path, status, message) => {
  for (const id of ["", "other-1-1"]) {
    const reply = await rest(path, { headers: { accept: "text/event-stream", "last-event-id": id } });
    expect(reply.status).toBe(status);
    expect(reply.json.message).toMatch(message);
  }
});

test("a Last-Event-ID that is not an id is refused", async () => {
  const headers = { accept: "text/event-stream", "last-event-id": "yesterday" };
  expect(await rest("many", { headers })).toMatchObject({ status: 400, json: { code: "22023" } });
});

test("a stream ends when its role may no longer read the table", async () => {
  await sql("create table gone (id int primary key); grant select on gone to anon");
  await sql("alter table gone enable row level security");
  await sql("create policy everyone on gone using (true)");
  await expect.poll(async () => (await rest("gone")).status, POLL).toBe(200);
  const client = stream("gone");
  await client.take(1, "snapshot");
  await sql("revoke select on gone from anon");
  await sql("insert into gone values (1)");
  // Which of the two comes first: that the role may not, or that no caller may and so the table is no longer published.
  expect((await client.take(1, "problem"))[0]!.data.message).toMatch(
    /^the role anon may not SELECT from public.gone$|^changes of public.gone cannot be streamed: "public"."gone" is not a table that callers may read$/,
  );
  await expect.poll(() => client.isEnded, POLL).toBe(true);
  expect(client.events.some(({ event }) => event === "INSERT")).toBe(false);
});

test.each([
  ["revoked", "revoke select on revoked from anon"],
  ["closed", "drop policy everyone on closed"],
  ["dropped", "drop table dropped"],
])("a stream of the table %s ends without a change after: %s", async (table, change) => {
  await sql(`create table ${table} (id int primary key); grant select on ${table} to anon`);
  await sql(`alter table ${table} enable row level security`);
  await sql(`create policy everyone on ${table} using (true)`);
  await expect.poll(async () => (await rest(table)).status, POLL).toBe(200);
  const client = stream(table);
  await client.take(1, "snapshot");
  await sql(change);
  await client.take(1, "problem");
  await expect.poll(() => client.isEnded, POLL).toBe(true);
});

test("a stream ends when the access token expires", async () => {
  const exp = Math.ceil(Date.now() / 1000) + 4;
  const claims = { sub: "1", role: "authenticated", type: "access", iss: "content-service", exp };
  const client = stream("notes", { headers: { authorization: `Bearer ${jwt.sign(claims, JWT_SECRET)}` } });
  await client.take(1, "snapshot");
  expect((await client.take(1, "problem"))[0]!.data).toEqual({
    message: "the access token has expired: refresh it, or sign in again",
  });
  await expect.poll(() => client.isEnded, POLL).toBe(true);
});

test("a slow client is not sent more than it takes, and gets everything when it reads on", async () => {
  const client = stream("notes?title=like.big*", { as: "service" });
  await client.take(1, "snapshot");
  client.response!.pause();
  for (let i = 0; i < 40; i++)
    await sql("insert into notes (owner, title) values (1, 'big' || repeat('x', 200000) || $1)", i);
  await sql("insert into notes (owner, title) values (1, 'big end')");
  client.response!.resume();
  const events = await client.take(41, "INSERT");
  expect(events.map(({ data }) => data.new.title.replace(/x+/, ""))).toEqual([
    ...Array.from({ length: 40 }, (_, i) => `big${i}`),
    "big end",
  ]);
});

test("curl -N shows a stream", async () => {
  const { url, service: running } = service();
  const curl = spawn("curl", [
    "-sN",
    "-H",
    "Accept: text/event-stream",
    `${url}/rest/v1/many?id=eq.5000&api_key=${running.tokens.issueKey("anon")}`,
  ]);
  onTestFinished(() => void curl.kill());
  let text = "";
  curl.stdout.on("data", (chunk) => {
    text += chunk;
  });
  await expect.poll(() => text, POLL).toMatch(/event: snapshot\ndata: \[\]\n\n/);
  await sql("insert into many values (5000)");
  await expect
    .poll(() => text, POLL)
    .toMatch(/id: \S+\nevent: INSERT\ndata: \{"eventType":"INSERT".*"new":\{"id":5000\}\}\n\n/);
});

test.skipIf(!hasBrowser("EventSource"))("EventSource in a browser resumes by itself", async () => {
  const { url, service: running } = service();
  const browser = await sharedBrowser();
  onTestFinished(closePages);
  const page = await browser.newPage();
  await page.goto(`${url}/live`);
  // As a string: the types of a page are not those of Node.
  await page.evaluate(`
    seen = [];
    events = new EventSource("${url}/rest/v1/many?id=gte.9000&api_key=${running.tokens.issueKey("anon")}");
    events.addEventListener("snapshot", ({ data }) => seen.push("snapshot " + data));
    events.addEventListener("INSERT", ({ data }) => seen.push(JSON.parse(data).new.id));
  `);
  const seen = () => page.evaluate("seen.join()");
  await expect.poll(seen, POLL).toBe("snapshot []");
  await sql("insert into many values (9000)");
  await expect.poll(seen, POLL).toBe("snapshot [],9000");
  service().service.endStreams();
  await sql("insert into many values (9001)");
  await expect.poll(seen, POLL).toBe("snapshot [],9000,9001");
});
