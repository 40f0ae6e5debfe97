import pino from "pino";
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import { connect, POLL } from "../support/graphql-client.ts";
import { type DemoUser, startTestService, type TestService } from "../support/service.ts";

let service: TestService;
/** What the service has logged since the test began. */
const logged: Record<string, any>[] = [];
beforeAll(async () => {
  service = await startTestService(
    {},
    undefined,
    pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line)) }),
  );
});
afterAll(() => service.stop());
afterEach(() => {
  logged.length = 0;
});

/** What a DBA types into psql. */
const dba = async (sql: string) => (await service.database.owner.query(sql)).rows;

const NOT_SERVED = "the changed schema can not be served: the old one stays";

/** Twice what is promised, since the machine of the tests is busy. */
const SOON = { timeout: 5000, interval: 20 };

/** The fields of a type, with their types: `{ id: "ID!", note: "String" }`; null when there is no such type. */
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

const appears = (type: string) => expect.poll(() => fieldsOf(type), SOON).not.toBeNull();
const disappears = (type: string) => expect.poll(() => fieldsOf(type), SOON).toBeNull();

/** Asks without a pause until it is told to stop; resolves to what went wrong, and how often it asked. */
function askAllTheTime(queries: readonly string[], as?: DemoUser) {
  let running = true;
  const outcome = { asked: 0, faults: [] as unknown[] };
  const ask = async (query: string) => {
    while (running) {
      const { status, errors } = await service.gql(query, as ? { as } : {});
      outcome.asked++;
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

/** Waits for the rebuilds of what was cleaned up. */
async function settled(): Promise<void> {
  let before: number;
  do {
    before = logged.length;
    await new Promise((resolve) => setTimeout(resolve, 700));
  } while (logged.length > before);
  logged.length = 0;
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

/** A small table that everyone may read. */
async function addTable(name: string, columns = "id int primary key, value int", rest = ""): Promise<void> {
  await dba(`create table ${name} (${columns}); grant select on ${name} to anon, authenticated; ${rest}`);
  onTestFinished(async () => void (await dba(`drop table if exists ${name} cascade`)));
}

test("a table that a DBA adds is served within a second, in the shapes of the contract, and no request fails meanwhile", async () => {
  const requests = askAllTheTime([
    "{ articles(first: 3) { totalCount edges { node { title author { name } } } } }",
    "{ users { articles { title } } }",
  ]);
  const start = performance.now();
  await dba(BOOKMARKS);
  onTestFinished(async () => void (await dba("drop table if exists bookmarks")));
  await appears("Bookmark");
  console.log(`a new table was served after ${Math.round(performance.now() - start)} ms`);
  await expect.poll(() => requests.outcome.asked, POLL).toBeGreaterThan(20);
  expect((await requests.stop()).faults).toEqual([]);

  expect(await fieldsOf("Bookmark")).toEqual({ id: "ID!", note: "String", user: "User!", article: "Article!" });
  expect(await fieldsOf("BookmarkConnection")).toEqual({
    edges: "[BookmarkEdge!]!",
    pageInfo: "PageInfo!",
    totalCount: "Int!",
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

test("its rows are written and read under its policies and grants", async () => {
  await dba(BOOKMARKS);
  onTestFinished(async () => void (await dba("drop table if exists bookmarks")));
  await appears("Bookmark");
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

test("a new column appears, a renamed one is renamed, a dropped one disappears", async () => {
  await addTable("measures");
  await appears("Measure");
  await dba(
    "alter table measures add column unit text not null default 'm'; comment on column measures.unit is 'What is counted.'",
  );
  await expect.poll(() => fieldsOf("Measure"), SOON).toEqual({ id: "ID!", value: "Int", unit: "String!" });
  await dba("alter table measures rename column unit to scale");
  await expect.poll(() => fieldsOf("Measure"), SOON).toEqual({ id: "ID!", value: "Int", scale: "String!" });
  await dba("alter table measures drop column scale");
  await expect.poll(() => fieldsOf("Measure"), SOON).toEqual({ id: "ID!", value: "Int" });
});

test("a table that is dropped disappears", async () => {
  await addTable("measures");
  await appears("Measure");
  await dba("drop table measures");
  await disappears("Measure");
  expect(await fieldsOf("Query")).not.toHaveProperty("measures");
});

test("what is granted appears, what is revoked disappears", async () => {
  await addTable("measures");
  await appears("Measure");
  expect(await fieldsOf("Mutation")).not.toHaveProperty("createMeasure");
  await dba("grant insert, update, delete on measures to authenticated");
  await expect
    .poll(() => fieldsOf("Mutation"), SOON)
    .toMatchObject({ createMeasure: "Measure!", updateMeasure: "Measure!", deleteMeasure: "Boolean!" });
  await dba("revoke select on measures from anon, authenticated; grant select (id) on measures to anon");
  await expect.poll(() => fieldsOf("Measure"), SOON).toEqual({ id: "ID!" });
  await dba("revoke all on measures from anon, authenticated; revoke select (id) on measures from anon");
  await disappears("Measure");
});

test("a function, a comment and a new value of an enum are changes too", async () => {
  await dba(
    "create function public.answer() returns int language sql stable as 'select 42'; grant execute on function answer() to anon",
  );
  onTestFinished(
    async () =>
      void (await dba(
        "drop function if exists answer(); comment on table articles is E'@order created_at desc, id desc\\nA text by a user.'",
      )),
  );
  await expect.poll(() => fieldsOf("Query"), SOON).toMatchObject({ answer: "Int" });
  await dba("comment on table articles is E'@order created_at desc, id desc\\nAn essay.'");
  const description = async () =>
    (await service.gql('{ __type(name: "Article") { description } }')).data.__type.description;
  await expect.poll(description, SOON).toBe("An essay.");
  await dba(
    "create type temper as enum ('GOOD'); create table moods (id int primary key, temper temper); grant select on moods to anon",
  );
  onTestFinished(async () => void (await dba("drop table moods; drop type temper")));
  await appears("Mood");
  await dba("alter type temper add value 'BAD'");
  const values = async () =>
    (await service.gql('{ __type(name: "Temper") { enumValues { name } } }')).data.__type.enumValues.map(
      ({ name }: any) => name,
    );
  await expect.poll(values, SOON).toEqual(["GOOD", "BAD"]);
});

test("where there are no event triggers, notify pgrst, 'reload schema' does it", async () => {
  const triggers = (state: string) =>
    dba(`alter event trigger announce_schema_change ${state}; alter event trigger announce_schema_drop ${state}`);
  await triggers("disable");
  onTestFinished(async () => void (await triggers("enable")));
  await settled();
  await addTable("unannounced");
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(await fieldsOf("Unannounced")).toBeNull();
  await dba("notify pgrst, 'reload schema'");
  await appears("Unannounced");
});

test("a temporary table and a change of rows rebuild nothing", async () => {
  await settled();
  await dba(
    "create temporary table scratch (id int); insert into scratch values (1); drop table scratch; update articles set content = content || '.' where id = 1",
  );
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(logged).toEqual([]);
});

test("changes without a pause don't put the rebuild off", async () => {
  await addTable("busy");
  let running = true;
  const changes = (async () => {
    for (let i = 0; running; i++) {
      await dba(`comment on table busy is 'Change ${i}'`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  try {
    await appears("Busy");
  } finally {
    running = false;
    await changes;
  }
});

test("the type of a column may change while queries run: no request fails", async () => {
  await addTable(
    "readings",
    "id int generated always as identity primary key, value int not null",
    "insert into readings (value) select generate_series(1, 20)",
  );
  await appears("Reading");
  const requests = askAllTheTime([
    "{ readings(first: 20) { totalCount edges { node { id value } } } }",
    "{ reading(id: 7) { id value } }",
    "{ a: reading(id: 1) { value } b: reading(id: 2) { value } readings(first: 1) { edges { node { value } } } }",
  ]);
  for (const [type, name] of [
    ["bigint", "BigInt!"],
    ["numeric", "BigFloat!"],
    ["text", "String!"],
  ]) {
    await dba(`alter table readings alter column value type ${type} using value::${type}`);
    await expect.poll(async () => (await fieldsOf("Reading"))!.value, SOON).toBe(name);
  }
  expect((await requests.stop()).faults).toEqual([]);
  expect(requests.outcome.asked).toBeGreaterThan(10);
});

test("a column that is dropped while queries ask for it is a clear error, and other requests do not suffer", async () => {
  await addTable("readings", "id int primary key, value int", "insert into readings values (1, 1)");
  await appears("Reading");
  const others = askAllTheTime(["{ articles { totalCount } users { name } }"]);
  const codes = new Set<string>();
  const asking = askAllTheTime(["{ reading(id: 1) { id value } }"]);
  await dba("alter table readings drop column value");
  await expect.poll(() => fieldsOf("Reading"), SOON).toEqual({ id: "ID!" });
  for (const fault of (await asking.stop()).faults as any[]) codes.add(fault.errors?.[0]?.extensions.code);
  expect([...codes].filter((code) => code !== "RESOURCE_NOT_FOUND" && code !== "VALIDATION_ERROR")).toEqual([]);
  expect((await others.stop()).faults).toEqual([]);
});

test("subscriptions survive a rebuild, and new ones see the new schema", async () => {
  const client = connect(service);
  const running = await client.subscribe("subscription { onArticleUpdated(id: 1) { tags } }");
  await addTable(
    "notes",
    "id int primary key, article_id bigint references articles",
    "create index on notes (article_id); insert into notes values (1, 1)",
  );
  await appears("Note");
  const fresh = await client.subscribe("subscription { onArticleUpdated(id: 1) { tags notes { id } } }");
  await dba("update articles set tags = '{rebuilt}' where id = 1");
  await running.expect({ onArticleUpdated: { tags: ["rebuilt"] } });
  await fresh.expect({ onArticleUpdated: { tags: ["rebuilt"], notes: [{ id: "1" }] } });
  expect(running).toMatchObject({ error: null, faults: [], completed: false });
});

const details = async () => {
  const response = await fetch(`${service.url}/health`);
  return { status: response.status, ...((await response.json()) as any) };
};

let cases = 0;
test.each([
  [
    "two tables of one name in GraphQL",
    "create table thing (id int primary key); create table things (id int primary key); grant select on thing, things to anon",
    "drop table thing, things",
    "naming conflict",
  ],
  [
    "a smart tag that is none",
    "create table odd (id int primary key); comment on table odd is '@behavior nonsense +++ foo'; grant select on odd to anon",
    "drop table odd",
    "Invalid value for behavior",
  ],
  [
    "a name that is taken",
    "create table odd (id int primary key); comment on table odd is '@name articles'; grant select on odd to anon",
    "comment on table odd is null; drop table odd",
    "'articles'",
  ],
  [
    "an @order by a column that is not there",
    "create table odd (id int primary key); comment on table odd is '@order nonsense desc'; grant select on odd to anon",
    "drop table odd",
    '@order nonsense desc of odd: "nonsense desc" is no column with asc or desc',
  ],
])(
  "a schema that can't be built (%s) keeps the old one, says why in the log and in /health, and is served once it is mended",
  async (_what, broken, mended, reason) => {
    const requests = askAllTheTime(["{ articles(first: 2) { totalCount edges { node { title } } } }"]);
    await dba(broken);
    onTestFinished(async () => void (await dba(mended).catch(() => {})));
    await expect.poll(async () => (await details()).details.graphql.schema, POLL).toContain(reason);
    expect(await details()).toMatchObject({ status: "ok" });
    expect(logged).toContainEqual(
      expect.objectContaining({
        level: 50,
        msg: NOT_SERVED,
        err: expect.objectContaining({ message: expect.stringContaining(reason) }),
      }),
    );
    // What comes later waits for the mending too.
    const later = `later${++cases}`;
    await addTable(later);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await fieldsOf(`Later${cases}`)).toBeNull();
    await dba(mended);
    await appears(`Later${cases}`);
    expect((await details()).details.graphql.schema).toBe("current");
    expect((await requests.stop()).faults).toEqual([]);
  },
);

test("a catalog that can't be read is read again by itself: nobody needs to change anything once more", async () => {
  const [{ login }] = (await dba(
    `select rolname as login from pg_roles where rolname = current_database() || '_data'`,
  )) as [{ login: string }];
  await dba(
    `alter role ${login} nologin; select pg_terminate_backend(pid) from pg_stat_activity where usename = '${login}' and application_name = 'content-service'`,
  );
  await addTable("unread");
  await expect.poll(() => logged.filter(({ msg }) => msg === NOT_SERVED).length, POLL).toBeGreaterThanOrEqual(2);
  expect(logged.find(({ msg }) => msg === NOT_SERVED)!.err.message).toContain("not permitted to log in");
  await dba(`alter role ${login} login`);
  await expect.poll(() => fieldsOf("Unread"), POLL).not.toBeNull();
  expect(await details()).toMatchObject({ status: "ok", details: { graphql: { schema: "current" } } });
});

test("a change that was missed while the connection for it was lost is found when it is back", async () => {
  await dba(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'content-service changes' and datname = current_database()",
  );
  await addTable("missed");
  await expect.poll(() => fieldsOf("Missed"), POLL).not.toBeNull();
});
