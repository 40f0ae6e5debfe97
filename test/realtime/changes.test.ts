import { expect, onTestFinished, test } from "vitest";
import { withClient } from "../../db/cluster/client.ts";
import { type Observed, observe, observing, summary, useRealtime } from "../support/realtime.ts";
import { POLL } from "../support/until.ts";

const { client, service, sql } = useRealtime();

test("a subscriber receives inserts, updates and deletes of the rows that it may see, with the row before and after", async () => {
  const ada = await observing(client({ as: "ada" }), "todos", [{ event: "*", schema: "public", table: "todos" }]);
  const bob = await observing(client({ as: "bob" }), "todos", [{ event: "*", schema: "public", table: "todos" }]);
  await sql(
    `insert into todos (id, owner, title, size, tags, meta) values (1, 1, 'milk', 1.5, '{a,b c}', '{"k": [1]}')`,
  );
  await sql("insert into todos (id, owner, title) values (2, 2, 'bread')");
  await sql("update todos set done = true where id = 1");
  await sql("delete from todos");
  await expect.poll(() => summary(ada)).toEqual(["INSERT 1", "UPDATE 1", "DELETE 1"]);
  await expect.poll(() => summary(bob)).toEqual(["INSERT 2", "DELETE 2"]);
  const row = { id: 1, owner: 1, title: "milk", done: false, size: 1.5, tags: ["a", "b c"], meta: { k: [1] } };
  expect(ada.changes[0]).toMatchObject({ schema: "public", table: "todos", new: row, old: {}, errors: null });
  expect(ada.changes[0].commit_timestamp).toMatch(/^\d{4}-\d\d-\d\dT/);
  expect(ada.changes[1]).toMatchObject({ new: { ...row, done: true }, old: row });
  expect(ada.changes[2]).toMatchObject({ new: {}, old: { ...row, done: true } });
});

test.each([
  ["1.0.0", 11],
  ["2.0.0", 12],
])("the version %s of the message format works", async (vsn, id) => {
  const notes = await observing(client({ realtime: { vsn } }), "notes", [
    { event: "INSERT", schema: "public", table: "notes" },
  ]);
  await sql(`insert into notes (id, body) values (${id}, 'one')`);
  await expect.poll(() => summary(notes)).toEqual([`INSERT ${id}`]);
  expect(notes.changes[0].new).toEqual({ id, room: null, body: "one" });
  expect(await notes.channel.unsubscribe()).toBe("ok");
  expect(notes.states).toEqual(["SUBSCRIBED", "CLOSED"]);
});

test("a TRUNCATE is a gap for those who want deletes, and their channel stays open", async () => {
  const on = (event: string) => ({ event, schema: "public", table: "notes" });
  const all = await observing(client(), "all", [on("*")]);
  const inserts = await observing(client(), "inserts", [on("INSERT")]);
  await sql("truncate notes");
  await sql("insert into notes (id, body) values (41, 'one')");
  await expect.poll(() => summary(all)).toEqual(["INSERT 41"]);
  await expect.poll(() => summary(inserts)).toEqual(["INSERT 41"]);
  expect(all.system.filter(({ gap }) => gap)).toMatchObject([
    { status: "error", message: "the table public.notes was truncated: load the data again" },
  ]);
  expect(inserts.system.filter(({ gap }) => gap)).toEqual([]);
  expect(all.states).toEqual(["SUBSCRIBED"]);
  await sql("delete from notes");
  // The next subscribers begin after it.
  await expect.poll(() => summary(all)).toEqual(["INSERT 41", "DELETE 41"]);
});

test("an event of a binding selects inserts, updates or deletes", async () => {
  const on = (event: string) => ({ event, schema: "public", table: "notes" });
  const all = client();
  const inserts = await observing(all, "inserts", [on("INSERT")]);
  const updates = await observing(all, "updates", [on("UPDATE")]);
  const deletes = await observing(all, "deletes", [on("DELETE")]);
  await sql("insert into notes (id, body) values (21, 'one')");
  await sql("update notes set body = 'two' where id = 21");
  await sql("delete from notes where id = 21");
  await expect.poll(() => summary(deletes)).toEqual(["DELETE 21"]);
  expect([summary(inserts), summary(updates)]).toEqual([["INSERT 21"], ["UPDATE 21"]]);
});

test("a client subscribes to all tables that it may read, and to several bindings on one channel", async () => {
  const all = await observing(client({ as: "ada" }), "all", [{ event: "*", schema: "public" }]);
  const two = await observing(client({ as: "ada" }), "two", [
    { event: "INSERT", schema: "public", table: "notes", filter: "room=eq.a" },
    { event: "*", schema: "public", table: "notes", filter: "id=gt.30" },
    { event: "INSERT", schema: "public", table: "todos", select: ["title"] },
  ]);
  await sql("insert into notes (id, room) values (31, 'a'), (32, 'b')");
  await sql("insert into todos (id, owner, title) values (33, 1, 'milk')");
  await sql("delete from notes");
  await expect.poll(() => summary(all).length).toBe(5);
  expect(summary(all).slice(0, 3)).toEqual(["INSERT 31", "INSERT 32", "INSERT 33"]);
  expect(all.changes[2].table).toBe("todos");
  // Both bindings call back for the first note.
  await expect.poll(() => summary(two).length).toBe(6);
  expect(summary(two).slice(0, 4)).toEqual(["INSERT 31", "INSERT 31", "INSERT 32", "INSERT 33"]);
  expect(two.changes[3].new).toEqual({ id: 33, title: "milk" });
  await sql("delete from todos");
});

const FILTERS = [
  ["body=eq.milk", ["1"]],
  ["body=neq.milk", ["2", "3"]],
  ["id=lt.2", ["1"]],
  ["id=lte.2", ["1", "2"]],
  ["id=gt.2", ["3", "4"]],
  ["id=gte.2", ["2", "3", "4"]],
  ["id=in.(1,3,9)", ["1", "3"]],
  ['body=in.("a,b",milk)', ["1", "2"]],
  ["body=like.m%", ["1"]],
  ["body=ilike.M%", ["1"]],
  ["body=match.^m.*k$", ["1"]],
  ["body=imatch.^M", ["1"]],
  ["room=is.null", ["3", "4"]],
  ["room=not.is.null", ["1", "2"]],
  ["body=isdistinct.milk", ["2", "3", "4"]],
  ["body=isdistinct.null", ["1", "2", "3"]],
  ["body=not.eq.milk", ["2", "3"]],
  ["body=not.in.(milk)", ["2", "3"]],
  ['body=eq."a,b"', ["2"]],
  ["id=gt.1,id=lt.4", ["2", "3"]],
  ["or=(id.eq.1,and(id.gt.2,body.eq.c))", ["1", "3"]],
  ["not.or=(id.eq.1,id.eq.2)", ["3", "4"]],
  ["room=eq.a,or=(id.eq.2,id.eq.3)", ["2"]],
  ["", ["1", "2", "3", "4"]],
] as const;

/** Values with commas, quotes and brackets. */
const QUOTED = [
  ['body=eq."a,b"', ["1"]],
  ['body=eq.say "hi"', ["2"]],
  ['body=eq."say \\"hi\\"",id=gt.1', ["2"]],
  ["body=eq.a(b", ["3"]],
  ["body=eq.:)", ["4"]],
  ['body=in.("a(b","say \\"hi\\"",(c))', ["2", "3", "5"]],
  ['body=neq."a(b",body=neq.":)",id=lt.5', ["1", "2"]],
  ["body=eq.(c),id=gt.1", ["5"]],
  ['or=(body.eq."a,b",body.eq.":)")', ["1", "4"]],
] as const;

test.each([
  [
    "selects rows with all operators of the table interface, and with and, or and not",
    FILTERS,
    "(1, 'a', 'milk'), (2, 'a', 'a,b'), (3, null, 'c'), (4, null, null)",
  ],
  [
    "compares values with commas, quotes and brackets",
    QUOTED,
    `(1, '', 'a,b'), (2, '', 'say "hi"'), (3, '', 'a(b'), (4, '', ':)'), (5, '', '(c)')`,
  ],
] as const)("a filter %s", async (_behaviour, filters, rows) => {
  const all = client();
  const table = { schema: "public", table: "notes" };
  const on = (filter: string) => [
    { ...table, event: "INSERT", filter },
    { ...table, event: "DELETE" },
  ];
  const filtered = await Promise.all(filters.map(([filter]) => observing(all, `filter ${filter}`, on(filter))));
  const { length } = await sql(`insert into notes (id, room, body) values ${rows} returning id`);
  await sql("delete from notes");
  const deletes = (observed: Observed) => summary(observed).filter((text) => text.startsWith("DELETE")).length;
  await expect.poll(() => filtered.every((observed) => deletes(observed) === length)).toBe(true);
  const inserts = (observed: Observed) => observed.changes.flatMap((change) => change.new.id?.toString() ?? []);
  expect(filtered.map((observed, i) => [filters[i]![0], inserts(observed)])).toEqual(filters);
});

test("records have generated columns, and values of types with a cast to json as a select has them", async () => {
  await sql(`create extension hstore;
    create table public.shelves (id int primary key, w int, area int generated always as (w * 2) stored, labels hstore);
    grant select, insert on public.shelves to anon;
    notify pgrst, 'reload schema'`);
  const api = client();
  const on = { event: "*", schema: "public", table: "shelves" };
  await expect.poll(async () => (await api.from("shelves").select()).status).toBe(200);
  const shelves = await observing(api, "shelves", [on]);
  const areas = await observing(client(), "areas", [{ ...on, select: ["area"] }]);
  await sql("insert into shelves (id, w, labels) values (1, 3, 'k=>v')");
  await sql("update shelves set w = 4");
  await expect.poll(() => shelves.changes.length).toBe(2);
  const { data } = await api.from("shelves").select().single();
  expect(data).toEqual({ id: 1, w: 4, area: 8, labels: { k: "v" } });
  expect(shelves.changes.map(({ new: row, errors }) => [row, errors])).toEqual([
    [{ ...data, w: 3, area: 6 }, null],
    [data, null],
  ]);
  expect(shelves.changes[1].old).toEqual(shelves.changes[0].new);
  await expect
    .poll(() => areas.changes.map((change) => change.new))
    .toEqual([
      { id: 1, area: 6 },
      { id: 1, area: 8 },
    ]);
});

/** DDL is announced only if a superuser has created the event triggers. */
const announcing = (state: "enable" | "disable") =>
  sql(`alter event trigger announce_schema_change ${state}; alter event trigger announce_schema_drop ${state}`);

test.each(["enable", "disable"] as const)(
  "columns are renamed and tables recreated under a listener, with event triggers %sd",
  async (state) => {
    await sql(`drop table if exists public.ships;
      create table public.ships (id int primary key, name text, note text);
      grant select, insert on public.ships to anon; notify pgrst, 'reload schema'`);
    const api = client();
    const isServed = async (query: string) => (await api.from("ships").select(query)).status;
    await expect.poll(() => isServed("note")).toBe(200);
    await announcing(state);
    onTestFinished(() => void announcing("enable"));
    const on = { event: "*", schema: "public", table: "ships" };
    const ships = await observing(api, "ships", [on]);
    const filtered = await observing(client(), "filtered ships", [{ ...on, filter: "note=eq.x" }]);
    const rows = () => ships.changes.map((change) => change.new);
    // The first rename precedes the first change.
    await sql("alter table ships rename column name to title");
    await sql("insert into ships values (1, 'a', 'x')");
    await expect.poll(rows).toEqual([{ id: 1, title: "a", note: "x" }]);
    await sql("alter table ships rename column note to remark");
    await sql("insert into ships values (2, 'b', 'x')");
    await expect.poll(rows).toEqual([
      { id: 1, title: "a", note: "x" },
      { id: 2, title: "b", remark: "x" },
    ]);
    await expect.poll(() => filtered.system.at(-1)?.message).toContain("note");
    expect(filtered.system.at(-1).message).not.toContain("publication");

    await sql(`drop table ships; create table ships (id uuid primary key default gen_random_uuid(), name text);
      grant select, insert on ships to anon`);
    await sql("insert into ships (name) values ('early')");
    await sql("notify pgrst, 'reload schema'");
    const isGap = () => ships.system.some(({ gap }) => gap);
    const isEarly = () => rows().some(({ name }) => name === "early");
    await expect.poll(() => isGap() || isEarly()).toBe(true);
    // The library has joined again.
    await expect.poll(() => ships.states.filter((each) => each === "SUBSCRIBED").length, POLL).toBe(isGap() ? 2 : 1);
    await sql("insert into ships (name) values ('late')");
    await expect.poll(() => rows().at(-1)).toEqual({ id: expect.any(String), name: "late" });
  },
);

const UNPUBLISH = "alter publication content_changes drop table days";
/** What a DBA does and undoes; null if the service undoes it. */
const INTERRUPTIONS = [
  ["the table is not published", UNPUBLISH, null],
  [
    "only some rows are published",
    `${UNPUBLISH}; alter publication content_changes add table days where (id > 9)`,
    `${UNPUBLISH}; alter publication content_changes add table days`,
  ],
  [
    "the publication leaves out deletions",
    "alter publication content_changes set (publish = 'insert')",
    "alter publication content_changes set (publish = 'insert, update, delete, truncate')",
  ],
  [
    "partitions are published",
    "alter publication content_changes set (publish_via_partition_root = false)",
    "alter publication content_changes set (publish_via_partition_root = true)",
  ],
  [
    "a partition is detached",
    "alter table days detach partition early_days",
    "alter table days attach partition early_days for values from (0) to (10)",
  ],
  ["old rows are logged without what a policy reads", "alter table early_days replica identity default", null],
] as const;

test.each(INTERRUPTIONS)("while %s for a moment, what is missed is a gap", async (_about, interrupt, undo) => {
  await sql(`create table public.days (id int, at int, owner int, primary key (id, at)) partition by range (at);
    create table public.early_days partition of public.days for values from (0) to (10);
    alter table public.days enable row level security;
    create policy "own" on public.days to authenticated using (owner = auth.uid()::int);
    grant select on public.days to authenticated;
    insert into public.days values (1, 1, 1), (2, 1, 1);
    notify pgrst, 'reload schema'`);
  onTestFinished(async () => void (await sql("drop table public.days")));
  const api = client({ as: "ada" });
  await expect.poll(async () => (await api.from("days").select()).data?.length).toBe(2);
  await sql("alter event trigger protect_published_writes disable");
  onTestFinished(async () => void (await sql("alter event trigger protect_published_writes enable")));
  const days = await observing(api, "days", [{ event: "*", schema: "public", table: "days" }]);
  await sql(`begin; ${interrupt}; delete from early_days where id = 1; ${undo ?? "select 1"}; commit`);
  await expect.poll(() => days.system.some(({ gap }) => gap), POLL).toBe(true);
  await expect.poll(() => days.states.filter((each) => each === "SUBSCRIBED").length, POLL).toBe(2);
  await sql("delete from days where id = 2");
  await expect.poll(() => summary(days), POLL).toEqual(["DELETE 2"]);
});

test("the old rows of a table with partitions have their nulls, and new ones the large values that did not change", async () => {
  await sql(`create table public.weeks (id int, at int, gone text, body text, primary key (id, at)) partition by range (at);
    create table public.early_weeks partition of public.weeks for values from (0) to (10);
    alter table public.weeks enable row level security;
    create policy "not gone" on public.weeks to anon using (gone is null);
    grant select on public.weeks to anon; notify pgrst, 'reload schema'`);
  const api = client();
  await expect.poll(async () => (await api.from("weeks").select()).status).toBe(200);
  const weeks = await observing(api, "weeks", [{ event: "*", schema: "public", table: "weeks" }]);
  // Its old rows are whole from its first change on.
  await sql(`create table public.late_weeks partition of public.weeks for values from (10) to (20);
    insert into weeks select id, id, null, string_agg(md5(n::text), '') from generate_series(1, 500) as n, unnest(array[1, 11]) as id group by id;
    update weeks set id = id + 1; update weeks set gone = 'yes' where id = 2; delete from weeks`);
  const events = () => summary(weeks);
  await expect.poll(events, POLL).toEqual(["INSERT 1", "INSERT 11", "UPDATE 2", "UPDATE 12", "DELETE 2", "DELETE 12"]);
  const { new: row, old } = weeks.changes[2];
  expect([row.body.length, old]).toEqual([16_000, { ...row, id: 1 }]);
  expect(weeks.changes[5].old).toEqual({ id: 12, at: 11, gone: null, body: row.body });
});

test("an update that cannot be checked, because a large value is not logged, is named", async () => {
  await sql(`create table public.books (id int primary key, pages int, text text, twice int generated always as (pages * 2) virtual);
    grant select on public.books to anon; notify pgrst, 'reload schema'`);
  const api = client();
  await expect.poll(async () => (await api.from("books").select()).status).toBe(200);
  const on = { event: "UPDATE", schema: "public", table: "books" };
  const books = await observing(api, "books", [{ ...on, filter: "text=like.c*" }]);
  const all = await observing(client(), "all books", [on]);
  await sql("insert into books select 1, 1, string_agg(md5(n::text), '') from generate_series(1, 500) as n");
  await sql("update books set pages = 2");
  await expect.poll(() => books.system.at(-1)?.message).toContain("an update has not changed a large value");
  await expect.poll(() => summary(all)).toEqual(["UPDATE 1"]);
});

test("a row of a table that was dropped before its changes were read does not arrive without its columns", async () => {
  await sql(`create table public.boats (id int primary key);
    grant select on public.boats to anon; notify pgrst, 'reload schema'`);
  const api = client();
  await expect.poll(async () => (await api.from("boats").select()).status).toBe(200);
  const boats = await observing(api, "boats", [{ event: "*", schema: "public", table: "boats" }]);
  await withClient(service().database.url, async (dba) => {
    await dba.query("begin; insert into public.boats values (1)");
    // Until the table is gone, its columns cannot be read.
    await sql("begin; lock table pg_catalog.pg_attribute in access exclusive mode");
    await dba.query("commit");
    await sql("drop table public.boats; commit");
  });
  await expect.poll(() => boats.system.at(-1)?.message).toContain("there is no table public.boats");
  expect(boats.changes).toEqual([]);
});

test("an update that takes a row out of the view of a caller arrives as DELETE with the key", async () => {
  const ada = await observing(client({ as: "ada" }), "view", [{ event: "*", schema: "public", table: "todos" }]);
  const bob = await observing(client({ as: "bob" }), "view", [{ event: "*", schema: "public", table: "todos" }]);
  await sql("insert into todos (id, owner, title) values (51, 1, 'milk')");
  await sql("update todos set owner = 2 where id = 51");
  await sql("delete from todos");
  await expect.poll(() => summary(ada)).toEqual(["INSERT 51", "DELETE 51"]);
  expect(ada.changes[1]).toMatchObject({ new: {}, old: { id: 51 } });
  expect(Object.keys(ada.changes[1].old)).toEqual(["id"]);
  await expect.poll(() => summary(bob)).toEqual(["UPDATE 51", "DELETE 51"]);
  // The old row was not Bob's.
  expect(bob.changes[0].old).toEqual({ id: 51 });
});

test("columns that the role may not read are left out, and select limits the others", async () => {
  const on = { event: "*", schema: "public", table: "notes" };
  const whole = await observing(client(), "whole", [on]);
  const some = await observing(client(), "some", [{ ...on, select: ["room"] }]);
  await sql("insert into notes (id, room, body, secret) values (61, 'a', 'b', 'c')");
  await sql("delete from notes");
  await expect.poll(() => whole.changes.length).toBe(2);
  expect(whole.changes[0].new).toEqual({ id: 61, room: "a", body: "b" });
  expect(whole.changes[1].old).toEqual({ id: 61, room: "a", body: "b" });
  await expect.poll(() => some.changes.length).toBe(2);
  expect(some.changes[0].new).toEqual({ id: 61, room: "a" });
});

test("a column that is revoked while a client is subscribed is left out from then on", async () => {
  await sql("grant select (secret) on notes to anon");
  const notes = await observing(client(), "revoked", [{ event: "INSERT", schema: "public", table: "notes" }]);
  await sql("insert into notes (id, secret) values (65, 'c')");
  await expect.poll(() => notes.changes.length).toBe(1);
  await sql("revoke select (secret) on notes from anon");
  await sql("insert into notes (id, secret) values (66, 'c')");
  await sql("delete from notes");
  await expect.poll(() => notes.changes.length).toBe(2);
  expect(notes.changes.map(({ new: row }) => row)).toMatchObject([{ id: 65, secret: "c" }, { id: 66 }]);
  expect(notes.changes[1].new).not.toHaveProperty("secret");
});

test("a policy that raises an error for one subscriber is reported to that one, and the others get their changes", async () => {
  await sql(`create function public.refuse_bob() returns boolean language plpgsql stable as
    $$ begin if auth.uid() = 2 then raise 'not for Bob'; end if; return true; end $$;
    grant execute on function public.refuse_bob to authenticated;
    create table public.raising (id int primary key); alter table public.raising enable row level security;
    grant select on public.raising to authenticated;
    create policy p on public.raising using (public.refuse_bob())`);
  const on = [{ event: "INSERT", schema: "public", table: "raising" }];
  const ada = client({ as: "ada" });
  // The service may not have read the new table yet.
  await expect.poll(async () => (await ada.from("raising").select()).status).toBe(200);
  const [one, other] = [await observing(ada, "raising", on), await observing(client({ as: "bob" }), "raising", on)];
  await sql("insert into raising values (1)");
  await expect.poll(() => summary(one)).toEqual(["INSERT 1"]);
  await expect
    .poll(() => other.system.at(-1)?.message)
    .toBe("a policy of public.raising failed, so changes are not sent: not for Bob");
  expect(summary(other)).toEqual([]);
});

test("of a row that is too large, the key arrives with an error", async () => {
  const notes = await observing(client(), "large", [{ event: "INSERT", schema: "public", table: "notes" }]);
  await sql("insert into notes (id, body) values (71, repeat('x', 1100000)), (72, 'small')");
  await sql("delete from notes");
  await expect.poll(() => notes.changes.length).toBe(2);
  expect(notes.changes[0]).toMatchObject({ new: { id: 71 }, errors: ["Error 413: Payload Too Large"] });
  expect(notes.changes[1]).toMatchObject({ new: { id: 72, body: "small" }, errors: null });
});

const REFUSALS = [
  [{ table: "nothing" }, 'RealtimeDisabledForConfiguration: there is no table "public"."nothing"'],
  [
    { schema: "other", table: "notes" },
    "RealtimeDisabledForConfiguration: the schema other is not served: the served ones are public",
  ],
  [{ table: "secrets" }, "Unauthorized: the role anon may not SELECT from public.secrets"],
  [
    { table: "todos" },
    "Unauthorized: row-level security is on for public.todos, and no policy lets the role anon read a row",
  ],
  [{ filter: "secret=eq.1" }, "Unauthorized: the role anon may not read the column secret"],
  [{ filter: "nothing=eq.1" }, 'MalformedJoin: public.notes has no column "nothing"'],
  [{ filter: "id=about.1" }, 'MalformedJoin: the filter "id=about.1" is not valid: unknown operator about'],
  [{ filter: "id" }, 'MalformedJoin: the filter "id" is not valid: a condition is column=operator.value'],
  [{ filter: 'body=eq."a' }, `MalformedJoin: the filter "body=eq."a" is not valid: a quote is not closed`],
  [
    { filter: `id=in.(${Array.from({ length: 1001 }, (_, i) => i)})` },
    "MalformedJoin: the lists of a filter on changes can have at most 1000 values",
  ],
  [{ filter: "id=eq.x" }, 'MalformedJoin: invalid input syntax for type bigint: "x"'],
  [{ filter: "body=match.(" }, "MalformedJoin: invalid regular expression: parentheses () not balanced"],
  [{ select: ["nothing"] }, 'MalformedJoin: public.notes has no column "nothing" to select'],
  [{ select: ["secret"] }, "Unauthorized: the role anon may not read the column secret"],
  [{ table: undefined, filter: "id=eq.1" }, "MalformedJoin: filter and select require a table"],
  [{ event: "TRUNCATE" }, "MalformedJoin: config.postgres_changes[0].event must be INSERT, UPDATE, DELETE or *"],
] as const;

test("the callback of subscribe receives the reason why a binding cannot be subscribed to", async () => {
  const all = client();
  const on = (binding: object) => [{ event: "*", schema: "public", table: "notes", ...binding }];
  const refused = REFUSALS.map(([binding], i) => observe(all, `refused ${i}`, on(binding)));
  await expect.poll(() => refused.every(({ states }) => states.length > 0)).toBe(true);
  const found = refused.map(({ states }, i) => [REFUSALS[i]![0], states[0]]);
  expect(found).toEqual(REFUSALS.map(([binding, reason]) => [binding, `CHANNEL_ERROR: ${reason}`]));
});
