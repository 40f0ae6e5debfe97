import { resolvePreset } from "graphile-config";
import { afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import type { Finding } from "../../../db/findings/finding.ts";
import { advise, parseAcceptances, readRules } from "../../../parts/advisor/advisor.ts";
import { grouped } from "../../../parts/advisor/grouped.ts";
import { plugins } from "../../../parts/graphql-extras/plugins.ts";
import { contractPreset } from "../../../plugins/index.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});
afterEach(() => database.owner.query("drop schema if exists shop cascade"));

const ROLES = ["anon", "authenticated", "admin", "users_editor"];
const run = (sql: string) => database.owner.query(sql);
const findingsOf = async (rule: string, logins: readonly string[] = []): Promise<readonly Finding[]> => {
  const options = { schemas: ["shop"], logins, roles: logins.length > 0 ? [] : ROLES };
  return (await advise(database.owner, options)).findings.filter((finding) => finding.rule === rule);
};

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

test("a database whose encoding is not UTF8 has findings too", async () => {
  const { owner, drop } = await createTestDatabase(undefined, "template0 encoding 'LATIN1' locale 'C'");
  onTestFinished(drop);
  await owner.query(
    "create schema shop; create table shop.größen (größe int check (größe > 0)); grant select on shop.größen to anon",
  );
  const { findings } = await advise(owner, { schemas: ["shop"], logins: [], roles: ROLES });
  const fix = findings.find(({ rule }) => rule === "check-without-message")!.fix;
  expect(fix).toContain(`comment on constraint … on shop."größen" is '…';`);
});

/** Tables with row-level security that anonymous callers read. */
const ORDERS = `
  create table customers (id int primary key, owner bigint);
  create table orders (id int primary key, customer int references customers, owner bigint, total int);
  create index on orders (customer);
  alter table customers enable row level security; alter table orders enable row level security;
  create policy p on customers for select using (true); create policy p on orders for select using (true);
  grant select on customers, orders to authenticated;`;

/** What is wrong, the finding, and a similar case that is right. */
type Case = {
  readonly bad: string;
  readonly finding: string;
  readonly good: string;
  /** How a DBA completes a fix that contains …; null if it cannot be executed. */
  readonly fix?: ((fix: string) => string) | null;
};

/** A DBA decides about these statements. */
const decided = (fix: string) => fix.replaceAll(/^-- (?=(alter|create|grant|revoke) )/gm, "");

const CASES: Readonly<Record<string, Case>> = {
  "table-without-row-security": {
    bad: "create table rates (id int primary key); grant select on rates to anon;",
    finding: "table shop.rates: it has no row-level security: anon may use all rows",
    good: "create table rates (id int primary key); create table t (id int primary key); alter table t enable row level security; grant select on t to anon; create policy p on t using (true);",
    fix: (fix) => fix.replace('"…"', "p").replace("…", "true"),
  },
  "view-without-security-invoker": {
    bad: `${ORDERS} create view totals as select sum(total) from orders; grant select on totals to anon;`,
    finding: "view shop.totals: it reads as its owner postgres: anon see rows that the policies of its tables hide",
    fix: decided,
    good: `${ORDERS} create view totals with (security_invoker) as select sum(total) from orders; create view now as select 1; grant select on totals, now to anon;`,
  },
  "relation-without-policies": {
    bad: `${ORDERS} create materialized view totals as select sum(total) from orders; grant select on totals to anon;`,
    finding: "materialized view shop.totals: policies cannot apply to it: anon may use all rows",
    fix: decided,
    good: `${ORDERS} create materialized view totals as select sum(total) from orders;`,
  },
  "definer-without-search-path": {
    bad: "create function f() returns int language sql security definer as 'select 1'; revoke execute on function f from public;",
    finding: "function shop.f(): it runs as postgres and looks up names in the search_path of its caller",
    good: "create function f() returns int language sql security definer set search_path = '' as 'select 1'; create function g() returns int language sql as 'select 1';",
  },
  "function-past-policies": {
    bad: `${ORDERS} create function f() returns setof orders language sql security definer set search_path = '' as 'select * from shop.orders'; grant execute on function f to anon;`,
    finding: "function shop.f(): anon may call it, and it runs as postgres, to whom no policy applies",
    fix: decided,
    good: `${ORDERS} create function f() returns setof orders language sql set search_path = '' as 'select * from shop.orders'; grant execute on function f to anon;`,
  },
  "function-for-everyone": {
    bad: "create function f() returns int language sql as 'select 1'; grant execute on function f to public;",
    finding: "function shop.f(): every role may execute it, anonymous callers too",
    good: "create function f() returns int language sql as 'select 1'; grant execute on function f to anon; create function g() returns trigger language plpgsql as 'begin return new; end'; grant execute on function g to public;",
  },
  "policy-recursion": {
    bad: "create table members (team int, member bigint); grant select on members to anon; alter table members enable row level security; create policy team on members for select using (team in (select m.team from shop.members as m where m.member = (select auth.uid())));",
    finding:
      "policy team on shop.members: it reads shop.members, whose policies apply it again: statements that it applies to fail with 42P17",
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
    finding:
      "policy own on shop.orders: it calls shop.mine(), which admin, authenticated may not execute: statements that it applies to fail with 42501",
    good: `${ORDERS} create function mine() returns bigint language sql as 'select 1'; grant execute on function mine to authenticated; create policy own on orders for select to authenticated using (owner = (select shop.mine())); create function other() returns bigint language sql as 'select 1'; create policy admins on orders for select to service_role using (owner = (select shop.other()));`,
  },
  "policy-per-row": {
    bad: `${ORDERS} create policy own on orders for update using (owner = auth.uid()) with check (owner = auth.uid());`,
    finding: "policy own on shop.orders: it calls auth.uid() once per row",
    good: `${ORDERS} create policy own on orders for update using (owner = (select auth.uid()));`,
  },
  "policy-always-true": {
    bad: `${ORDERS} create policy all_of_them on orders for update to authenticated using (true);`,
    finding: "policy all_of_them on shop.orders: it allows authenticated to update every row",
    good: ORDERS,
    fix: null,
  },
  "policy-with-current-user": {
    bad: `${ORDERS} create policy own on orders for update using (owner::text = (select current_user)) with check (true);`,
    finding:
      "policy own on shop.orders: it compares owner with current_user, which is the same for all callers of a role and names no user",
    good: `${ORDERS} create policy staff on orders for update using (pg_has_role(current_user, 'admin', 'member'));`,
    fix: (fix) => fix.replaceAll("…", "owner = (select auth.uid())"),
  },
  "policy-without-sign-in": {
    bad: `${ORDERS} create policy own on orders for update using ((select auth.uid()) is null or owner = (select auth.uid()));`,
    finding:
      "policy own on shop.orders: its condition holds for every row if the claims of the caller name no user: ((( SELECT auth.uid() AS uid) IS NULL) OR (owner = ( SELECT auth.uid() AS uid)))",
    good: `${ORDERS} create policy own on orders for update using ((select auth.uid()) is not null and owner = (select auth.uid()));`,
    fix: null,
  },
  "grant-without-policy": {
    bad: `${ORDERS} grant insert on orders to authenticated;`,
    finding: "table shop.orders: admin, authenticated may insert, but no policy allows a row: inserts fail with 42501",
    good: `${ORDERS} grant insert on orders to authenticated; create policy i on orders for insert to authenticated with check (owner = (select auth.uid()));`,
    fix: (fix) => fix.replace('"…"', "i").replace("…", "owner = (select auth.uid())"),
  },
  "policy-without-grant": {
    bad: `${ORDERS} create policy own on orders for delete to authenticated using (owner = (select auth.uid()));`,
    finding: "policy own on shop.orders: authenticated may not delete shop.orders",
    good: `${ORDERS} create policy own on orders for delete to authenticated using (owner = (select auth.uid())); grant delete on orders to authenticated;`,
  },
  "foreign-key-without-index": {
    bad: "create table customers (id int primary key); create table orders (id int primary key, customer int references customers);",
    finding:
      "constraint orders_customer_fkey on shop.orders: shop.orders has no index that begins with customer: GraphQL leaves out its list in shop.customers, and deleting there scans shop.orders",
    good: "create table customers (id int primary key); create table orders (id int primary key, customer int references customers); create index on orders (customer, id);",
  },
  "check-without-message": {
    bad: "create table orders (id int primary key, total int check (total > 0)); grant select on orders to anon;",
    finding:
      "constraint orders_total_check on shop.orders: its name was generated, and it has no comment: clients get a general message",
    good: "create table orders (id int primary key, total int, constraint total_positive check (total > 0)); grant select on orders to anon; comment on constraint total_positive on orders is 'total must be positive';",
    fix: (fix) => fix.replaceAll("to …", "to total_positive").replace("constraint …", "constraint total_positive"),
  },
  "table-without-primary-key": {
    bad: "create table orders (total int); grant select on orders to anon;",
    finding:
      "table shop.orders: it has no primary key: GraphQL has no query, update or delete of one row and no subscription, only lists and writes with a filter",
    good: "create table orders (total int);",
  },
  "duplicate-index": {
    bad: "create table orders (id int primary key, total int); create index a on orders (total); create index b on orders (total);",
    finding: "index shop.b: it is equal to shop.a",
    good: "create table orders (id int primary key, total int); create index a on orders (total); create index b on orders (total desc);",
  },
  "invalid-index": {
    bad: "create table orders (id int primary key, total int); create index a on orders (total); update pg_index set indisvalid = false where indexrelid = 'a'::regclass;",
    finding: "index shop.a: it failed to build on shop.orders: it costs writes and serves no query",
    good: "create table orders (id int primary key, total int); create index a on orders (total);",
  },
  "extension-in-served-schema": {
    bad: "create extension tcn schema shop;",
    finding: "extension tcn: its functions are in the served schema shop",
    fix: decided,
    good: "select;",
  },
  "secret-column": {
    bad: "create table users (id int primary key, password_hash text); alter table users enable row level security; grant select on users to anon;",
    finding: "column shop.users.password_hash: anon may read it",
    fix: decided,
    good: "create table users (id int primary key, password_hash text, passwordless boolean); alter table users enable row level security; grant select (id, passwordless) on users to anon;",
  },
  "function-reads-closed-columns": {
    bad: "create table users (id int primary key, hash text); alter table users enable row level security; create policy p on users using (true); grant select (id) on users to authenticated; create function me() returns users language sql stable as 'select * from shop.users where id = 1'; grant execute on function me() to authenticated;",
    finding:
      "function shop.me(): it reads all columns of shop.users with *, and admin, authenticated may not read hash: calls fail",
    good: "create table users (id int primary key, hash text); alter table users enable row level security; create policy p on users using (true); grant select (id) on users to authenticated; create function me() returns users language sql stable as 'select id, null::text from shop.users where id = 1'; grant execute on function me() to authenticated;",
    fix: null,
  },
  "function-sets-role": {
    bad: "create function f() returns void language plpgsql as 'begin set local role admin; end';",
    finding: "function shop.f(): it sets a role: its callers get the rights of that role until the end of the request",
    good: "create function f() returns text language sql as 'select ''role''';",
    fix: null,
  },
  "function-uses-missing-column": {
    bad: "create table orders (id int primary key, total int); create function f() returns int language plpgsql as 'begin return (select o.totel from shop.orders as o); end';",
    finding: "function shop.f(): it uses the column totel of shop.orders, which does not exist: calls fail",
    good: "create table orders (id int primary key, total int); create function f() returns int language plpgsql as 'begin return (select o.total from shop.orders as o); end';",
    fix: null,
  },
  "unknown-smart-tag": {
    bad: "create table orders (id int primary key); comment on table orders is e'@nmae purchases\\nWhat is bought.';",
    finding: "table shop.orders: @nmae is not a smart tag: did you mean @name?",
    good: "create table orders (id int primary key); comment on table orders is e'@name purchases\\nMail @us.';",
  },
};

/** Of a login: the rule, how it is broken, the finding, and a fix for one that is not SQL that can be executed. */
const OF_LOGINS: readonly (readonly [rule: string, sql: string, finding: string, fix: string | null])[] = [
  [
    "login-bypasses-row-security",
    "alter role LOGIN bypassrls",
    "role LOGIN: it serves requests, and policies do not restrict it",
    null,
  ],
  [
    "login-bypasses-row-security",
    "create role LOGIN_support bypassrls; grant LOGIN_support to LOGIN",
    "role LOGIN_support: policies do not restrict it, and a token can name it, because the login LOGIN may become it",
    null,
  ],
  [
    "login-is-superuser",
    "alter role LOGIN superuser",
    "role LOGIN: it serves requests, and is a superuser: a token may name any role, and no policy restricts it",
    "alter role LOGIN nosuperuser",
  ],
  [
    "login-may-replicate",
    "alter role LOGIN replication",
    "role LOGIN: it serves requests, and with the attribute replication it could copy the whole server: name another login in CHANGES_URL",
    null,
  ],
  [
    "login-owns-tables",
    "create table shop.owned (id int primary key); alter table shop.owned owner to LOGIN",
    "role LOGIN: it serves requests, and owns shop.owned: policies do not restrict it there",
    "alter table shop.owned owner to postgres",
  ],
];

test("every rule has a case, a level and a reason", async () => {
  const rules = await readRules();
  expect(rules.map(({ name }) => name)).toEqual(
    [...new Set([...Object.keys(CASES), ...OF_LOGINS.map(([rule]) => rule)])].sort(),
  );
  for (const { about } of rules) expect(about).toMatch(/^[A-Z].*\.$/);
});

test.each(Object.keys(CASES))("%s reports what is wrong, not what is right, and its SQL fixes it", async (rule) => {
  const { bad, finding, good, fix = (sql) => sql } = CASES[rule]!;
  await inShop(bad);
  const [found, ...others] = await findingsOf(rule);
  expect([`${found?.object}: ${found?.reason}`, others]).toEqual([finding, []]);
  if (fix !== null) {
    for (const statement of fix(found!.fix!).split(/;\n/)) await run(statement);
    expect(await findingsOf(rule)).toEqual([]);
  }
  await run("drop schema shop cascade");
  await inShop(good);
  expect(await findingsOf(rule)).toEqual([]);
});

test("the fix for a function that every role may execute grants first, to all that can call it", async () => {
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
  expect(await advised("create policy p on notes to anon using (id = (select shop.me()))")).toBe(
    fixFor("admin, anon, authenticated"),
  );
  expect(await advised("grant usage on schema shop to service_role, auth_owner")).toBe(
    fixFor("admin, anon, auth_owner, authenticated, service_role"),
  );
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

/** What a rule finds in less simple cases: the findings, of which a fix is given by the part that matters. */
const MORE: readonly (readonly [about: string, rule: string, sql: string, findings: readonly object[]])[] = [
  [
    "the search_path of a function begins with its schema, and has each schema once",
    "definer-without-search-path",
    "create function f() returns int language sql security definer as 'select 1'; revoke execute on function f from public;",
    [{ fix: "alter function shop.f() set search_path = shop, public, extensions, pg_temp;" }],
  ],
  [
    "a view whose tables have no policies is only a note, also if it reads them through another view",
    "view-without-security-invoker",
    `create table rates (id int primary key); ${ORDERS}
      create view current_rates as select id from rates; create view totals with (security_invoker) as select id from orders;
      create view more as select id from current_rates; create view all_totals as select id from totals;
      grant select on current_rates, more, all_totals to anon;`,
    [
      { level: "error", object: "view shop.all_totals" },
      {
        level: "note",
        object: "view shop.current_rates",
        reason: "it reads as its owner postgres: if its tables get policies, they will not apply to anon",
      },
      { level: "note", object: "view shop.more" },
    ],
  ],
  [
    "an unknown word of @behavior is reported with the word that it resembles",
    "unknown-smart-tag",
    `create table orders (id int primary key, total int, note text);
      comment on column orders.total is e'@behavior +filtrBy +orderBy\nIn cents.';
      comment on column orders.note is '@behavior -* +attribute:select';
      comment on table orders is '@behavior +query:resource:lists -aggregates'`,
    [
      {
        object: "column shop.orders.total",
        reason: "+filtrBy is not a behavior: did you mean +filterBy?",
        fix: "comment on column shop.orders.total is e'@behavior +filterBy +orderBy\\nIn cents.';",
      },
      { reason: "+query:resource:lists is not a behavior: did you mean +query:resource:list?" },
    ],
  ],
  [
    "the policy that a table lacks is for the roles that the grants name, not for those that inherit them",
    "table-without-row-security",
    `create table rates (id int primary key, note text); create table units (id int primary key);
      grant select on rates to authenticated; grant update (note) on rates to users_editor; grant select on units to public;`,
    [
      { fix: expect.stringMatching(/^create policy "…" on shop\.rates to authenticated, users_editor using \(…\);$/m) },
      { fix: expect.stringMatching(/^create policy "…" on shop\.units to public using \(…\);$/m) },
    ],
  ],
  [
    // What goes into the function of the fix is the table that the policy reads, not its own.
    "a policy reads its own table through the policy of another one",
    "policy-recursion",
    `${ORDERS}
      create policy q on customers for select using (exists (select from shop.orders as o where o.customer = id));
      create policy q on orders for select using (exists (select from shop.customers as c where c.id = customer));`,
    [
      {
        object: "policy q on shop.customers",
        reason: expect.stringMatching(/^it reads shop\.orders, whose/),
        fix: expect.stringContaining("select from shop.orders where"),
      },
      {
        object: "policy q on shop.orders",
        reason: expect.stringMatching(/^it reads shop\.customers, whose/),
        fix: expect.stringContaining("select from shop.customers where"),
      },
    ],
  ],
  [
    "a policy calls a function that reads its table with the rights of the caller",
    "policy-recursion",
    `${ORDERS}
      create function may_see() returns boolean language sql stable as 'select exists (select from shop.orders)';
      create policy q on orders for select using ((select shop.may_see()));`,
    [{ object: "policy q on shop.orders", fix: expect.stringContaining("security definer") }],
  ],
  [
    "a function in SQL names a missing column without its table, whatever its search path",
    "function-uses-missing-column",
    `create table orders (id int primary key, total int, note text);
      create function total() returns bigint language sql as 'select sum(total) from orders';
      create function strict_total() returns bigint language sql set search_path = '' as 'select sum(total) from shop.orders';
      create function noted() returns setof text language sql as 'select note from shop.orders';
      alter table orders rename column total to amount;`,
    ["strict_total", "total"].map((name) => ({
      object: `function shop.${name}()`,
      reason: 'column "total" does not exist: calls fail',
    })),
  ],
  [
    "a trigger function sets a missing column of its table",
    "function-uses-missing-column",
    `create table orders (id int primary key, touched timestamptz);
      create function touch() returns trigger language plpgsql as 'begin new.touched := now(); return new; end';
      create trigger t before update on orders for each row execute function touch();
      alter table orders rename column touched to changed;`,
    [{ object: "function shop.touch()" }],
  ],
];
test.each(MORE)("%s", async (_about, rule, sql, findings) => {
  await inShop(sql);
  expect(await findingsOf(rule)).toMatchObject(findings);
});

test("every behavior of a plugin is known", async () => {
  const preset = resolvePreset({ extends: [contractPreset], plugins: [...plugins] });
  const behaviors = preset.plugins!.flatMap(({ schema }) => Object.keys(schema?.behaviorRegistry?.add ?? {}));
  expect(behaviors).toContain("bulk");
  await inShop(`create table orders (id int primary key);
    comment on table orders is '@behavior ${behaviors.map((word) => `+${word}`).join(" ")}'`);
  expect(await findingsOf("unknown-smart-tag")).toEqual([]);
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

test("a finding is accepted by a smart tag, or by a line of a file, with its reason", async () => {
  await inShop(`create table rates (id int primary key); create table units (id int primary key);
    grant select on rates, units to anon;
    comment on table rates is e'@accept secret-column none\\n@accept table-without-row-security rates are public\\nExchange rates.';
    comment on table units is '@accept secret-column none'`);
  const file = "# reference data\n\ntable-without-row-security table shop.units # units are public\n";
  const acceptances = parseAcceptances(file);
  const { findings, accepted } = await advise(database.owner, {
    schemas: ["shop"],
    logins: [],
    roles: ROLES,
    acceptances,
  });
  const isMeant = ({ rule }: Finding) => rule === "table-without-row-security";
  expect(findings.filter(isMeant)).toEqual([]);
  expect(accepted.filter(isMeant).map(({ object, because }) => [object, because])).toEqual([
    ["table shop.rates", "rates are public"],
    ["table shop.units", "units are public"],
  ]);
});

test("many findings with the same reason are one, with the SQL of all", async () => {
  const names = ["a", "b", "c", "d", "e"];
  await inShop(
    names.map((name) => `create table ${name} (id int primary key); grant select on ${name} to anon;`).join(""),
  );
  const found = await findingsOf("table-without-row-security");
  const [all, ...others] = grouped(found);
  expect([all!.count, all!.object, others]).toEqual([
    5,
    "5 objects: table shop.a, table shop.b, table shop.c and 2 more",
    [],
  ]);
  expect(all!.fix!.match(/enable row level security/g)).toHaveLength(5);
  expect(grouped(found.slice(0, 3)).map(({ count }) => count)).toEqual([1, 1, 1]);
});

test("a malformed line of a file of accepted findings is an error that names the line", () => {
  expect(() => parseAcceptances("# comment\nnonsense")).toThrow("line 2 must be: rule object # reason");
});

/** Calls back with the name of a login whose roles and tables are dropped afterwards. */
async function withLogin(work: (login: string) => Promise<void>) {
  const login = `${database.name}_shop`;
  await run(`create role ${login} login noinherit`);
  try {
    await work(login);
  } finally {
    await run("drop schema if exists shop cascade");
    const { rows } = await run(`select rolname as name from pg_roles where rolname like '${login}%'`);
    await run(`drop role ${rows.map(({ name }) => name).join(", ")}`);
  }
}

test.each(OF_LOGINS)("%s: %s", (rule, sql, finding, fix) =>
  withLogin(async (login) => {
    const named = (text: string) => text.replaceAll("LOGIN", login);
    const found = () => findingsOf(rule, [login]);
    await inShop(named(sql));
    const [only, ...others] = await found();
    expect([`${only?.object}: ${only?.reason}`, only?.level, others]).toEqual([named(finding), "warning", []]);
    await run(named(fix ?? decided(only!.fix!)));
    expect(await found()).toEqual([]);
    await run(named(sql.replace(/create .*?; /, "")));
    await run(`comment on ${only!.object} is '@accept ${rule} for the support team'`);
    expect(await found()).toEqual([]);
  }),
);

test("a login leads to the roles that it may become, and those that no policy restricts are not callers", () =>
  withLogin(async (login) => {
    await run(
      `create role ${login}_clerk; create role ${login}_boss bypassrls; grant ${login}_clerk, ${login}_boss to ${login}`,
    );
    await inShop(`create table rates (id int primary key); grant all on rates to ${login}_clerk, ${login}_boss;`);
    const findings = await findingsOf("table-without-row-security", [login]);
    expect(findings.map(({ reason }) => reason)).toEqual([
      `it has no row-level security: ${login}_clerk may use all rows`,
    ]);
  }));

/** What works in an application, and the statement of a role that shows it. */
const WORKING: readonly (readonly [about: string, sql: string, role: string, statement: string])[] = [
  [
    "a trigger with the rights of its owner",
    `create table people (id int primary key); create table log (note text);
      create function on_sign_up() returns trigger language plpgsql security definer set search_path = shop as
        $$ begin insert into log values ('new'); return new; end $$;
      create trigger t after insert on people for each row execute function on_sign_up();
      grant execute on function on_sign_up() to anon; grant insert on people to anon;`,
    "anon",
    "insert into shop.people values (1)",
  ],
  [
    "a call with the rights of the owner, with names that have no schema",
    `${ORDERS} create function count_orders() returns bigint language sql security definer as 'select count(*) from orders';
      grant execute on function count_orders() to anon;`,
    "anon",
    "set local search_path = shop; select shop.count_orders()",
  ],
  [
    "a call of the role of the service key, which no grant names",
    "create function f() returns int language sql as 'select 1'; grant execute on function f to public; grant usage on schema shop to service_role;",
    "service_role",
    "select shop.f()",
  ],
  [
    "a view of a table that its readers may not read",
    "create table rates (id int primary key, note text); create view ids as select id from rates; grant select on ids to anon;",
    "anon",
    "select * from shop.ids",
  ],
  [
    "a view that shows part of a table whose policies hide it",
    "create table people (id int primary key, name text); alter table people enable row level security; create view names as select name from people; grant select on people, names to anon; insert into people values (1, 'Ada');",
    "anon",
    "select 1 / count(*) from shop.names",
  ],
  [
    "a materialized view, and a column with the name of a secret",
    "create table keys (id int primary key, secret text); create materialized view counts as select count(*) from keys; grant select on keys, counts to anon;",
    "anon",
    "select * from shop.keys; select * from shop.counts",
  ],
  [
    "rows of a table without policies",
    "create table rates (id int primary key); grant select on rates to anon; insert into rates values (1);",
    "anon",
    "select 1 / count(*) from shop.rates",
  ],
  [
    "an extension that is found in the served schema",
    `create extension citext schema shop; create table names (name citext primary key); insert into names values ('Ada');
      create function find(name text) returns bigint language plpgsql set search_path = shop as
        $$ begin return (select 1 / count(*) from names as n where n.name = find.name::citext); end $$;
      grant execute on all functions in schema shop to anon; grant select on names to anon;`,
    "anon",
    "select shop.find('ADA')",
  ],
];

test.each(WORKING)("no statement of the advice breaks what works: %s", async (_about, sql, role, statement) => {
  await inShop(sql);
  const works = async () => {
    await run(`begin; set local role ${role}`);
    await run(statement).finally(() => run("rollback"));
  };
  await works();
  const { findings } = await advise(database.owner, { schemas: ["shop"], logins: [], roles: ROLES });
  expect(findings).not.toEqual([]);
  // As psql runs them: a statement that a DBA has to complete fails.
  for (const { fix } of findings) for (const part of (fix ?? "").split(/;\n/)) await run(part).catch(() => {});
  await run("rollback");
  await works();
});

test("an index that a table has as its replica identity is not advised to go, and comments keep their smart tags", async () => {
  await inShop(`create table orders (id int primary key, code int not null, total int, constraint positive check (total > 0));
    create unique index a on orders (code); create unique index b on orders (code);
    alter table orders replica identity using index b; grant select on orders to anon;
    comment on constraint positive on orders is '@name positiveTotal'`);
  expect(await findingsOf("duplicate-index")).toEqual([]);
  expect(await findingsOf("check-without-message")).toMatchObject([
    { fix: "comment on constraint positive on shop.orders is e'@name positiveTotal\\n…';" },
  ]);
});

/** A table of users whose id only the function of the application knows. */
const TASKS = `create table tasks (id int primary key, reporter uuid, organisation uuid);
  insert into tasks select n, gen_random_uuid(), gen_random_uuid() from generate_series(1, 3) as n;
  alter table tasks enable row level security; grant select, insert on tasks to anon, authenticated;
  create function me() returns uuid language sql stable as
    $$ select nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '')::uuid $$;
  create function mine() returns setof uuid language sql stable as 'select gen_random_uuid() where false';
  grant execute on function me, mine to anon, authenticated;`;
const NO_SUB = "nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '') is null";

test.each([
  // An organisation that no one has chosen.
  "organisation = nullif(current_setting('app.organisation', true), '')::uuid or nullif(current_setting('app.organisation', true), '') is null",
  `organisation in (select shop.mine()) or ${NO_SUB}`,
  "shop.me() is null or reporter = shop.me()",
  "coalesce(reporter = shop.me(), true)",
])("a policy that holds without a user is found, and anonymous callers read every row: %s", async (condition) => {
  await inShop(`${TASKS} create policy accident on tasks for select to anon using (${condition})`);
  const found = await findingsOf("policy-without-sign-in");
  expect(found).toMatchObject([{ level: "warning", object: "policy accident on shop.tasks" }]);
  await run(`begin; set local role anon; set local request.jwt.claims = '{}'`);
  const { rowCount } = await run("select from shop.tasks").finally(() => run("rollback"));
  expect(rowCount).toBe(3);
});

/** Conditions of policies for everyone, and whether they show all rows to callers without a user. */
const CONDITIONS: readonly (readonly [condition: string, isOpen: boolean])[] = [
  ["owner = auth.uid() or auth.uid() is null", true],
  ["(select auth.uid()) is null or owner = (select auth.uid())", true],
  [`owner::text = current_setting('request.jwt.claims', true)::jsonb ->> 'sub' or ${NO_SUB}`, true],
  ["(owner = auth.uid()) is not false", true],
  ["not ((owner = auth.uid()) is true)", true],
  ["id > 0 or coalesce(current_setting('app.organisation', true), '') = ''", true],
  ["shop.jwt() ->> 'org' is null or shop.jwt() ->> 'org' = organisation::text", true],
  ["auth.uid() is not distinct from null or owner = auth.uid()", true],
  ["exists (select from shop.members as m where m.id = auth.uid()) or auth.uid() is null", true],
  ["case when auth.uid() is null then true else owner = auth.uid() end", true],
  ["(shop.jwt() -> 'app' ->> 'role') is null or owner = auth.uid()", true],

  ["owner = auth.uid()", false],
  ["auth.uid() is not null and owner = auth.uid()", false],
  ["not (owner = auth.uid())", false],
  ["exists (select from shop.members as m where m.id = auth.uid())", false],
  // What depends on the row is open: rows without an owner may be meant for everyone.
  ["owner = auth.uid() or is_public", false],
  ["owner = auth.uid() or not is_public", false],
  ["code is null or owner = auth.uid()", false],
  ["owner is null or owner = auth.uid()", false],
  ["not (owner is distinct from auth.uid())", false],
  ["coalesce(auth.uid(), owner) = owner", false],
  ["owner = any (array[auth.uid()])", false],
  // It may be meant for callers without a user.
  ["auth.uid() is null", false],
  ["auth.uid() is null and true", false],
  // A caller without a user has a role.
  ["shop.role() = 'anon' or owner = auth.uid()", false],
  ["shop.jwt() ->> 'role' is null or owner = auth.uid()", false],
  // Settings of the service, and a request, are not of a user.
  ["id = 0 or current_setting('app.settings.open', true) is null", false],
  ["id = 0 or current_setting('request.method', true) is null", false],
  // Postgres cannot say it: the caller may not read it, it fails, or it does not end.
  ["exists (select from shop.closed) or auth.uid() is null or owner = auth.uid()", false],
  ["1 / (id - id) = 1 or auth.uid() is null or owner = auth.uid()", false],
  ["shop.endless() is null or owner = auth.uid()", false],
  ["(select count(*) from generate_series(1, 1000000000)) > 0 or owner = auth.uid()", false],
];

test("policies are found whose condition holds for every row if there is no user, and the database stays as it was", async () => {
  await inShop(`${TASKS} alter table tasks add owner bigint; alter table tasks add is_public boolean; alter table tasks add noted timestamptz; alter table tasks add mood int4range;
    create domain code as text check (value ~ '^[A-Z]{3}$'); alter table tasks add code code;
    create table "Odd ""name""" (like tasks); alter table "Odd ""name""" enable row level security;
    create policy "Every one" on "Odd ""name""" for select using (owner = auth.uid() or auth.uid() is null);
    create table members (id bigint primary key); grant select on members to anon; create table closed ();
    create function jwt() returns jsonb language sql stable as $$ select nullif(current_setting('request.jwt.claims', true), '')::jsonb $$;
    create function role() returns text language sql stable begin atomic select shop.jwt() ->> 'role'; end; grant execute on function jwt, role to public;
    create function endless() returns int language plpgsql as 'begin return shop.endless(); end';
    ${CONDITIONS.map(([condition], i) => `create policy p${i} on tasks for select using (${condition});`).join("\n")}`);
  const found = (await findingsOf("policy-without-sign-in")).map(({ object }) => object);
  const own = CONDITIONS.flatMap(([, isOpen], i) => (isOpen ? [`policy p${i} on shop.tasks`] : []));
  const expected = [...own, 'policy "Every one" on shop."Odd ""name"""'];
  expect(found.toSorted()).toEqual(expected.toSorted());
  const { rows } = await run(
    "select current_user = session_user as same, current_setting('statement_timeout') as timeout",
  );
  expect(rows).toEqual([{ same: true, timeout: "0" }]);
});

test("a policy that is true for everyone beside one for users is found, and a restrictive one that hides rows prevents it", async () => {
  const names = async () => (await findingsOf("policy-without-sign-in")).map(({ object }) => object);
  // A condition for callers without a user is meant so, and a policy of all commands beside it is for those who write.
  await inShop(`${TASKS} create policy visitors on tasks for insert to anon with check (${NO_SUB});
    create policy all_commands on tasks to authenticated using (organisation in (select shop.mine()));
    create policy forgotten on tasks for select using (true)`);
  expect(await names()).toEqual([]);
  await run("create policy own on shop.tasks for select to authenticated using (reporter = (select shop.me()))");
  expect(await findingsOf("policy-without-sign-in")).toMatchObject([
    {
      object: "policy forgotten on shop.tasks",
      reason: "it shows every row to every role, so the policies for users have no effect: own",
    },
  ]);
  const user = "(select shop.me()) is not null";
  await run(`create policy signed_in on shop.tasks as restrictive for select to public using (${user})`);
  expect(await names()).toEqual([]);
  await run("alter policy signed_in on shop.tasks using (id <> 0)");
  expect(await names()).toEqual(["policy forgotten on shop.tasks"]);
});

/** Conditions with the role of the caller, and the columns that they compare with it. */
const ROLE_CONDITIONS: readonly (readonly [condition: string, columns: string | null])[] = [
  ["note = session_user", "note with session_user"],
  ["lower(note) = lower(user)", "note with user"],
  ["lower(word) = lower(user)", "word with user"],
  ["current_role = any (names)", "names with current_role"],
  ["current_user in (note, word)", "note with current_user and word with current_user"],
  ["note is not distinct from current_user", "note with current_user"],
  ["names @> array[current_user::text]", "names with current_user"],
  ["word = (select current_user::text as me)", "word with current_user"],
  ["exists (select from shop.orders as o where o.name = current_user)", "o.name with current_user"],
  ["current_user in (select o.name from shop.orders as o)", "o.name with current_user"],
  ["current_user = 'admin'", null],
  ["'admin' = (select current_user) and note = 'x'", null],
  ["current_user in ('admin', 'it is staff') or note = 'x'", null],
  ["note = 'note = CURRENT_USER'", null],
  ["current_user = current_setting('app.admins', true)", null],
  ["pg_has_role(current_user, 'admin', 'member') and note = 'x'", null],
  ["exists (select from pg_roles where rolname = current_user and rolinherit)", null],
];
test.each(ROLE_CONDITIONS)("the condition %s compares %s", async (condition, columns) => {
  await inShop(`create table orders (name text primary key); create table notes (note text, word varchar(20), names text[]);
    alter table notes enable row level security; create policy own on notes using (${condition});`);
  const found = await findingsOf("policy-with-current-user");
  expect(found.map(({ reason }) => /^it compares (.*), which is/.exec(reason)![1])).toEqual(
    columns === null ? [] : [columns],
  );
});

test("a setting that a subquery converts is read once per statement, unless the subquery reads a table", async () => {
  const claim = "nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '')::uuid";
  const found = async (condition: string) => {
    await run(`alter policy p on shop.tasks using (${condition})`);
    return (await findingsOf("policy-per-row")).map(({ object }) => object);
  };
  await inShop(`${TASKS} create table members (reporter uuid primary key);
    create policy p on tasks for select to authenticated using (false)`);
  expect(await found(`reporter = (select ${claim})`)).toEqual([]);
  const policy = "policy p on shop.tasks";
  expect(await found(`reporter = ${claim}`)).toEqual([policy]);
  const members = `select from shop.members as m where m.reporter = ${claim} and m.reporter = tasks.reporter`;
  expect(await found(`exists (${members})`)).toEqual([policy]);
});
