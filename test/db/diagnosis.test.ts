import pino from "pino";
import { beforeAll, expect, test } from "vitest";
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

/** `send("POST orders", { id: 1 })`; `anon` before the method sends no token, and a word after the path is the preference. */
async function send(request: string, body?: object) {
  const [, anon, method, path, prefer = ""] = /^(anon )?([A-Z]+) (\S+)(?: (\S+))?$/.exec(request)!;
  const token = anon ? {} : { authorization: `Bearer ${service.token("ada")}` };
  const headers = { "content-type": "application/json", prefer, ...token };
  const sent = { method: method!, headers, ...(body && { body: JSON.stringify(body) }) };
  const response = await fetch(`${service.url}/rest/v1/${path}`, sent);
  return { status: response.status, ...((await response.json().catch(() => ({}))) as any) };
}
const lines = (level: number) => logged.filter((line) => line.level === level).map(({ msg }) => msg);

const SEE = 'no grant allows it; docs/dba-guide.md, "What the log says about your SQL"';
const CLOSED = "the columns (digest, totp) of public.profiles";
const OTHERS = "write the other columns in place of *, or grant select on those that authenticated needs";
const HOLDS = "its with check, or its using, must hold for the row";
test.each<[request: string, body: object | undefined, line: string]>([
  ["GET orders?select=id,secret", undefined, `select (secret) on public.orders: ${SEE}`],
  ["GET orders?select=id&owner=eq.1", undefined, `select (owner) on public.orders: ${SEE}`],
  ["PATCH orders?id=eq.1", { total: 1, secret: "x" }, `update (secret) on public.orders: ${SEE}`],
  ["POST orders", { id: 1, owner: 2 }, `insert (owner) on public.orders: ${SEE}`],
  ["DELETE orders?id=eq.1", undefined, `delete on public.orders: ${SEE}`],
  ["POST mergers resolution=merge-duplicates", { id: 1, total: 2 }, `update (id) on public.mergers: ${SEE}`],
  ["POST mergers return=representation", { id: 1 }, `select (secret) on public.mergers: ${SEE}`],
  ["anon GET orders?select=id", undefined, `select (id) on public.orders: ${SEE}`],
  ["GET wishes", undefined, `select on public.wishes: ${SEE}`],
  ["POST rpc/private_function", undefined, `execute public.private_function(): ${SEE}`],
  ["GET regions", undefined, `execute internal.my_region(integer, text): ${SEE}`],
  [
    "POST rpc/total_of",
    { order_id: 1 },
    `select (owner) on public.orders, as the function public.total_of(integer) does: ${SEE}`,
  ],
  ["POST rpc/first_profile", undefined, `select ${CLOSED}, as the function first_profile does: ${OTHERS}`],
  ["POST rpc/my_profile", undefined, `select ${CLOSED}, as the function public.my_profile() does: ${OTHERS}`],
  ["POST kept", { id: 7 }, `write a row of kept: no policy of kept for authenticated allows the new row; ${HOLDS}`],
  ["POST small", { id: 7 }, `write a row of small: the policy "not big" of small refuses the new row; ${HOLDS}`],
])("the log names the missing right, without a statement that grants it: %s %j", async (request, body, line) => {
  const role = request.startsWith("anon ") ? "anon" : "authenticated";
  expect(await send(request, body)).toMatchObject({ status: role === "anon" ? 401 : 403, code: "42501" });
  await expect.poll(() => lines(30), POLL).toContain(`${role} may not ${line}`);
});

test.each([
  ['createMerger(input: { id: "1", secret: "x" }) { id }', "insert (secret) on public.mergers"],
  ['createMerger(input: { id: "1" }) { secret }', "select (secret) on public.mergers"],
  [
    'upsertMerger(input: { id: "1", secret: "x" }) { count }',
    "insert (secret), update (secret), select (secret) on public.mergers",
  ],
  ['updateMerger(id: "1", input: { secret: "x" }) { id }', "update (secret) on public.mergers"],
  ['deleteMergers(filter: { id: { equalTo: "1" } }, limit: 1) { count }', "delete, select (secret) on public.mergers"],
  [
    "publishArticle(id: 1) { id }",
    "update (status) on public.articles, as the function public.publish_article(bigint) does",
  ],
])("the log names the missing grant of the GraphQL mutation %s", async (mutation, privileges) => {
  const isAnonymous = mutation.startsWith("publish");
  const { errors } = await service.gql(`mutation { ${mutation} }`, isAnonymous ? {} : { as: "ada" });
  expect(errors).toMatchObject([{ extensions: { code: isAnonymous ? "AUTH_REQUIRED" : "PERMISSION_DENIED" } }]);
  const role = isAnonymous ? "anon" : "authenticated";
  await expect.poll(() => lines(30), POLL).toContain(`${role} may not ${privileges}: ${SEE}`);
});

test("the same line is logged once", async () => {
  const count = () => lines(30).filter((line) => line.includes("delete on public.orders")).length;
  for (const id of [2, 3]) await send(`DELETE orders?id=eq.${id}`);
  expect(count()).toBe(1);
});

test.each([
  {
    what: "a policy that recurses",
    request: "GET members",
    query: "{ members { totalCount } }",
    message: 'infinite recursion detected in policy for relation "members"',
    answer: { status: 500, code: "42P17" },
    code: "INTERNAL_ERROR",
    line: /^policy "members see their team" on public\.members: it reads public\.members, whose policies apply it again/,
  },
  {
    what: "a function that uses a missing column",
    request: "POST rpc/note_of",
    query: "{ noteOf(renamedId: 1) }",
    message: "column r.note does not exist",
    answer: { status: 400, code: "42703" },
    code: "RESOURCE_NOT_FOUND",
    line: /^the function public\.note_of\(integer\) is broken at line 3: column r\.note does not exist$/,
  },
])("$what is named on every interface, and the log says where it is", async (mistake) => {
  const { request, query, message, answer, code, line } = mistake;
  const body = request.startsWith("POST") ? { renamed_id: 1 } : undefined;
  expect(await send(request, body)).toMatchObject({ ...answer, message });
  expect((await service.gql(query, { as: "ada" })).errors).toMatchObject([{ message, extensions: { code } }]);
  await expect.poll(() => lines(50), POLL).toContainEqual(expect.stringMatching(line));
  if (code === "INTERNAL_ERROR") expect(lines(50)).toContain(`a mistake in the database: ${message} (42P17)`);
  expect(lines(50)).not.toContain("unhandled error");
});
