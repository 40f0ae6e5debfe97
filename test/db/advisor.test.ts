import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { advise, parseAcceptances, readRules } from "../../db/advisor/advisor.ts";
import { CALLER_ROLES, type Finding } from "../../db/advisor/finding.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});
afterEach(() => database.owner.query("drop schema if exists shop cascade"));

const ROLES = ["anon", ...CALLER_ROLES];
const run = (sql: string) => database.owner.query(sql);
const findingsOf = async (rule: string): Promise<readonly Finding[]> =>
  (await advise(database.owner, { schemas: ["shop"], logins: [], roles: ROLES, rules: [rule] })).findings;

/** Creates objects in the schema shop, which is served. */
const inShop = (sql: string) =>
  run(`create schema shop; grant usage on schema shop to anon, authenticated; set search_path = shop; ${sql}`).finally(
    () => run("set search_path = public"),
  );

test("our own database has no findings but those that it accepts", async () => {
  const { findings, accepted } = await advise(database.owner, { schemas: ["public"], logins: [], roles: ROLES });
  expect(findings).toEqual([]);
  expect(accepted.map(({ rule, object }) => `${rule}: ${object}`)).toEqual([
    "function-sets-role: function auth.act_as(text)",
    'policy-always-true: policy "editors of users change everyone" on public.users',
    'policy-always-true: policy "editors of users delete everyone" on public.users',
    'policy-always-true: policy "everyone may sign up" on public.users',
  ]);
  expect(accepted.every(({ because }) => because.length > 10)).toBe(true);
});

/** Tables with row-level security that anonymous callers read. */
const ORDERS = `
  create table customers (id int primary key, owner bigint);
  create table orders (id int primary key, customer int references customers, owner bigint, total int);
  create index on orders (customer);
  alter table customers enable row level security; alter table orders enable row level security;
  create policy p on customers for select using (true); create policy p on orders for select using (true);
  grant select on customers, orders to authenticated;`;

/** What is wrong, the object and the reason that are reported, and a similar case that is right. */
type Case = {
  readonly bad: string;
  readonly object: string;
  readonly reason: RegExp;
  readonly good: string;
  /** How a DBA completes a fix that contains …; null if it cannot be executed. */
  readonly fix?: ((fix: string) => string) | null;
};

const CASES: Readonly<Record<string, Case>> = {
  "table-without-row-security": {
    bad: "create table rates (id int primary key); grant select on rates to anon;",
    object: "table shop.rates",
    reason: /^it has no row-level security: anon may use all rows$/,
    good: "create table rates (id int primary key); create table t (id int primary key); alter table t enable row level security; grant select on t to anon; create policy p on t using (true);",
    fix: (fix) => fix.replace('"…"', "p").replace("…", "true"),
  },
  "view-without-security-invoker": {
    bad: `${ORDERS} create view totals as select sum(total) from orders; grant select on totals to anon;`,
    object: "view shop.totals",
    reason: /^it reads as its owner postgres: anon see rows that the policies of its tables hide$/,
    good: `${ORDERS} create view totals with (security_invoker) as select sum(total) from orders; create view now as select 1; grant select on totals, now to anon;`,
  },
  "relation-without-policies": {
    bad: `${ORDERS} create materialized view totals as select sum(total) from orders; grant select on totals to anon;`,
    object: "materialized view shop.totals",
    reason: /^policies cannot apply to it: anon may use all rows$/,
    good: `${ORDERS} create materialized view totals as select sum(total) from orders;`,
  },
  "definer-without-search-path": {
    bad: "create function f() returns int language sql security definer as 'select 1'; revoke execute on function f from public;",
    object: "function shop.f()",
    reason: /^it runs as postgres and looks up names in the search_path of its caller$/,
    good: "create function f() returns int language sql security definer set search_path = '' as 'select 1'; create function g() returns int language sql as 'select 1';",
  },
  "function-past-policies": {
    bad: `${ORDERS} create function f() returns setof orders language sql security definer set search_path = '' as 'select * from shop.orders'; grant execute on function f to anon;`,
    object: "function shop.f()",
    reason: /^anon may call it, and it runs as postgres, to whom no policy applies$/,
    good: `${ORDERS} create function f() returns setof orders language sql set search_path = '' as 'select * from shop.orders'; grant execute on function f to anon;`,
  },
  "function-for-everyone": {
    bad: "create function f() returns int language sql as 'select 1'; grant execute on function f to public;",
    object: "function shop.f()",
    reason: /^every role may execute it, anonymous callers too$/,
    good: "create function f() returns int language sql as 'select 1'; grant execute on function f to anon; create function g() returns trigger language plpgsql as 'begin return new; end'; grant execute on function g to public;",
  },
  "policy-recursion": {
    bad: "create table members (team int, member bigint); grant select on members to anon; alter table members enable row level security; create policy team on members for select using (team in (select m.team from shop.members as m where m.member = (select auth.uid())));",
    object: "policy team on shop.members",
    reason: /^it reads shop\.members, whose policies apply it again: statements that it applies to fail with 42P17$/,
    good: "create table members (team int, member bigint); grant select on members to anon; alter table members enable row level security; create function teams() returns setof int language sql stable security definer set search_path = '' begin atomic select team from shop.members where member = (select auth.uid()); end; create policy team on members for select using (team in (select shop.teams()));",
    fix: (fix) =>
      fix
        .replace("(…) returns", "(asked int) returns")
        .replace("where …", "where team = asked and member = (select auth.uid())")
        .replace("using ((select internal.is_team(…)))", "using (internal.is_team(team))")
        .replace("create function", "drop function if exists internal.is_team;\ncreate function"),
  },
  "policy-without-execute": {
    bad: `${ORDERS} create function mine() returns bigint language sql as 'select 1'; create policy own on orders for select to authenticated using (owner = (select shop.mine()));`,
    object: "policy own on shop.orders",
    reason:
      /^it calls shop\.mine\(\), which admin, authenticated may not execute: statements that it applies to fail with 42501$/,
    good: `${ORDERS} create function mine() returns bigint language sql as 'select 1'; grant execute on function mine to authenticated; create policy own on orders for select to authenticated using (owner = (select shop.mine())); create function other() returns bigint language sql as 'select 1'; create policy admins on orders for select to service_role using (owner = (select shop.other()));`,
  },
  "policy-per-row": {
    bad: `${ORDERS} create policy own on orders for update using (owner = auth.uid()) with check (owner = auth.uid());`,
    object: "policy own on shop.orders",
    reason: /^it calls auth\.uid\(\) once per row$/,
    good: `${ORDERS} create policy own on orders for update using (owner = (select auth.uid()));`,
  },
  "policy-always-true": {
    bad: `${ORDERS} create policy all_of_them on orders for update to authenticated using (true);`,
    object: "policy all_of_them on shop.orders",
    reason: /^it allows authenticated to update every row$/,
    good: ORDERS,
    fix: null,
  },
  "policy-without-sign-in": {
    bad: `${ORDERS} create policy own on orders for update using ((select auth.uid()) is null or owner = (select auth.uid()));`,
    object: "policy own on shop.orders",
    reason: /^its condition holds for every row if the claims of the caller name no user: /,
    good: `${ORDERS} create policy own on orders for update using ((select auth.uid()) is not null and owner = (select auth.uid()));`,
    fix: null,
  },
  "grant-without-policy": {
    bad: `${ORDERS} grant insert on orders to authenticated;`,
    object: "table shop.orders",
    reason: /^admin, authenticated may insert, but no policy allows a row: inserts fail with 42501$/,
    good: `${ORDERS} grant insert on orders to authenticated; create policy i on orders for insert to authenticated with check (owner = (select auth.uid()));`,
    fix: (fix) => fix.replace('"…"', "i").replace("…", "owner = (select auth.uid())"),
  },
  "policy-without-grant": {
    bad: `${ORDERS} create policy own on orders for delete to authenticated using (owner = (select auth.uid()));`,
    object: "policy own on shop.orders",
    reason: /^authenticated may not delete shop\.orders$/,
    good: `${ORDERS} create policy own on orders for delete to authenticated using (owner = (select auth.uid())); grant delete on orders to authenticated;`,
  },
  "foreign-key-without-index": {
    bad: "create table customers (id int primary key); create table orders (id int primary key, customer int references customers);",
    object: "constraint orders_customer_fkey on shop.orders",
    reason:
      /^shop\.orders has no index that begins with customer: GraphQL leaves out its list in shop\.customers, and deleting there scans shop\.orders$/,
    good: "create table customers (id int primary key); create table orders (id int primary key, customer int references customers); create index on orders (customer, id);",
  },
  "check-without-message": {
    bad: "create table orders (id int primary key, total int check (total > 0)); grant select on orders to anon;",
    object: "constraint orders_total_check on shop.orders",
    reason: /^its name was generated, and it has no comment: clients get a general message$/,
    good: "create table orders (id int primary key, total int, constraint total_positive check (total > 0)); grant select on orders to anon; comment on constraint total_positive on orders is 'total must be positive';",
    fix: (fix) => fix.replaceAll("to …", "to total_positive").replace("constraint …", "constraint total_positive"),
  },
  "table-without-primary-key": {
    bad: "create table orders (total int); grant select on orders to anon;",
    object: "table shop.orders",
    reason:
      /^it has no primary key: GraphQL has no query, update or delete of one row and no subscription, only lists and writes with a filter$/,
    good: "create table orders (total int);",
  },
  "duplicate-index": {
    bad: "create table orders (id int primary key, total int); create index a on orders (total); create index b on orders (total);",
    object: "index shop.b",
    reason: /^it is equal to shop\.a$/,
    good: "create table orders (id int primary key, total int); create index a on orders (total); create index b on orders (total desc);",
  },
  "invalid-index": {
    bad: "create table orders (id int primary key, total int); create index a on orders (total); update pg_index set indisvalid = false where indexrelid = 'a'::regclass;",
    object: "index shop.a",
    reason: /^it failed to build on shop\.orders: it costs writes and serves no query$/,
    good: "create table orders (id int primary key, total int); create index a on orders (total);",
  },
  "extension-in-served-schema": {
    bad: "create extension tcn schema shop;",
    object: "extension tcn",
    reason: /^its functions are in the served schema shop$/,
    good: "select;",
  },
  "secret-column": {
    bad: "create table users (id int primary key, password_hash text); alter table users enable row level security; grant select on users to anon;",
    object: "column shop.users.password_hash",
    reason: /^anon may read it$/,
    good: "create table users (id int primary key, password_hash text, passwordless boolean); alter table users enable row level security; grant select (id, passwordless) on users to anon;",
  },
  "function-reads-closed-columns": {
    bad: "create table users (id int primary key, hash text); alter table users enable row level security; create policy p on users using (true); grant select (id) on users to authenticated; create function me() returns users language sql stable as 'select * from shop.users where id = 1'; grant execute on function me() to authenticated;",
    object: "function shop.me()",
    reason: /^it reads all columns of shop\.users with \*, and admin, authenticated may not read hash: calls fail$/,
    good: "create table users (id int primary key, hash text); alter table users enable row level security; create policy p on users using (true); grant select (id) on users to authenticated; create function me() returns users language sql stable as 'select id, null::text from shop.users where id = 1'; grant execute on function me() to authenticated;",
    fix: null,
  },
  "function-sets-role": {
    bad: "create function f() returns void language plpgsql as 'begin set local role admin; end';",
    object: "function shop.f()",
    reason: /^it sets a role: /,
    good: "create function f() returns text language sql as 'select ''role''';",
    fix: null,
  },
  "function-uses-missing-column": {
    bad: "create table orders (id int primary key, total int); create function f() returns int language plpgsql as 'begin return (select o.totel from shop.orders as o); end';",
    object: "function shop.f()",
    reason: /^it uses the column totel of shop\.orders, which does not exist: calls fail$/,
    good: "create table orders (id int primary key, total int); create function f() returns int language plpgsql as 'begin return (select o.total from shop.orders as o); end';",
    fix: null,
  },
  "unknown-smart-tag": {
    bad: "create table orders (id int primary key); comment on table orders is e'@nmae purchases\\nWhat is bought.';",
    object: "table shop.orders",
    reason: /^@nmae is not a smart tag: did you mean @name\?$/,
    good: "create table orders (id int primary key); comment on table orders is e'@name purchases\\nMail @us.';",
  },
};

/** The rules about the logins of a service are tested with one: test/existing/advice.test.ts. */
const ABOUT_LOGINS = ["login-bypasses-row-security", "login-is-superuser", "login-may-replicate", "login-owns-tables"];

test("every rule has a case, a level and a reason", async () => {
  const rules = await readRules();
  expect(rules.map(({ name }) => name)).toEqual([...Object.keys(CASES), ...ABOUT_LOGINS].sort());
  for (const { about } of rules) expect(about).toMatch(/^[A-Z].*\.$/);
});

describe.each(Object.entries(CASES))("%s", (rule, { bad, object, reason, good, fix = (sql) => sql }) => {
  test("reports the object and the reason, and its SQL fixes it", async () => {
    await inShop(bad);
    const [found, ...others] = await findingsOf(rule);
    expect(others).toEqual([]);
    expect(found).toMatchObject({ object, reason: expect.stringMatching(reason) });
    if (fix === null) return;
    for (const statement of fix(found!.fix!).split(/;\n/)) await run(statement);
    expect(await findingsOf(rule)).toEqual([]);
  });

  test("does not report what is right", async () => {
    await inShop(good);
    expect(await findingsOf(rule)).toEqual([]);
  });
});

test("the fix for a function that every role may execute names the roles whose policies use it, and grants first", async () => {
  const advised = async (sql: string) => {
    await inShop(`create table notes (id int primary key); grant select on notes to anon, authenticated;
      alter table notes enable row level security;
      create function me() returns int language sql stable as 'select 1'; grant execute on function me() to public; ${sql}`);
    const found = await findingsOf("function-for-everyone");
    await run("drop schema shop cascade");
    return found[0]!.fix;
  };
  const fixFor = (roles: string) =>
    `grant execute on function shop.me() to ${roles};\nrevoke execute on function shop.me() from public;`;
  expect(await advised("create policy p on notes to anon using (id = (select shop.me()))")).toBe(fixFor("anon"));
  expect(await advised("")).toBe(fixFor("admin, anon, authenticated"));
});

test("the fix for a policy that recurses is complete: callers can read the table after it", async () => {
  await inShop(`create table members (team int, member bigint); grant select on members to authenticated;
    insert into members values (1, 1), (2, 2); alter table members enable row level security;
    create policy "same team" on members for select
      using (team in (select m.team from shop.members as m where m.member = 1));`);
  const [found] = await findingsOf("policy-recursion");
  expect(found!.fix).toContain("grant execute on function internal.is_same_team to authenticated;");
  await run(
    found!
      .fix!.replace("(…) returns", "(asked int) returns")
      .replace("where …", "where team = asked and member = 1")
      .replace("using ((select internal.is_same_team(…)))", "using ((select internal.is_same_team(team)))"),
  );
  await run("begin; set local role authenticated");
  const { rows } = await run("select team from shop.members").finally(() =>
    run("rollback; drop function internal.is_same_team cascade"),
  );
  expect(rows).toEqual([{ team: 1 }]);
  expect(
    (await advise(database.owner, { schemas: ["shop"], logins: [], roles: ["authenticated"] })).findings.filter(
      ({ level }) => level === "error",
    ),
  ).toEqual([]);
});

test("a view whose tables have no policies is only a note, also if it reads them through another view", async () => {
  await inShop(`create table rates (id int primary key); ${ORDERS}
    create view current_rates as select id from rates; create view totals with (security_invoker) as select id from orders;
    create view more as select id from current_rates; create view all_totals as select id from totals;
    grant select on current_rates, more, all_totals to anon;`);
  const found = await findingsOf("view-without-security-invoker");
  expect(found.map(({ object, level }) => `${level}: ${object}`)).toEqual([
    "error: view shop.all_totals",
    "note: view shop.current_rates",
    "note: view shop.more",
  ]);
  expect(found[1]!.reason).toBe(
    "it reads as its owner postgres: if its tables get policies, they will not apply to anon",
  );
});

test("an unknown word of @behavior is reported with the word that it resembles", async () => {
  await inShop(`create table orders (id int primary key, total int, note text);
    comment on column orders.total is e'@behavior +filtrBy +orderBy\nIn cents.';
    comment on column orders.note is '@behavior -* +attribute:select';
    comment on table orders is '@behavior +query:resource:lists -aggregates'`);
  const [column, table, ...others] = await findingsOf("unknown-smart-tag");
  expect(others).toEqual([]);
  expect(column).toMatchObject({
    object: "column shop.orders.total",
    reason: "+filtrBy is not a behavior: did you mean +filterBy?",
    fix: "comment on column shop.orders.total is '@behavior +filterBy +orderBy\nIn cents.';",
  });
  expect(table).toMatchObject({
    reason: "+query:resource:lists is not a behavior: did you mean +query:resource:list?",
  });
});

test("the policy that a table lacks is for the roles that the grants name, not for those that inherit them", async () => {
  await inShop(`create table rates (id int primary key, note text); create table units (id int primary key);
    grant select on rates to authenticated; grant update (note) on rates to users_editor; grant select on units to public;`);
  const found = await findingsOf("table-without-row-security");
  expect(found.map(({ fix }) => /create policy .*/.exec(fix!)![0])).toEqual([
    'create policy "…" on shop.rates to authenticated, users_editor using (…);',
    'create policy "…" on shop.units to public using (…);',
  ]);
});

test("a policy that reads its own table through another table's policy is reported", async () => {
  await inShop(`${ORDERS}
    create policy q on customers for select using (exists (select from shop.orders as o where o.customer = id));
    create policy q on orders for select using (exists (select from shop.customers as c where c.id = customer));`);
  const found = await findingsOf("policy-recursion");
  expect(found.map(({ object }) => object)).toEqual(["policy q on shop.customers", "policy q on shop.orders"]);
  // What goes into the function is the table that the policy reads, not its own.
  const read = ["shop.orders", "shop.customers"];
  expect(found.map(({ reason }) => /^it reads (\S+), whose/.exec(reason)?.[1])).toEqual(read);
  expect(found.map(({ fix }) => /select from (\S+) where/.exec(fix!)?.[1])).toEqual(read);
  await expect(
    database.owner.query("begin; set local role authenticated; select from shop.orders").finally(() => run("rollback")),
  ).rejects.toMatchObject({ code: "42P17" });
});

test("a policy that calls a function that reads its table with the rights of the caller is reported", async () => {
  await inShop(`${ORDERS}
    create function may_see() returns boolean language sql stable as 'select exists (select from shop.orders)';
    create policy q on orders for select using ((select shop.may_see()));`);
  const [found] = await findingsOf("policy-recursion");
  expect(found).toMatchObject({ object: "policy q on shop.orders", fix: expect.stringContaining("security definer") });
});

/** The body of a function of `orders`, and the missing column that is reported, if any. */
const BODIES: readonly (readonly [body: string, missing: string | null])[] = [
  ["perform o.gone from shop.orders as o;", "gone"],
  ["perform o.gone from shop.orders o where o.id = 1;", "gone"],
  ["insert into shop.orders (id, gone) values (1, 2);", "gone"],
  ["declare r shop.orders; begin select * into r from shop.orders; perform r.gone; end;", "gone"],
  ["declare r shop.orders%rowtype; begin perform r.gone; end;", "gone"],
  ["perform o.total from shop.orders as o; /* o.gone */", null],
  ["perform o.total from shop.orders as o where o.note <> 'o.gone';", null],
  ["perform o.gone from (select 1 as gone) as o, shop.orders;", null],
  ["with o as (select 1 as gone) select o.gone from o, shop.orders;", null],
  ["declare o record; begin for o in select 1 as gone from shop.orders as o loop perform o.gone; end loop; end;", null],
  ["perform o.full_note from shop.orders as o;", null],
  ["perform o.xmin from shop.orders as o;", null],
  ["update shop.orders as o set total = 1 where o.id = 1 and o.gone;", "gone"],
];
test.each(BODIES)("a function with the body %j uses the missing column %s", async (body, missing) => {
  await inShop(`create table orders (id int primary key, total int, note text);
    create function full_note(orders) returns text language sql as 'select $1.note';
    create function f() returns void language plpgsql as $body$ begin ${body} end $body$;`);
  const found = await findingsOf("function-uses-missing-column");
  expect(found.map(({ reason }) => /the column (.*) of/.exec(reason)![1])).toEqual(missing === null ? [] : [missing]);
});

test("a function in SQL that names a missing column without its table is reported, whatever its search path", async () => {
  await inShop(`create table orders (id int primary key, total int, note text);
    create function total() returns bigint language sql as 'select sum(total) from orders';
    create function strict_total() returns bigint language sql set search_path = '' as 'select sum(total) from shop.orders';
    create function noted() returns setof text language sql as 'select note from shop.orders';
    alter table orders rename column total to amount;`);
  expect(await findingsOf("function-uses-missing-column")).toMatchObject([
    { object: "function shop.strict_total()", reason: 'column "total" does not exist: calls fail' },
    { object: "function shop.total()", reason: 'column "total" does not exist: calls fail' },
  ]);
});

test("a trigger function that sets a missing column of its table is reported", async () => {
  await inShop(`create table orders (id int primary key, touched timestamptz);
    create function touch() returns trigger language plpgsql as 'begin new.touched := now(); return new; end';
    create trigger t before update on orders for each row execute function touch();
    alter table orders rename column touched to changed;`);
  expect(await findingsOf("function-uses-missing-column")).toMatchObject([{ object: "function shop.touch()" }]);
});

test("a finding is accepted by a smart tag, or by a line of a file, with its reason", async () => {
  await inShop(`create table rates (id int primary key); create table units (id int primary key);
    grant select on rates, units to anon;
    comment on table rates is e'@accept table-without-row-security rates are public\\nExchange rates.';`);
  const file = "# reference data\n\ntable-without-row-security table shop.units # units are public\n";
  const rules = ["table-without-row-security"];
  const acceptances = parseAcceptances(file);
  const { findings, accepted } = await advise(database.owner, {
    schemas: ["shop"],
    logins: [],
    roles: ROLES,
    acceptances,
    rules,
  });
  expect(findings).toEqual([]);
  expect(accepted.map(({ object, because }) => [object, because])).toEqual([
    ["table shop.rates", "rates are public"],
    ["table shop.units", "units are public"],
  ]);
});

test("a malformed line of a file of accepted findings is an error that names the line", () => {
  expect(() => parseAcceptances("# comment\nnonsense")).toThrow("line 2 must be: rule object # reason");
});

test("roles that no policy restricts are not callers", async () => {
  await inShop("create table rates (id int primary key); grant all on rates to service_role;");
  expect(await findingsOf("table-without-row-security")).toEqual([]);
});

test("a login leads to the roles that it may become", async () => {
  const login = `${database.name}_shop`;
  await run(`create role ${login} login noinherit; create role ${login}_clerk; grant ${login}_clerk to ${login}`);
  try {
    await inShop(`create table rates (id int primary key); grant select on rates to ${login}_clerk;`);
    const { findings } = await advise(database.owner, { schemas: ["shop"], logins: [login], roles: [] });
    expect(findings.map(({ reason }) => reason)).toEqual([
      `it has no row-level security: ${login}_clerk may use all rows`,
    ]);
  } finally {
    await run(`drop schema shop cascade; drop role ${login}, ${login}_clerk`);
  }
});
