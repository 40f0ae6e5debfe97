import pino from "pino";
import { beforeAll, expect, onTestFinished, test } from "vitest";
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
  create function moved(renamed_id int) returns int language plpgsql stable as $$
  begin return nowhere.total(renamed_id); end $$;
  grant execute on function note_of, total_of, moved to authenticated;
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

const SEE = 'docs/dba-guide.md, "What the log says about your SQL"';
const DENIED = "was refused: permission denied for";
const ON_ORDERS = `It may select (id, total), insert (id, total), update (total) on public.orders; ${SEE}`;
const ON_PROFILES = `It may select (id, name) on public.profiles; ${SEE}`;
test.each<[request: string, body: object | undefined, line: string]>([
  ["GET orders?select=id,secret", undefined, `${DENIED} table orders. ${ON_ORDERS}`],
  ["anon GET orders?select=id", undefined, `${DENIED} table orders. It has no grant on public.orders; ${SEE}`],
  [
    "DELETE mergers?id=eq.1",
    undefined,
    `${DENIED} table mergers. It may select (id, total), insert (id, total), update (total) on public.mergers; ${SEE}`,
  ],
  ["POST rpc/private_function", undefined, `may not execute public.private_function(): no grant allows it; ${SEE}`],
  ["GET regions", undefined, `may not execute internal.my_region(integer, text): no grant allows it; ${SEE}`],
  [
    "POST rpc/total_of",
    { order_id: 1 },
    `${DENIED} table orders, in the function public.total_of(integer). ${ON_ORDERS}`,
  ],
  ["POST rpc/first_profile", undefined, `${DENIED} table profiles, in the function first_profile. ${ON_PROFILES}`],
  ["POST kept", { id: 7 }, `was refused: new row violates row-level security policy for table "kept"; ${SEE}`],
  [
    "POST small",
    { id: 7 },
    `was refused: new row violates row-level security policy "not big" for table "small"; ${SEE}`,
  ],
])("the log says what the role may do instead, without a statement that grants: %s %j", async (request, body, line) => {
  const role = request.startsWith("anon ") ? "anon" : "authenticated";
  expect(await send(request, body)).toMatchObject({ status: role === "anon" ? 401 : 403, code: "42501" });
  await expect.poll(() => lines(30), POLL).toContain(`${role} ${line}`);
});

test("the same line is logged once", async () => {
  const count = () => lines(30).filter((line) => line.includes("It has no grant on public.wishes")).length;
  for (const id of [2, 3]) await send(`GET wishes?id=eq.${id}`);
  await expect.poll(count, POLL).toBe(1);
});

test.each([
  {
    what: "a policy that recurses",
    request: "GET members",
    query: "{ members { totalCount } }",
    message: 'infinite recursion detected in policy for relation "members"',
    answer: { status: 500, code: "42P17" },
    code: "INTERNAL_ERROR",
    line: /^a mistake in the database: infinite recursion detected in policy for relation "members" \(42P17\)$/,
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
  {
    what: "a function that uses a missing schema",
    request: "POST rpc/moved",
    query: "{ moved(renamedId: 1) }",
    message: 'schema "nowhere" does not exist',
    answer: { status: 400, code: "3F000" },
    code: "RESOURCE_NOT_FOUND",
    line: /^the function moved\(integer\) is broken at line 2: schema "nowhere" does not exist$/,
  },
])("$what is named on every interface, and the log says where it is", async (mistake) => {
  const { request, query, message, answer, code, line } = mistake;
  const body = request.startsWith("POST") ? { renamed_id: 1 } : undefined;
  expect(await send(request, body)).toMatchObject({ ...answer, message });
  expect((await service.gql(query, { as: "ada" })).errors).toMatchObject([{ message, extensions: { code } }]);
  await expect.poll(() => lines(50), POLL).toContainEqual(expect.stringMatching(line));
  expect(lines(50)).not.toContain("unhandled error");
});

test("a function DB_PRE_REQUEST that does not exist is named on every interface, and in the log", async () => {
  const log = pino({ level: "error" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  const checked = await startTestService({ API_KEY_REQUIRED: "off", DB_PRE_REQUEST: "public.nowhere" }, undefined, log);
  onTestFinished(() => checked.stop());
  const message = "function public.nowhere() does not exist";
  const answer = await fetch(`${checked.url}/rest/v1/articles`);
  expect([answer.status, await answer.json()]).toMatchObject([404, { code: "42883", message }]);
  for (const query of ["{ articles { totalCount } }", "mutation { publishArticle(id: 1) { id } }"])
    expect((await checked.gql(query)).errors).toMatchObject([{ message, extensions: { code: "RESOURCE_NOT_FOUND" } }]);
  await expect.poll(() => lines(50), POLL).toContain(`DB_PRE_REQUEST fails for each request: ${message}`);
});
