import pino from "pino";
import { beforeAll, expect, test, vi } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const DDL = `
  create table orders (id int primary key, owner bigint, total int, secret text);
  alter table orders enable row level security;
  create policy "everyone" on orders using (true) with check (true);
  grant select (id, total), insert (id, total), update (total) on orders to authenticated;
  create table mergers (id int primary key, total int, secret text);
  alter table mergers enable row level security;
  create policy "everyone" on mergers using (true) with check (true);
  grant select (id, total), insert (id, total), update (total) on mergers to authenticated;
  grant select (secret), insert (secret), update (secret), delete on mergers to anon;
  create table kept (id int primary key);
  create table small (id int primary key);
  alter table kept enable row level security;
  alter table small enable row level security;
  grant insert on kept, small to authenticated;
  create policy "everyone" on small with check (true);
  create policy "not big" on small as restrictive for insert with check (id < 5);
  create table wishes (id int primary key, status article_status);
  create table members (team int primary key, member bigint);
  alter table members enable row level security;
  grant select on members to authenticated;
  create policy "members see their team" on members for select
    using (team in (select m.team from public.members as m where m.member = (select auth.uid())));
  create table renamed (id int primary key, note text);
  alter table renamed enable row level security;
  create policy "everyone" on renamed using (true);
  grant select on renamed to authenticated;
  create function note_of(renamed_id int) returns text language plpgsql stable set search_path = '' as $$
  begin
    return (select r.note from public.renamed as r where r.id = renamed_id);
  end $$;
  create function total_of(order_id int) returns int language plpgsql stable set search_path = '' as $$
  begin
    return (select o.total from public.orders as o where o.id = order_id and o.owner is not null);
  end $$;
  create table profiles (id int primary key, name text, digest text, totp text);
  alter table profiles enable row level security;
  create policy "everyone" on profiles using (true);
  grant select (id, name) on profiles to authenticated;
  create function first_profile() returns text language sql stable set search_path = '' as 'select min(p::text) from public.profiles as p';
  create function my_profile() returns text language plpgsql stable set search_path = '' as $$
  declare profile public.profiles;
  begin
    select * into profile from public.profiles;
    return profile.name;
  end $$;
  grant execute on function first_profile, my_profile to authenticated;
  create table regions (id int primary key, region text);
  alter table regions enable row level security;
  grant select on regions to authenticated;
  create function internal.my_region(int, text default 'x') returns text language sql stable as $$ select 'north' $$;
  create policy "own region" on regions using (region = (select internal.my_region(1)));
  create function private_function() returns int language sql stable as 'select 1';
  grant execute on function note_of, total_of to authenticated;
  alter table renamed rename column note to remark;`;

let service: TestService;
const logged: Record<string, any>[] = [];
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(DDL);
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  service = await startTestService({ API_KEY_REQUIRED: "off" }, database, log);
  return () => service.stop();
});

async function rest(path: string, { method = "GET", body, anonymous = false, prefer = "" }: any = {}) {
  const response = await fetch(`${service.url}/rest/v1/${path}`, {
    method,
    headers: {
      "content-type": "application/json",
      prefer,
      ...(!anonymous && { authorization: `Bearer ${service.token("ada")}` }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, ...((await response.json().catch(() => ({}))) as any) };
}
const lines = (level: number) => logged.filter((line) => line.level === level).map(({ msg }) => msg);

test.each([
  [
    "a column that may not be read",
    "orders?select=id,secret",
    {},
    "authenticated may not select (secret) on public.orders",
  ],
  ["a column in a filter", "orders?select=id&owner=eq.1", {}, "authenticated may not select (owner) on public.orders"],
  [
    "a column that may not be changed",
    "orders?id=eq.1",
    { method: "PATCH", body: { total: 1, secret: "x" } },
    "authenticated may not update (secret) on public.orders",
  ],
  [
    "a column that may not be set",
    "orders",
    { method: "POST", body: { id: 1, owner: 2 } },
    "authenticated may not insert (owner) on public.orders",
  ],
  [
    "rows that may not be deleted",
    "orders?id=eq.1",
    { method: "DELETE" },
    "authenticated may not delete on public.orders",
  ],
  [
    "a column that may not be changed, of rows that exist already",
    "mergers",
    { method: "POST", body: { id: 1, total: 2 }, prefer: "resolution=merge-duplicates" },
    "authenticated may not update (id) on public.mergers",
  ],
  [
    "a column that may not be read, of new rows",
    "mergers",
    { method: "POST", body: { id: 1 }, prefer: "return=representation" },
    "authenticated may not select (secret) on public.mergers",
  ],
  [
    "a table that anonymous callers may not read",
    "orders?select=id",
    { anonymous: true },
    "anon may not select (id) on public.orders",
  ],
  ["a table of which nothing may be read", "wishes", {}, "authenticated may not select on public.wishes"],
  ["a function", "rpc/private_function", { method: "POST" }, "authenticated may not execute public.private_function()"],
  [
    "a function of another schema, in a policy",
    "regions",
    {},
    "authenticated may not execute internal.my_region(integer, text)",
  ],
  [
    "a column that a function reads",
    "rpc/total_of",
    { method: "POST", body: { order_id: 1 } },
    "authenticated may not select (owner) on public.orders",
  ],
])("the log names the missing right, without a statement that grants it: %s", async (_what, path, options, refusal) => {
  expect((await rest(path, options)).code).toBe("42501");
  const line = await vi.waitUntil(() => lines(30).find((each) => each.startsWith(refusal)), POLL);
  expect(line.slice(refusal.length)).toMatch(
    /^(, as the function .* does)?: no grant allows it; docs\/dba-guide\.md, "What the log says about your SQL"$/,
  );
});

test.each([
  ["first_profile", "first_profile"],
  ["my_profile", "public.my_profile()"],
])("the log names the function %s, which reads all columns, and advises no grant on the table", async (name, named) => {
  expect((await rest(`rpc/${name}`, { method: "POST" })).code).toBe("42501");
  await expect
    .poll(() => lines(30))
    .toContainEqual(
      `authenticated may not select the columns (digest, totp) of public.profiles, as the function ${named} does: write the other columns in place of *, or grant select on those that authenticated needs`,
    );
});

test("the log names the missing grant of a GraphQL mutation of a SQL function", async () => {
  const { errors } = await service.gql("mutation { publishArticle(id: 1) { id } }");
  expect(errors).toMatchObject([{ extensions: { code: "AUTH_REQUIRED" } }]);
  await expect
    .poll(() => lines(30))
    .toContainEqual(
      'anon may not update (status) on public.articles, as the function public.publish_article(bigint) does: no grant allows it; docs/dba-guide.md, "What the log says about your SQL"',
    );
});

test.each([
  ['createMerger(input: { id: "1", secret: "x" }) { id }', "insert (secret)"],
  ['createMerger(input: { id: "1" }) { secret }', "select (secret)"],
  ['upsertMerger(input: { id: "1", secret: "x" }) { count }', "insert (secret), update (secret), select (secret)"],
  ['updateMerger(id: "1", input: { secret: "x" }) { id }', "update (secret)"],
  ['deleteMergers(filter: { id: { equalTo: "1" } }, limit: 1) { count }', "delete, select (secret)"],
])("the log names the missing grant of the GraphQL mutation %s", async (mutation, privileges) => {
  const { errors } = await service.gql(`mutation { ${mutation} }`, { as: "ada" });
  expect(errors).toMatchObject([{ extensions: { code: "PERMISSION_DENIED" } }]);
  await expect
    .poll(() => lines(30))
    .toContainEqual(expect.stringContaining(`authenticated may not ${privileges} on public.mergers: `));
});

test.each([
  [
    "no policy",
    "kept",
    "authenticated may not write a row of kept: no policy of kept for authenticated allows the new row",
  ],
  [
    "a restrictive policy",
    "small",
    'authenticated may not write a row of small: the policy "not big" of small refuses the new row',
  ],
])("the log says why a new row is refused: %s", async (_what, table, line) => {
  expect(await rest(table, { method: "POST", body: { id: 7 } })).toMatchObject({ status: 403, code: "42501" });
  await expect.poll(() => lines(30)).toContainEqual(expect.stringContaining(line));
});

test("the same line is logged once", async () => {
  const count = () => lines(30).filter((line) => line.includes("delete on public.orders")).length;
  await rest("orders?id=eq.2", { method: "DELETE" });
  await rest("orders?id=eq.3", { method: "DELETE" });
  expect(count()).toBe(1);
});

test("a policy that recurses is named with its table on every interface, and the log names the policy", async () => {
  const message = 'infinite recursion detected in policy for relation "members"';
  expect(await rest("members")).toMatchObject({ status: 500, code: "42P17", message });
  const { errors } = await service.gql("{ members { totalCount } }", { as: "ada" });
  expect(errors).toMatchObject([{ message, extensions: { code: "INTERNAL_ERROR" } }]);
  await expect
    .poll(() => lines(50))
    .toContainEqual(
      expect.stringMatching(
        /^policy "members see their team" on public\.members: it reads public\.members, whose policies apply it again/,
      ),
    );
  expect(lines(50)).toContain(`a mistake in the database: ${message} (42P17)`);
  expect(lines(50)).not.toContain("unhandled error");
});

test("a function that uses a missing column says so on every interface, and the log names function, line and column", async () => {
  const message = "column r.note does not exist";
  expect(await rest("rpc/note_of", { method: "POST", body: { renamed_id: 1 } })).toMatchObject({
    status: 400,
    code: "42703",
    message,
  });
  const { errors } = await service.gql("{ noteOf(renamedId: 1) }", { as: "ada" });
  expect(errors).toMatchObject([{ message, extensions: { code: "RESOURCE_NOT_FOUND" } }]);
  expect(lines(50)).toContain(`the function public.note_of(integer) is broken at line 3: ${message}`);
});
