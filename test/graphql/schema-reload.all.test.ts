import { Session } from "node:inspector/promises";
import pg from "pg";
import pino from "pino";
import { PgResource } from "postgraphile/@dataplan/pg";
import { GraphQLSchema } from "postgraphile/graphql";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { SchemaReload } from "../../graphql/schema/schema-reload.ts";
import { createTestDatabase } from "../support/database.ts";
import { connect } from "../support/graphql-client.ts";
import { type DemoUser, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** The schema at the start, which the tests change. */
const TABLES = `
  create table widened (id int primary key, value int);
  create table renamed (id int primary key, value int);
  create table narrowed (id int primary key, value int);
  create table dropped (id int primary key);
  create table granted (id int primary key, value int);
  create table revoked (id int primary key, value int);
  create table withdrawn (id int primary key);
  create type temper as enum ('GOOD');
  create table moods (id int primary key, temper temper);
  create function best() returns temper language sql stable as $$ select (enum_range(null::temper))[1] $$;
  create table dials (id int primary key, value int);
  insert into dials values (1, 1);
  create table blobs (id int primary key, doc jsonb, raw bytea, places point[]);
  insert into blobs values (1);
  grant select, update on dials, blobs to anon;
  grant execute on function best to anon;
  create table readings (id int generated always as identity primary key, a int not null, b int not null, c int not null);
  insert into readings (a, b, c) select i, i, i from generate_series(1, 20) as i;
  create type span as (lo int, hi int);
  create table gear (id int primary key, name text, made date default '2026-01-01', spans span[] default array[row(1, 2)]::span[],
    reach span default row(3, 4));
  create function gear_label(g gear) returns text language sql stable as $$ select 'gear ' || g.name || to_char(g.made, ' YYYY') $$;
  create function gear_others(g gear) returns setof gear language sql stable as $$ select * from gear where id < g.id $$;
  create function forge(id int) returns gear language sql volatile as $$ insert into gear values (id, 'iron') returning * $$;
  create function forge_all(ids int[]) returns setof gear language sql volatile as
    $$ insert into gear select unnest(ids), 'iron' returning * $$;
  grant select, insert, update, delete on gear to anon;
  grant execute on function gear_label, gear_others, forge, forge_all to anon;
  insert into gear values (1, 'rope');
  create table gauges (id int primary key, value int);
  insert into gauges values (1, 1);
  grant select on widened, renamed, narrowed, dropped, granted, revoked, withdrawn, moods, readings, gauges to anon, authenticated;`;

let service: TestService;
/** The log entries since the start of the test. */
const logged: Record<string, any>[] = [];
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(TABLES);
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  service = await startTestService({}, database, log);
});
afterAll(() => service.stop());
afterEach(() => {
  logged.length = 0;
});

/** Executes statements as a DBA does in psql. */
const dba = async (sql: string) => (await service.database.owner.query(sql)).rows;

const NOT_SERVED = "the changed schema cannot be served: the previous one stays";

/** The fields of a type, with their types: `{ id: "ID!", note: "String" }`; null if there is no such type. */
async function fieldsOf(type: string): Promise<Record<string, string> | null> {
  const reference = "kind name ofType { kind name ofType { kind name ofType { kind name } } }";
  const query = `{ __type(name: "${type}") { fields { name type { ${reference} } } inputFields { name type { ${reference} } } } }`;
  const { data } = await service.gql(query);
  const fields = data.__type && (data.__type.fields ?? data.__type.inputFields);
  return fields && Object.fromEntries(fields.map((field: any) => [field.name, textOf(field.type)]));
}

function textOf({ kind, name, ofType }: any): string {
  if (kind === "NON_NULL") return `${textOf(ofType)}!`;
  return kind === "LIST" ? `[${textOf(ofType)}]` : name;
}

const appears = (type: string) => expect.poll(() => fieldsOf(type), POLL).not.toBeNull();

/** Sends queries without a pause until it is stopped. Returns the failures and the number of requests. */
function sendContinuously(queries: readonly string[], as?: DemoUser) {
  let running = true;
  const outcome = { requests: 0, faults: [] as unknown[] };
  const ask = async (query: string) => {
    while (running) {
      const { status, errors } = await service.gql(query, as ? { as } : {});
      outcome.requests++;
      if (status !== 200 || errors) outcome.faults.push({ query, status, errors });
    }
  };
  const all = Promise.all(queries.map(ask));
  onTestFinished(() => {
    running = false;
  });
  return {
    outcome,
    async stop() {
      running = false;
      await all;
      return outcome;
    },
  };
}

const BOOKMARKS = `
  create table public.bookmarks (
    id         bigint generated always as identity primary key,
    user_id    bigint not null default auth.uid() references public.users on delete cascade,
    article_id bigint not null references public.articles on delete cascade,
    note       text
  );
  create index on public.bookmarks (user_id);
  create index on public.bookmarks (article_id);
  alter table public.bookmarks enable row level security;
  create policy "users keep their own bookmarks" on public.bookmarks to authenticated
    using (user_id = (select auth.uid())) with check (user_id = (select auth.uid()));
  grant select, insert (article_id, note), update (note), delete on public.bookmarks to authenticated;`;

/** Creates a table that every caller may read. */
const addTable = (name: string, columns = "id int primary key") =>
  dba(`create table ${name} (${columns}); grant select on ${name} to anon, authenticated`);

test("a table that a DBA adds is served in the shapes of the contract, and no request fails meanwhile", async () => {
  const requests = sendContinuously([
    "{ articles(first: 3) { totalCount edges { node { title author { name } } } } }",
    "{ users { articles { title } } }",
  ]);
  await dba(BOOKMARKS);
  await appears("Bookmark");
  await expect.poll(() => requests.outcome.requests, POLL).toBeGreaterThan(20);
  expect((await requests.stop()).faults).toEqual([]);

  expect(await fieldsOf("Bookmark")).toEqual({
    id: "ID!",
    note: "String",
    userId: "ID!",
    user: "User!",
    articleId: "ID!",
    article: "Article!",
  });
  expect(await fieldsOf("BookmarkConnection")).toEqual({
    edges: "[BookmarkEdge!]!",
    pageInfo: "PageInfo!",
    totalCount: "Int!",
    aggregates: "BookmarkAggregates!",
    groupedAggregates: "[BookmarkAggregates!]!",
  });
  expect(await fieldsOf("BookmarkEdge")).toEqual({ cursor: "String!", node: "Bookmark!" });
  expect(await fieldsOf("Query")).toMatchObject({ bookmark: "Bookmark", bookmarks: "BookmarkConnection!" });
  expect(await fieldsOf("Mutation")).toMatchObject({
    createBookmark: "Bookmark!",
    updateBookmark: "Bookmark!",
    deleteBookmark: "Boolean!",
  });
  expect(await fieldsOf("CreateBookmarkInput")).toEqual({ articleId: "ID!", note: "String" });
  expect(await fieldsOf("UpdateBookmarkInput")).toEqual({ note: "String" });
  expect(await fieldsOf("User")).toMatchObject({ bookmarks: "[Bookmark!]!" });
  expect(await fieldsOf("Article")).toMatchObject({ bookmarks: "[Bookmark!]!" });
});

test("the rows of a new table are read and written under its policies and grants", async () => {
  const create =
    'mutation { createBookmark(input: { articleId: 1, note: "read again" }) { id note user { name } article { title } } }';
  const created = await service.gql(create, { as: "ada" });
  expect(created.data.createBookmark).toEqual({
    id: "1",
    note: "read again",
    user: { name: "Ada Lovelace" },
    article: { title: "Notes on the Analytical Engine" },
  });
  await service.gql(create, { as: "bob" });

  const mine =
    "{ bookmarks { totalCount edges { node { id } } pageInfo { hasNextPage } } me { bookmarks { id } } article(id: 1) { bookmarks { id } } other: bookmark(id: 1) { id } }";
  expect((await service.gql(mine, { as: "bob" })).data).toEqual({
    bookmarks: { totalCount: 1, edges: [{ node: { id: "2" } }], pageInfo: { hasNextPage: false } },
    me: { bookmarks: [{ id: "2" }] },
    article: { bookmarks: [{ id: "2" }] },
    other: null,
  });
  const update = 'mutation { updateBookmark(id: 1, input: { note: "changed" }) { note } }';
  expect((await service.gql(update, { as: "bob" })).errors).toMatchObject([
    { extensions: { code: "RESOURCE_NOT_FOUND" } },
  ]);
  expect((await service.gql(update, { as: "ada" })).data).toEqual({ updateBookmark: { note: "changed" } });
  expect((await service.gql("mutation { deleteBookmark(id: 1) }", { as: "bob" })).data).toEqual({
    deleteBookmark: false,
  });
  expect((await service.gql("mutation { deleteBookmark(id: 1) }", { as: "ada" })).data).toEqual({
    deleteBookmark: true,
  });
  for (const query of ["{ bookmarks { totalCount } }", create]) {
    expect((await service.gql(query)).errors).toMatchObject([{ extensions: { code: "AUTH_REQUIRED" } }]);
  }
});

// test/db/changes/schema-changes.test.ts shows that each kind of statement is announced.
/** The objects of this process that have this prototype and are in use. */
async function countInUse(prototype: object): Promise<number> {
  const session = new Session();
  session.connect();
  Object.assign(globalThis, { [PROTOTYPE]: prototype });
  const expression = `globalThis[${JSON.stringify(PROTOTYPE)}]`;
  const { result } = await session.post("Runtime.evaluate", { expression });
  const { objects } = await session.post("Runtime.queryObjects", { prototypeObjectId: result.objectId! });
  const call = { objectId: objects.objectId!, functionDeclaration: "function () { return this.length }" };
  const counted = await session.post("Runtime.callFunctionOn", { ...call, returnByValue: true });
  session.disconnect();
  return counted.result.value;
}

const PROTOTYPE = "counted prototype";

test("a schema that is no longer served leaves the memory", async () => {
  await service.gql("{ __typename }");
  const counted = () => Promise.all([GraphQLSchema.prototype, PgResource.prototype].map(countInUse));
  const [schemas, resources] = await counted();
  for (const name of ["first", "second", "third"]) {
    await dba(`create table ${name}_of_many (id int primary key); grant select on ${name}_of_many to anon;
      notify pgrst, 'reload schema'`);
    await appears(`${name[0]!.toUpperCase()}${name.slice(1)}OfMany`);
  }
  const atMost = (most: number) => expect.toSatisfy((count: number) => count <= most, `at most ${most}`);
  await expect.poll(counted, POLL).toEqual([atMost(schemas!), atMost(resources! * 1.2)]);
});

describe("a migration", () => {
  const descriptionOf = async (type: string) =>
    (await service.gql(`{ __type(name: "${type}") { description } }`)).data.__type.description;
  /** The fields of these types before the migration. */
  const before: Record<string, Record<string, string> | null> = {};

  beforeAll(async () => {
    const types = ["Widened", "Renamed", "Narrowed", "Dropped", "Granted", "Revoked", "Withdrawn", "Query", "Mutation"];
    for (const type of types) before[type] = await fieldsOf(type);
    await dba(`
      alter table widened add column unit text not null default 'm';
      alter table renamed rename column value to scale;
      alter table narrowed drop column value;
      drop table dropped;
      grant insert, update, delete on granted to authenticated;
      revoke select on revoked from anon, authenticated; grant select (id) on revoked to anon;
      revoke all on withdrawn from anon, authenticated;
      create function public.answer() returns int language sql stable as 'select 42'; grant execute on function answer() to anon;
      comment on table articles is E'@order created_at desc, id desc\\nAn essay.'`);
  });

  test.each([
    ["a new column appears", "Widened", { id: "ID!", value: "Int" }, { id: "ID!", value: "Int", unit: "String!" }],
    ["a renamed column is renamed", "Renamed", { id: "ID!", value: "Int" }, { id: "ID!", scale: "Int" }],
    ["a dropped column disappears", "Narrowed", { id: "ID!", value: "Int" }, { id: "ID!" }],
    ["a dropped table disappears", "Dropped", { id: "ID!" }, null],
    ["a column that is revoked disappears", "Revoked", { id: "ID!", value: "Int" }, { id: "ID!" }],
    ["a table that is revoked disappears", "Withdrawn", { id: "ID!" }, null],
  ])("%s", async (_what, type, old, changed) => {
    expect(before[type]).toEqual(old);
    await expect.poll(() => fieldsOf(type), POLL).toEqual(changed);
  });

  test("that grants access adds the fields", async () => {
    const granted = { createGranted: "Granted!", updateGranted: "Granted!", deleteGranted: "Boolean!" };
    for (const field of Object.keys(granted)) expect(before.Mutation).not.toHaveProperty(field);
    await expect.poll(() => fieldsOf("Mutation"), POLL).toMatchObject(granted);
  });

  test("that creates a function or a comment adds it", async () => {
    expect(before.Query).not.toHaveProperty("answer");
    await expect.poll(() => fieldsOf("Query"), POLL).toMatchObject({ answer: "Int" });
    expect(await descriptionOf("Article")).toBe("An essay.");
  });
});

test("a migration that adds an enum value adds it", async () => {
  const values = async () =>
    (await service.gql('{ __type(name: "Temper") { enumValues { name } } }')).data.__type.enumValues.map(
      ({ name }: any) => name,
    );
  expect(await values()).toEqual(["GOOD"]);
  await dba("alter type temper add value 'BAD'");
  await expect.poll(values, POLL).toEqual(["GOOD", "BAD"]);
});

test("a migration that only creates a temporary table or changes rows is not announced, and notify pgrst, 'reload schema' rebuilds the schema", async () => {
  const announced: string[] = [];
  const listener = new pg.Client(service.database.url);
  await listener.connect();
  onTestFinished(() => listener.end());
  listener.on("notification", ({ channel }) => announced.push(channel));
  await listener.query("listen schema_changes; listen the_end");
  await dba(
    "create temporary table scratch (id int); insert into scratch values (1); drop table scratch; update articles set content = content || '.' where id = 1",
  );
  const triggers = (state: string) =>
    dba(`alter event trigger announce_schema_change ${state}; alter event trigger announce_schema_drop ${state}`);
  await triggers("disable");
  onTestFinished(async () => void (await triggers("enable")));
  await addTable("unannounced");
  // Notifications arrive in order.
  await dba("notify the_end");
  await expect.poll(() => announced).toContain("the_end");
  expect(announced).toEqual(["the_end"]);
  await dba("notify pgrst, 'reload schema'");
  await appears("Unannounced");
});

test("a request about a table that is new waits for the rebuild that is due, over HTTP and WebSocket", async () => {
  const announce = (state: string) => dba(`alter event trigger announce_schema_change ${state}`);
  await announce("disable");
  onTestFinished(async () => void (await announce("enable")));
  // A rebuild that an earlier test has caused may still be due, and finds the table.
  const queryOf = (name: string) => `{ ${name}s { totalCount } }`;
  let newest = "";
  for (const name of ["newest", "latest", "youngest"]) {
    await addTable(name);
    const { errors } = await service.gql(queryOf(name));
    if (errors?.[0]?.extensions.code === "VALIDATION_ERROR") newest = name;
    if (newest !== "") break;
  }
  expect(newest).not.toBe("");
  const query = queryOf(newest);
  const client = connect(service);
  await client.run("{ __typename }");

  service.service.reloadSchema();
  const expected = { data: { [`${newest}s`]: { totalCount: 0 } } };
  expect(await Promise.all([service.gql(query), client.run(query)])).toMatchObject([expected, expected]);
});

test("a migration may change column types while queries run without failed requests", async () => {
  const requests = sendContinuously([
    "{ readings(first: 20) { totalCount edges { node { id a b c } } } }",
    "{ reading(id: 7) { id a b c } }",
    "{ one: reading(id: 1) { a } two: reading(id: 2) { b } readings(first: 1) { edges { node { c } } } }",
  ]);
  await expect.poll(() => requests.outcome.requests, POLL).toBeGreaterThan(10);
  await dba("alter table readings alter a type bigint, alter b type numeric, alter c type text");
  await expect.poll(() => fieldsOf("Reading"), POLL).toMatchObject({ a: "BigInt!", b: "BigFloat!", c: "String!" });
  const { requests: sent } = requests.outcome;
  await expect.poll(() => requests.outcome.requests, POLL).toBeGreaterThan(sent + 10);
  expect((await requests.stop()).faults).toEqual([]);
});

test("a migration that drops a column gives a clear error to queries that select it and affects no others", async () => {
  const others = sendContinuously(["{ articles { totalCount } users { name } }"]);
  const codes = new Set<string>();
  const asking = sendContinuously(["{ gauge(id: 1) { id value } }"]);
  await dba("alter table gauges drop column value");
  await expect.poll(() => fieldsOf("Gauge"), POLL).toEqual({ id: "ID!" });
  for (const fault of (await asking.stop()).faults as any[]) codes.add(fault.errors?.[0]?.extensions.code);
  expect([...codes].filter((code) => code !== "RESOURCE_NOT_FOUND" && code !== "VALIDATION_ERROR")).toEqual([]);
  expect((await others.stop()).faults).toEqual([]);
});

describe("until a column that was added is served,", () => {
  beforeAll(async () => {
    await service.gql("{ gears { totalCount } }");
    await dba("alter event trigger announce_schema_change disable");
    await dba("alter table gear add column weight int default 3; alter type span add attribute step int");
    return () => dba("alter event trigger announce_schema_change enable");
  });

  const gear = (id: number, name: string) => ({
    ...{ id: `${id}`, label: `gear ${name} 2026`, others: { totalCount: id - 1 } },
    ...{ reach: { lo: 3, hi: 4 }, spans: [{ lo: 1, hi: 2 }] },
  });
  const GEAR = "id label others { totalCount } reach { lo hi } spans { lo hi }";

  test.each([
    "{ best }",
    "mutation { updateDial(id: 1, input: { value: 2 }) { id } }",
    "{ blob(id: 1) { doc } }",
    "{ blobs { edges { node { raw } } } }",
    "mutation { updateBlob(id: 1, input: { id: 1 }) { places { x } } }",
  ])("%s is an error that says that the type has changed", async (operation) => {
    await dba(`alter type temper rename value 'GOOD' to 'FINE'; alter table dials alter value type date using now();
      alter table blobs alter doc type text using '{', alter raw type text using 'raw', alter places type text using '{a}'`);
    onTestFinished(async () => {
      await dba(`alter type temper rename value 'FINE' to 'GOOD'; alter table dials alter value type int using 1;
        alter table blobs alter doc type jsonb using null, alter raw type bytea using null, alter places type point[] using null`);
    });
    const { errors } = await service.gql(operation);
    expect(errors).toMatchObject([
      { message: "the schema has changed: this field has another type", extensions: { code: "RESOURCE_NOT_FOUND" } },
    ]);
  });

  test.each([
    ["gear(id: 1)", gear(1, "rope")],
    ['updateGear(id: 1, input: { name: "rope" })', gear(1, "rope")],
    ['createGear(input: { id: 2, name: "hook" })', gear(2, "hook")],
    ["forge(id: 3)", gear(3, "iron")],
    ["forgeAll(ids: [4, 5])", [gear(4, "iron"), gear(5, "iron")]],
  ])("%s has its computed columns", async (field, row) => {
    const operation = field.startsWith("gear") ? "query" : "mutation";
    const { data, errors } = await service.gql(`${operation} { row: ${field} { ${GEAR} } }`);
    expect(errors ?? data.row).toEqual(row);
  });

  test.each([
    ['createGears(input: [{ id: 6, name: "nail" }])', gear(6, "nail")],
    ['upsertGear(input: { id: 1, name: "rope" })', gear(1, "rope")],
    ['updateGears(filter: { id: { equalTo: 6 } }, limit: 1, input: { name: "bolt" })', gear(6, "bolt")],
    ["deleteGears(filter: { id: { equalTo: 6 } }, limit: 1)", gear(6, "bolt")],
  ])("so have the rows of %s", async (field, row) => {
    const { data, errors } = await service.gql(`mutation { result: ${field} { gears { ${GEAR} } } }`);
    expect(errors ?? data.result.gears).toEqual([row]);
  });
});

test("a row is written once if its table loses a column before its computed columns are read, which then are errors", async () => {
  // The deferred trigger runs at the commit of the write: after its statement, and before the next one.
  await dba(`create table keg (id int primary key, name text, volume int); insert into keg values (1, 'old', 5);
    create function keg_label(k keg) returns text language sql stable as $$ select 'keg ' || k.name $$;
    grant select, update on keg to anon; grant execute on function keg_label to anon;
    create table at_commit (n int); grant insert on at_commit to anon;
    create function note_write() returns trigger language plpgsql as $$ begin insert into at_commit values (1); return null; end $$;
    create function drop_volume() returns trigger language plpgsql security definer as
      $$ begin alter table keg drop column if exists volume; return null; end $$;
    create trigger note_write after update on keg for each row execute function note_write();
    create constraint trigger drop_volume after insert on at_commit deferrable initially deferred
      for each row execute function drop_volume()`);
  await appears("Keg");
  const update = (name: string) =>
    service.gql(`mutation { updateKeg(id: 1, input: { name: "${name}" }) { id name label } }`);
  const { data, errors } = await update("new");
  expect(data).toEqual({ updateKeg: { id: "1", name: "new", label: null } });
  expect(errors).toMatchObject([{ path: ["updateKeg", "label"], extensions: { code: "VALIDATION_ERROR" } }]);
  expect(await dba("select count(*)::int as writes from at_commit")).toMatchObject([{ writes: 1 }]);
  expect((await update("newer")).data).toEqual({ updateKeg: { id: "1", name: "newer", label: "keg newer" } });
});

test("a row whose table gets a column for another one before its computed columns are read has no wrong values", async () => {
  await dba(`create table cask (id int primary key, name text, mark text); insert into cask values (1, 'old', 'A');
    create function cask_label(c cask) returns text language sql stable as $$ select 'cask ' || c.mark $$;
    create function cask_others(c cask) returns setof cask language sql stable as $$ select * from cask where mark = c.mark $$;
    grant select, update on cask to anon; grant execute on function cask_label, cask_others to anon;
    create table replacements (n int); grant insert on replacements to anon;
    create function note_cask() returns trigger language plpgsql as
      $$ begin if new.name <> 'next' then insert into replacements values (1); end if; return null; end $$;
    create function replace_name() returns trigger language plpgsql security definer as
      $$ begin alter table cask drop column name; alter table cask add column spare text;
      alter table cask drop column spare; alter table cask add column name text; return null; end $$;
    create trigger note_cask after update on cask for each row execute function note_cask();
    create constraint trigger replace_name after insert on replacements deferrable initially deferred
      for each row execute function replace_name()`);
  await appears("Cask");
  const update = (name: string, fields: string) =>
    service.gql(`mutation { updateCask(id: 1, input: { name: "${name}" }) { ${fields} } }`);
  const refused = { extensions: { code: "VALIDATION_ERROR" } };
  expect(await update("new", "id name label")).toMatchObject({
    data: { updateCask: { id: "1", name: "new", label: null } },
    errors: [{ path: ["updateCask", "label"], ...refused }],
  });
  expect(await update("newer", "others { totalCount }")).toMatchObject({ data: null, errors: [refused] });
  const all = 'updateCasks(filter: { id: { equalTo: 1 } }, limit: 1, input: { name: "newest" }) { casks { label } }';
  expect(await service.gql(`mutation { ${all} }`)).toMatchObject({ data: null, errors: [refused] });
  expect((await update("next", "name label others { totalCount }")).data).toEqual({
    updateCask: { name: "next", label: "cask A", others: { totalCount: 1 } },
  });
});

test("a rebuild keeps running subscriptions, and new ones see the new schema", async () => {
  const client = connect(service);
  const running = await client.subscribe("subscription { onArticleUpdated(id: 1) { tags } }");
  await addTable("notes", "id int primary key, article_id bigint references articles");
  await dba("create index on notes (article_id); insert into notes values (1, 1)");
  await appears("Note");
  const fresh = await client.subscribe("subscription { onArticleUpdated(id: 1) { tags notes { id } } }");
  await dba("update articles set tags = '{rebuilt}' where id = 1");
  await running.expect({ onArticleUpdated: { tags: ["rebuilt"] } });
  await fresh.expect({ onArticleUpdated: { tags: ["rebuilt"], notes: [{ id: "1" }] } });
  expect(running).toMatchObject({ error: null, faults: [], completed: false });
});

test("a subscription whose rows are no longer found by the key that it knows ends with the reason", async () => {
  await addTable("anchors");
  await appears("Anchor");
  const running = await connect(service).subscribe("subscription { onAnchorCreated { id } }");
  await dba("alter table anchors rename id to number; insert into anchors values (1)");
  await expect.poll(() => JSON.stringify(running.error), POLL).toContain("public.anchors no longer has the column id");
});

const details = () => service.health();

test("while a change cannot be built, no request fails, and /health names the error", async () => {
  const requests = sendContinuously(["{ articles(first: 2) { totalCount edges { node { title } } } }"]);
  const state = async () => (await details()).details.graphql.schema;
  await dba("create table thing (id int primary key); create table others (id int primary key, b int)");
  await dba("grant select on others, thing to anon");
  await appears("Other");
  await appears("Thing");
  // The older table takes the names of the one that is served.
  await dba("alter table thing rename to other");
  await expect.poll(state, POLL).toMatch(/^table public\.others: GraphQL would lose /);
  expect(Object.keys((await fieldsOf("Other"))!)).toEqual(["id", "b"]);
  await dba("drop table other");
  await expect.poll(state, POLL).toBe("current");
  expect(await state()).toBe("current");
  expect((await requests.stop()).faults).toEqual([]);
});

test("a smart tag whose name is taken is ignored: later changes are served, and no request fails", async () => {
  const requests = sendContinuously(["{ articles(first: 2) { totalCount edges { node { title } } } }"]);
  const omissions = async () => ((await details()).details.graphql.omissions ?? []).join();
  const reason =
    "table public.peculiar: GraphQL ignores @name articles: table public.articles leads to the GraphQL name articles too";
  await dba(
    "create table peculiar (id int primary key); comment on table peculiar is '@name articles'; grant select on peculiar to anon",
  );
  await expect.poll(omissions, POLL).toContain(reason);
  await addTable("later");
  await appears("Later");
  expect((await details()).details.graphql.schema).toBe("current");
  await dba("drop table peculiar");
  await expect.poll(omissions, POLL).not.toContain(reason);
  expect((await requests.stop()).faults).toEqual([]);
});

test("a catalog that cannot be read is read again without a further change", async () => {
  const [{ login }] = (await dba(
    `select rolname as login from pg_roles where rolname = current_database() || '_data'`,
  )) as [{ login: string }];
  await dba(
    `alter role ${login} nologin; select pg_terminate_backend(pid) from pg_stat_activity where usename = '${login}' and application_name = 'content-service'`,
  );
  await addTable("unread");
  const causes = () => logged.filter(({ msg }) => msg === NOT_SERVED).map(({ err }) => err.message);
  await expect.poll(causes, POLL).toContainEqual(expect.stringContaining("not permitted to log in"));
  await dba(`alter role ${login} login`);
  await expect.poll(() => fieldsOf("Unread"), POLL).not.toBeNull();
  expect(await details()).toMatchObject({ status: "ok", details: { graphql: { schema: "current" } } });
});

test("a change that was missed while the connection was lost is found after the reconnect", async () => {
  await dba(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'content-service changes' and datname = current_database()",
  );
  await addTable("missed");
  await expect.poll(() => fieldsOf("Missed"), POLL).not.toBeNull();
});

test("a build waits after the tables have been read, for other processes that read them too, and not while the service stops", async () => {
  const rebuild = vi.fn();
  const log = { onRebuilt: vi.fn(), onBuilt: vi.fn(), onFailed: vi.fn(), onOmission: vi.fn() };
  const readDatabase = vi.fn(async () => {
    // As if it had taken an hour.
    const now = performance.now() + 3_600_000;
    vi.spyOn(performance, "now").mockReturnValueOnce(now);
  });
  onTestFinished(() => void vi.restoreAllMocks());
  const reload = new SchemaReload({ omissions: [], rebuild, readDatabase } as never, log);
  reload.soon();
  await vi.waitUntil(() => readDatabase.mock.calls.length === 1, POLL);
  await reload.close();
  expect([rebuild, log.onFailed].map(({ mock }) => mock.calls)).toEqual([[], []]);
});
