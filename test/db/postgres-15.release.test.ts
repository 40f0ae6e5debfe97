import { existsSync } from "node:fs";
import jwt from "jsonwebtoken";
import pg from "pg";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type ScratchCluster, startScratchCluster } from "../../cli/scratch-cluster.ts";
import { advise } from "../../parts/advisor/advisor.ts";
import type { TestDatabase } from "../support/database.ts";
import { connect } from "../support/graphql-client.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const DEBIAN_15 = "/usr/lib/postgresql/15/bin";
const installed = existsSync(DEBIAN_15);
const MISSING = `${DEBIAN_15} is missing: apt-get install postgresql-15`;
if (!installed) console.warn(`skipped: PostgreSQL 15, because ${MISSING}`);

let cluster: ScratchCluster;
beforeAll(async () => {
  // Any version can serve a foreign database.
  cluster = await startScratchCluster(installed ? DEBIAN_15 : undefined);
});
afterAll(() => cluster?.remove());

/** A new database on the cluster of this file, without migrations. */
async function createDatabase(name: string): Promise<TestDatabase> {
  const root = new pg.Client({ connectionString: cluster.url("postgres") });
  await root.connect();
  await root.query(`create database ${root.escapeIdentifier(name)}`);
  const owner = new pg.Client({ connectionString: cluster.url(name) });
  await owner.connect();
  return {
    name,
    url: cluster.url(name),
    owner,
    async drop() {
      await owner.end();
      await root.query(`drop database ${root.escapeIdentifier(name)} with (force)`);
      await root.end();
    },
  };
}

// The first test, because roles belong to the whole cluster: anon does not exist yet.
test("MIGRATE=off serves the granted part of a foreign database with odd names and no role anon", async () => {
  const database = await createDatabase("the shop's data");
  await database.owner.query(`
    create role shop_web nologin;
    create role shop_staff nologin;
    create role shop_login login noinherit password 'p@ss/word';
    grant shop_web, shop_staff to shop_login;
    create schema "Back Office";
    grant usage on schema "Back Office" to shop_web, shop_staff;

    create table public."order items" (id int primary key, "unit price" numeric, "it's ""quoted""" text, "from" text);
    create table public."Größe" ("ключ" int primary key, "Länge" text, "値" text);
    create table public."select" (id uuid primary key, "group" text);
    create table public."without a key" (a int, b text);
    create table "Back Office"."Staff Members" (id int primary key, name text not null);
    create table public.ungranted (id int primary key);
    create view public."cheap items" as select id, "unit price" from public."order items" where "unit price" < 5;

    insert into public."order items" values (1, 9.50, 'one', 'here'), (2, 3.20, 'two', 'there');
    insert into public."Größe" values (7, 'lang', '長い');
    insert into public."select" values ('00000000-0000-4000-8000-000000000001', 'by');
    insert into "Back Office"."Staff Members" values (1, 'Grace');
    grant select on public."order items", public."Größe", public."select", public."without a key", public."cheap items" to shop_web;
    grant select, insert on "Back Office"."Staff Members" to shop_staff;`);
  const url = new URL(database.url);
  url.username = "shop_login";
  url.password = encodeURIComponent("p@ss/word");
  const settings = { DATABASE_URL: url.href, MIGRATE: "off", DB_SCHEMAS: "public,Back Office" };

  const refused = { ...database, drop: async () => {} };
  await expect(startTestService(settings, refused)).rejects.toThrow('the role "anon" of DB_ANON_ROLE does not exist');
  await expect(startTestService({ ...settings, DB_ANON_ROLE: "postgres" }, refused)).rejects.toThrow(
    'the login "shop_login" may not become "postgres": that role bypasses policies: set DB_ANON_ROLE to another',
  );
  await expect(
    startTestService({ ...settings, DB_ANON_ROLE: "shop_web", DB_SCHEMAS: "public,office" }, refused),
  ).rejects.toThrow("DB_SCHEMAS names schemas that do not exist: office");

  const service = await startTestService({ ...settings, DB_ANON_ROLE: "shop_web" }, database);
  onTestFinished(() => service.stop());
  const { data } = await service.gql("{ __schema { queryType { fields { name } } mutationType { fields { name } } } }");
  const names = data.__schema.queryType.fields.map(({ name }: any) => name);
  expect(names).toEqual(
    expect.arrayContaining([
      "orderItem",
      "orderItems",
      "select",
      "selects",
      "withoutAKeys",
      "cheapItems",
      "grosse",
      "grosses",
      "backOfficeStaffMember",
      "backOfficeStaffMembers",
    ]),
  );
  expect(names.filter((name: string) => /ungranted/i.test(name))).toEqual([]);
  expect(data.__schema.mutationType.fields.map(({ name }: any) => name)).toEqual([
    "createBackOfficeStaffMember",
    "createBackOfficeStaffMembers",
    "upsertBackOfficeStaffMember",
  ]);

  const items = await service.gql(
    '{ orderItems(first: 1) { totalCount edges { node { id unitPrice itsQuoted from } } pageInfo { hasNextPage } } cheapItems { edges { node { unitPrice } } } select(id: "00000000-0000-4000-8000-000000000001") { group } grosse(klyuch: 7) { lange zhi } }',
  );
  expect(items.data).toEqual({
    orderItems: {
      totalCount: 2,
      edges: [{ node: { id: "1", unitPrice: "9.50", itsQuoted: "one", from: "here" } }],
      pageInfo: { hasNextPage: true },
    },
    cheapItems: { edges: [{ node: { unitPrice: "3.20" } }] },
    select: { group: "by" },
    grosse: { lange: "lang", zhi: "長い" },
  });

  // The staff may write their own table and the granted columns.
  const staff = "{ backOfficeStaffMembers { edges { node { name } } } }";
  expect((await service.gql(staff)).errors).toMatchObject([{ extensions: { code: "AUTH_REQUIRED" } }]);
  const exp = Math.floor(Date.now() / 1000) + 60;
  const token = jwt.sign({ sub: "1", role: "shop_staff", type: "access", iss: "content-service", exp }, JWT_SECRET);
  const headers = { authorization: `Bearer ${token}` };
  const hire = 'mutation { createBackOfficeStaffMember(input: { id: 2, name: "Ada" }) { name } }';
  expect((await service.gql(hire, { headers })).data).toEqual({ createBackOfficeStaffMember: { name: "Ada" } });
  expect((await service.gql(staff, { headers })).data.backOfficeStaffMembers.edges).toEqual([
    { node: { name: "Grace" } },
    { node: { name: "Ada" } },
  ]);
  // A token must name a role that the login is a member of.
  const forged = jwt.sign({ sub: "1", role: "postgres", type: "access", iss: "content-service", exp }, JWT_SECRET);
  expect((await service.gql(staff, { headers: { authorization: `Bearer ${forged}` } })).errors).toHaveLength(1);

  expect((await fetch(`${service.url}/auth/login`, { method: "POST" })).status).toBe(404);
  expect(await (await fetch(`${service.url}/health`)).json()).toMatchObject({ status: "ok" });

  await database.owner.query(
    `create table "late comers" (id int primary key); grant select on "late comers" to shop_web; notify pgrst, 'reload schema'`,
  );
  await expect
    .poll(async () => (await service.gql("{ lateComers { totalCount } }")).data, POLL)
    .toEqual({ lateComers: { totalCount: 0 } });
});

test("the service works on Debian's PostgreSQL 15", async (context) => {
  context.skip(!installed, MISSING);
  const database = await createDatabase("content");
  const service = await startTestService({ SEED: "demo" }, database);
  onTestFinished(() => service.stop());
  const { rows } = await database.owner.query("show server_version_num");
  expect(Math.floor(rows[0].server_version_num / 10_000)).toBe(15);

  const login = await fetch(`${service.url}/auth/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ username: "ada", password: "Correct-Horse-7!" }),
  });
  expect(login.status).toBe(200);
  const { accessToken } = (await login.json()) as { accessToken: string };
  const headers = { authorization: `Bearer ${accessToken}` };
  const ada = (query: string) => service.gql(query, { headers });
  expect((await ada("{ me { name } }")).data).toEqual({ me: { name: "Ada Lovelace" } });

  const client = connect(service);
  const created = await client.subscribe("subscription { onArticleCreated { title author { name } } }");
  const updated = await client.subscribe("subscription { onArticleUpdated { title status } }");
  const create =
    'mutation { createArticle(input: { title: "On fifteen", content: "Older, and fine.", tags: ["versions"] }) { success article { id status } } }';
  expect((await ada(create)).data).toEqual({ createArticle: { success: true, article: { id: "5", status: "DRAFT" } } });
  expect((await ada("mutation { publishArticle(id: 5) { status updatedAt } }")).data).toEqual({
    publishArticle: { status: "PUBLISHED", updatedAt: expect.any(String) },
  });
  await created.expect({ onArticleCreated: { title: "On fifteen", author: { name: "Ada Lovelace" } } });
  await updated.expect({ onArticleUpdated: { title: "On fifteen", status: "PUBLISHED" } });

  expect((await service.gql('{ search(keyword: "FIFTEEN") { title summary(length: 5) } }')).data.search).toEqual([
    { title: "On fifteen", summary: expect.any(String) },
  ]);
  const page = async (after: string | null) =>
    (
      await service.gql(
        "query ($after: String) { articles(first: 2, after: $after) { totalCount edges { cursor node { id } } pageInfo { hasNextPage endCursor } } }",
        { variables: { after } },
      )
    ).data.articles;
  const first = await page(null);
  expect(first).toMatchObject({
    totalCount: 5,
    edges: [{ node: { id: "5" } }, { node: { id: "3" } }],
    pageInfo: { hasNextPage: true },
  });
  const second = await page(first.pageInfo.endCursor);
  expect(second.edges.map(({ node }: any) => node.id)).toEqual(["2", "1"]);
  expect((await page(second.pageInfo.endCursor)).pageInfo.hasNextPage).toBe(false);

  await database.owner.query(`
    create table public.bookmarks (id bigint generated always as identity primary key,
      user_id bigint not null default auth.uid() references public.users on delete cascade, note text);
    create index on public.bookmarks (user_id);
    alter table public.bookmarks enable row level security;
    create policy "users keep their own bookmarks" on public.bookmarks to authenticated
      using (user_id = (select auth.uid())) with check (user_id = (select auth.uid()));
    grant select, insert (note), delete on public.bookmarks to authenticated`);
  await expect
    .poll(
      async () => (await ada('mutation { createBookmark(input: { note: "new" }) { id note user { name } } }')).data,
      POLL,
    )
    .toEqual({
      createBookmark: { id: "1", note: "new", user: { name: "Ada Lovelace" } },
    });
  expect((await ada("{ me { bookmarks { note } } }")).data).toEqual({ me: { bookmarks: [{ note: "new" }] } });
  expect((await ada("mutation { deleteArticle(id: 5) }")).data).toEqual({ deleteArticle: true });
  // Forbidden operations fail.
  expect((await service.gql("mutation { publishArticle(id: 1) { id } }")).errors).toMatchObject([
    { extensions: { code: "AUTH_REQUIRED" } },
  ]);
  expect((await service.gql("{ bookmarks { totalCount } }")).errors).toMatchObject([
    { extensions: { code: "AUTH_REQUIRED" } },
  ]);
});

test("a policy that reads a generated column cannot be checked on changes, which do not have it before PostgreSQL 18", async () => {
  const database = await createDatabase("generated");
  onTestFinished(() => database.drop());
  await database.owner.query(`
    create role generated_web; create role generated_login noinherit in role generated_web;
    create table public.doors (id int primary key, closed_at date, closed boolean generated always as (closed_at is not null) stored);
    alter table public.doors enable row level security; alter table public.doors replica identity full;
    grant select on public.doors to generated_web;
    create policy open on public.doors to generated_web using (not closed);
    create publication content_changes for table public.doors`);
  const options = { schemas: ["public"], logins: ["generated_login"], roles: [], publication: "content_changes" };
  const { findings } = await advise(database.owner, options);
  const fix = installed ? null : "alter publication content_changes set (publish_generated_columns = stored);";
  expect(findings.filter(({ rule }) => rule === "changes-not-checked")).toMatchObject([
    { object: "table public.doors", reason: expect.stringContaining("content_changes leaves out closed"), fix },
  ]);
});
