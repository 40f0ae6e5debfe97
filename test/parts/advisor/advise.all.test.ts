import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterEach, beforeAll, expect, onTestFinished, test } from "vitest";
import { loadApplication } from "../../../app/load.ts";
import { outcomeOf } from "../../../cli/command.ts";
import { adviseCommand } from "../../../parts/advisor/advise.ts";
import { createTestDatabase } from "../../support/database.ts";
import { JWT_SECRET, startTestService, type TestService } from "../../support/service.ts";

const LEAK = "create table rates (id int primary key); grant select on rates to anon;";
const REPORT = "the advisor has findings: npx content-service advise shows the SQL that fixes them";

let service: TestService;
let folder: string;
const logged: Record<string, any>[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content-service-advise-"));
  const database = await createTestDatabase();
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  const settings = { ADVISOR: join(folder, "accepted") };
  await writeFile(settings.ADVISOR, "# none\n");
  service = await startTestService(settings, database, log, undefined, { buildsGraphQL: true });
  return async () => {
    await service.stop();
    await rm(folder, { recursive: true });
  };
});

const dba = (sql: string) => service.database.owner.query(sql);
afterEach(() => dba("drop table if exists rates, orders, customers cascade; drop function if exists note_of, odd_sum"));

const npmAdvise = (args: string[], settings = {}) =>
  outcomeOf(adviseCommand(args, { DATABASE_URL: service.database.url, JWT_SECRET, ...settings }));
const health = () => service.health();
const reports = () => logged.filter(({ msg }) => msg === REPORT);

test("npx content-service advise prints level, object, reason and fix of each finding, and exits with 1 if there is an error", async () => {
  expect(await npmAdvise([], { JWT_SECRET: "" })).toEqual({
    exitCode: 0,
    stdout: "0 errors, 0 warnings, 0 notes, 4 accepted\n",
    stderr: "",
  });
  await dba(LEAK);
  expect(await npmAdvise([])).toEqual({
    exitCode: 1,
    stdout: `error: table public.rates
  it has no row-level security: anon may use all rows (table-without-row-security)
    begin;
    create policy "…" on public.rates to anon using (…);
    alter table public.rates enable row level security;
    commit;

1 error, 0 warnings, 0 notes, 4 accepted
`,
    stderr: "the database has errors\n",
  });
});

test("--level leaves out less severe findings, --accepted shows accepted ones, --json prints values", async () => {
  await dba(
    "create table orders (id int, total int check (total > 0)); alter table orders enable row level security; create policy p on orders for select using (true); grant select on orders to anon",
  );
  expect((await npmAdvise([])).stdout).toContain("0 errors, 0 warnings, 2 notes");
  expect((await npmAdvise(["--level", "warning"])).stdout).toBe(
    "0 errors, 0 warnings, 2 notes, 4 accepted; --level hides 2\n",
  );
  expect((await npmAdvise(["--accepted"])).stdout).toContain(
    "accepted warning: function auth.act_as(text)\n  only superusers and the owner may call it (function-sets-role)",
  );
  const { findings, accepted } = JSON.parse((await npmAdvise(["--json"])).stdout);
  expect(findings.map(({ rule, level }: any) => [rule, level])).toEqual([
    ["check-without-message", "note"],
    ["table-without-primary-key", "note"],
  ]);
  expect(accepted).toHaveLength(4);
});

test("the file that ADVISOR names accepts findings", async () => {
  await dba(LEAK);
  const file = join(folder, "mine");
  await writeFile(file, "table-without-row-security table public.rates # rates are public");
  const outcome = await npmAdvise([], { ADVISOR: file });
  expect(outcome).toEqual({ exitCode: 0, stdout: "0 errors, 0 warnings, 0 notes, 5 accepted\n", stderr: "" });
  const missing = { exitCode: 2, stdout: "", stderr: expect.stringMatching(/^ADVISOR: .*ENOENT.*\n$/) };
  expect(await npmAdvise([], { ADVISOR: "/no/such/file" })).toEqual(missing);
});

test("--rules lists every rule with its level", async () => {
  expect((await npmAdvise(["--rules"])).stdout).toMatch(
    /^error {4}table-without-row-security +Without row-level security, a grant gives access to all rows of the table\.$/m,
  );
});

test("after a change of the schema the log has one line with what is new, and /health counts the findings", async () => {
  await expect
    .poll(async () => (await health()).details.advisor)
    .toEqual({ errors: 0, warnings: 0, notes: 0, findings: [] });
  const before = reports().length;
  await dba(LEAK);
  await expect.poll(async () => (await health()).details.advisor).toMatchObject({ errors: 1, warnings: 0, notes: 0 });
  expect(reports().slice(before)).toEqual([
    expect.objectContaining({
      level: 50,
      errors: 1,
      new: [
        "error table-without-row-security: table public.rates: it has no row-level security: anon may use all rows",
      ],
    }),
  ]);
  await dba(
    [1, 2, 3, 4, 5, 6].map((n) => `create table r${n} (id int references rates, i int references rates);`).join(""),
  );
  await expect.poll(() => reports().slice(before + 1)).toEqual([expect.objectContaining({ errors: 1, warnings: 12 })]);
  expect(reports().at(-1)).not.toHaveProperty("new");
  await dba("drop table r1, r2, r3, r4, r5, r6");
  const until = logged.length;
  await dba("drop table rates");
  const messages = () => logged.slice(until).map(({ msg }) => msg);
  await expect.poll(messages).toContain("the advisor no longer finds errors or warnings in the database");
});

test("/health, the log and npx content-service advise list what GraphQL leaves out, with the fix", async () => {
  await dba(`create table customers (id int primary key); create table orders (id int primary key, customer int references customers, at pg_lsn);
    alter table customers enable row level security; create policy p on customers for select using (true);
    alter table orders enable row level security; create policy p on orders for select using (true);
    create function odd_sum(a anyelement) returns anyelement language sql stable set search_path = '' as 'select a';
    grant select on customers, orders to anon; grant execute on function odd_sum to anon`);
  const list =
    "constraint orders_customer_fkey on public.orders: public.orders has no index that begins with customer: GraphQL leaves out its list in public.customers";
  const omissions = async () => ((await health()).details.graphql.omissions ?? []).join("\n");
  await expect.poll(omissions).toContain("function public.odd_sum(anyelement)");
  await expect.poll(omissions).toContain(list);
  expect(await omissions()).not.toContain("column public.orders.at");
  expect(await omissions()).toContain("to fix it: create index on public.orders (customer);");
  await expect.poll(() => logged.map(({ omission }) => omission)).toContainEqual(expect.stringContaining("odd_sum"));
  const { stdout } = await npmAdvise([]);
  for (const object of ["constraint orders_customer_fkey", "function public.odd_sum(anyelement)"])
    expect(stdout).toContain(`warning: ${object}`);
});

test("/health is degraded while an old GraphQL schema is served", async () => {
  expect((await health()).status).toBe("ok");
  await dba("create table shop (id int primary key); create table bakeries (id int primary key, name text)");
  await dba("grant select on shop, bakeries to anon");
  await expect.poll(async () => (await service.gql("{ bakeries { totalCount } }")).errors).toBeUndefined();
  // The older table takes the names of the one that is served.
  await dba("alter table shop rename to bakery");
  await expect.poll(async () => (await health()).status).toBe("degraded");
  expect((await fetch(`${service.url}/health`)).status).toBe(200);
  await dba("drop table bakery, bakeries");
  await expect.poll(async () => (await health()).status).toBe("ok");
});

test("after a column is dropped or renamed, the log names it and the functions whose text still uses it", async () => {
  await dba(`create table orders (id int primary key, note text); alter table orders enable row level security;
    create policy p on orders for select using (true); grant select on orders to anon;
    create function note_of(order_id int) returns text language plpgsql stable set search_path = '' as
      'begin return (select note from public.orders where id = order_id); end';
    create function odd_sum(order_id int) returns text language plpgsql stable set search_path = '' as
      'begin return (select o.note from public.orders as o where o.id = order_id); end'`);
  const headers = { apikey: service.service.tokens.issueKey("anon") };
  await expect.poll(async () => (await fetch(`${service.url}/rest/v1/orders`, { headers })).status).toBe(200);
  await dba("alter table orders rename column note to remark");
  const line =
    "error function-uses-missing-column: function public.note_of(integer): it names the column note of public.orders, which was dropped or renamed";
  await expect.poll(() => reports().at(-1)?.new).toContain(line);
  await expect.poll(async () => (await health()).details.advisor.errors).toBe(2);
});

/** The first example in SQL of this section of docs/advisor.md. */
const exampleOf = (section: string) => {
  const text = readFileSync(new URL("../../../docs/advisor.md", import.meta.url), "utf8").split(`## ${section}`)[1]!;
  return /```sql\n(.*?)```/s.exec(text)![1]!;
};

test("a part of an application brings rules, for the command and the service that runs; one that is wrong is named", async () => {
  const own = join(folder, "own");
  await mkdir(join(own, "house"), { recursive: true });
  const rules = 'rules: new URL("house", import.meta.url)';
  await writeFile(
    join(own, "content-service.config.ts"),
    `export default { parts: [{ name: "house", about: "the rules of the house", ${rules} }] };`,
  );
  await writeFile(join(own, "house/tables.sql"), exampleOf("Rules of your own"));
  const settings = { APPLICATION: own, ADVISOR: "" };
  const finding = "warning table-without-comment: table public.rates: it has no comment";
  await dba("create table rates (id int primary key)");
  expect((await npmAdvise(["--rules"], settings)).stdout).toMatch(
    /^warning {2}table-without-comment +Each table says/m,
  );
  expect((await npmAdvise([], settings)).stdout).toContain(`warning: table public.rates
  it has no comment (table-without-comment)
    comment on table public.rates is '…';
`);
  expect((await npmAdvise([], { ...settings, PARTS: "-house" })).stdout).not.toContain("table-without-comment");
  const definition = await loadApplication(own);
  const ofOwn = await startTestService({ ADVISOR: "" }, service.database, undefined, undefined, { definition });
  onTestFinished(() => ofOwn.service.stop());
  await expect.poll(async () => (await ofOwn.health()).details.advisor?.findings).toContain(finding);

  await writeFile(join(own, "house/tables.sql"), "-- warning table-without-comment: why\nselect nothing");
  expect((await npmAdvise([], settings)).stderr).toMatch(
    /^the rule table-without-comment: column "nothing" does not exist$/m,
  );
  await writeFile(join(own, "house/tables.sql"), "select 1");
  expect((await npmAdvise([], settings)).stderr).toContain(
    "house/tables.sql must begin with a line such as -- warning",
  );
});
