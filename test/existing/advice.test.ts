import pino from "pino";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { adviseCommand } from "../../cli/advise.ts";
import { outcomeOf } from "../../cli/command.ts";
import type { Finding } from "../../db/advisor/finding.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { healthOf } from "../support/service.ts";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit({ GRAPHQL_MAX_TABLES: "0", ADVISOR: "on" });
});
afterAll(() => trackit.stop());

const sql = (text: string) => trackit.database.owner.query(text);

/** What the rules find, with the login of the service. */
async function findingsOf(...rules: readonly string[]): Promise<readonly Finding[]> {
  const settings = {
    DATABASE_URL: trackit.loginUrl,
    MIGRATE: "off",
    DB_ANON_ROLE: trackit.role("anon"),
    API_KEY_REQUIRED: "off",
    GRAPHQL_MAX_TABLES: "0",
  };
  const { stdout, stderr } = await outcomeOf(adviseCommand(["--json"], settings));
  expect(stderr).not.toContain("cannot");
  return JSON.parse(stdout).findings.filter(({ rule }: Finding) => rules.includes(rule));
}

test("a role that the login may become and that bypasses row-level security is a warning, which a comment accepts", async () => {
  const [support, login] = [trackit.role("support"), trackit.role("api")];
  expect(await findingsOf("login-bypasses-row-security")).toEqual([
    {
      rule: "login-bypasses-row-security",
      level: "warning",
      object: `role ${support}`,
      reason: `policies do not restrict it, and a token can name it, because the login ${login} may become it`,
      fix: `revoke ${support} from ${login};`,
    },
  ]);
  await sql(`comment on role ${support} is '@accept login-bypasses-row-security for the support team'`);
  expect(await findingsOf("login-bypasses-row-security")).toEqual([]);
});

test.each([
  ["login-may-replicate", "replication", "noreplication"],
  ["login-is-superuser", "superuser", "nosuperuser"],
  ["login-bypasses-row-security", "bypassrls", "nobypassrls"],
])("%s is found, and no longer after its fix", async (rule, attribute, opposite) => {
  const login = trackit.role("api");
  await sql(`alter role ${login} ${attribute}`);
  const found = await findingsOf(rule);
  expect(found).toMatchObject([{ object: `role ${login}`, level: "warning" }]);
  await sql(rule === "login-is-superuser" ? `alter role ${login} ${opposite}` : found[0]!.fix!);
  expect(await findingsOf(rule)).toEqual([]);
});

test.each([
  [
    "may replicate",
    "replication",
    "login-may-replicate: role LOGIN: it serves requests, and with the attribute replication it could copy the whole server: name another login in CHANGES_URL",
  ],
  [
    "is a superuser",
    "superuser",
    "login-is-superuser: role LOGIN: it serves requests, and is a superuser: a token may name any role, and no policy restricts it",
  ],
])("the log of the service warns of a login that %s", async (_about, attribute, warning) => {
  const found: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void found.push(...(JSON.parse(line).new ?? [])) });
  const other = await startTrackit(
    { GRAPHQL_MAX_TABLES: "0", ADVISOR: "on" },
    log,
    `alter role trackit_api ${attribute}`,
  );
  onTestFinished(() => other.stop());
  await expect.poll(() => found).toContain(`warning ${warning.replace("LOGIN", other.role("api"))}`);
});

test("a login that owns a served table is a warning", async () => {
  const login = trackit.role("api");
  await sql(`create table owned (id int primary key); alter table owned owner to ${login}`);
  const found = await findingsOf("login-owns-tables");
  expect(found).toMatchObject([{ object: `role ${login}`, fix: "alter table public.owned owner to …;" }]);
  await sql(found[0]!.fix!.replace("…", "postgres"));
  expect(await findingsOf("login-owns-tables")).toEqual([]);
  await sql("drop table owned");
});

test("a setting that a subquery converts is read once per statement, and no finding; without the subquery it is one", async () => {
  const claim = "nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '')::uuid";
  await sql(
    `create policy wrapped on task_watchers for select to ${trackit.role("user")} using (user_id = (select ${claim}))`,
  );
  expect(await findingsOf("policy-per-row")).toEqual([]);
  await sql(`alter policy wrapped on task_watchers using (user_id = ${claim})`);
  expect(await findingsOf("policy-per-row")).toMatchObject([{ object: "policy wrapped on public.task_watchers" }]);
  // A subquery that reads a table runs for each row.
  await sql(`alter policy wrapped on task_watchers using (
    exists (select from members as m where m.user_id = ${claim} and m.user_id = task_watchers.user_id))`);
  expect(await findingsOf("policy-per-row")).toHaveLength(1);
  await sql("drop policy wrapped on task_watchers");
});

/** What is found about changes. */
const lost = () =>
  findingsOf("changes-not-published", "changes-not-checked", "deletes-not-delivered", "table-not-writable");

const only = async (object: string) => (await lost()).filter((finding) => finding.object === object);

const fixAll = async (findings: readonly Finding[]) => {
  for (const { fix } of findings) await sql(fix!);
};

test("the fixes of what is found about changes leave no finding, and no write fails", async () => {
  const [missing, ...others] = await lost();
  expect(others).toEqual([]);
  expect(missing).toMatchObject({
    rule: "changes-not-published",
    level: "note",
    object: "publication content_changes",
    reason: expect.stringMatching(
      /^it does not exist: subscribers receive no changes; updates and deletes of public.import_staging fail/,
    ),
    fix: expect.stringMatching(/^create publication content_changes for table public\./),
  });
  await fixAll([missing!]);

  const found = await lost();
  expect(found.map(({ level, rule, object }) => `${level} ${rule} ${object}`)).toEqual([
    ...["attachments", "audit_log", "comments", "invoices", "projects", "tasks"].map(
      (table) => `warning deletes-not-delivered table public.${table}`,
    ),
    "note changes-not-published table public.import_staging",
  ]);
  expect(found.find(({ object }) => object === "table public.tasks")).toMatchObject({
    reason:
      "subscribers receive no DELETE of it: old rows are logged without organisation_id, without which policies or filters cannot be checked",
    fix: "alter table public.tasks replica identity full;",
  });
  expect(found.at(-1)!.fix).toBe(
    "alter table public.import_staging replica identity full;\nalter publication content_changes add table public.import_staging;",
  );
  await fixAll(found);
  expect(await lost()).toEqual([]);
  const { rows } = await sql(
    "select oid::regclass::text as name from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace",
  );
  for (const { name } of rows) await sql(`delete from ${name} where false`);
});

test("a published table that cannot be written is an error, until its fix", async () => {
  await sql("alter table tasks replica identity nothing");
  await expect(sql("delete from tasks where false")).rejects.toThrow("does not have a replica identity");
  const [error] = await only("table public.tasks");
  expect(error).toMatchObject({
    level: "error",
    rule: "table-not-writable",
    reason: "the replica identity of public.tasks is nothing, so its updates and deletes fail while it is published",
  });
  await sql(error!.fix!);
  await sql("delete from tasks where false");
  await fixAll(await lost());
  expect(await lost()).toEqual([]);
});

test("columns, operations and tables that the publication leaves out are found", async () => {
  await sql(`alter table comments replica identity default;
    alter publication content_changes drop table comments;
    alter publication content_changes add table comments (id, body)`);
  const [unchecked] = await only("table public.comments");
  expect(unchecked).toMatchObject({
    level: "warning",
    rule: "changes-not-checked",
    reason:
      "subscribers receive no changes of it: the publication content_changes leaves out organisation_id, without which policies or filters cannot be checked",
  });
  await sql(unchecked!.fix!);
  expect(await only("table public.comments")).toMatchObject([{ rule: "deletes-not-delivered" }]);

  await sql("alter publication content_changes set (publish = 'insert, update')");
  expect(await lost()).toMatchObject([
    {
      object: "publication content_changes",
      reason: "it leaves out DELETE, so subscribers do not receive them",
      level: "note",
    },
  ]);
  await fixAll(await lost());

  await sql("alter publication content_changes drop table plans");
  const object = "table public.plans";
  expect(await only(object)).toMatchObject([
    { level: "note", fix: "alter publication content_changes add table public.plans;" },
  ]);
  await sql("comment on table plans is '@accept changes-not-published prices change once a year'");
  expect(await only(object)).toEqual([]);
});

test("the running service finds them too, and notices a fix without a restart", async () => {
  await sql(`alter role ${trackit.role("api")} replication; alter table comments replica identity default`);
  const found = async (): Promise<readonly string[]> => {
    const { details } = await healthOf(trackit.service);
    return (details.advisor?.findings ?? ["none yet"]).filter((line: string) => /none yet|changes|deletes/.test(line));
  };
  // A client that subscribes makes the service look at the publication.
  const subscribe = async () => {
    const stream = new EventStreamClient(`${trackit.url}/rest/v1/comments?select=id`, {
      headers: { authorization: `Bearer ${trackit.token(1)}` },
    });
    await expect.poll(() => stream.status).not.toBe(0);
    stream.close();
    return found();
  };
  await expect
    .poll(subscribe)
    .toEqual([
      "warning deletes-not-delivered: table public.comments: subscribers receive no DELETE of it: old rows are logged without organisation_id, without which policies or filters cannot be checked",
    ]);
  await sql("alter table comments replica identity full");
  await expect.poll(subscribe).toEqual([]);
});

test("no policy of the application holds without a user, and one for callers without a user is meant so", async () => {
  await sql(`create policy visitors on import_staging for insert to ${trackit.role("anon")}
    with check (nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '') is null);
    grant insert on import_staging to ${trackit.role("anon")}; alter table import_staging enable row level security`);
  onTestFinished(async () => {
    await sql(`drop policy visitors on import_staging; revoke insert on import_staging from ${trackit.role("anon")};
      alter table import_staging disable row level security`);
  });
  expect(await findingsOf("policy-without-sign-in")).toEqual([]);
});

test.each([
  [
    "an organisation that no one has chosen",
    "organisation_id = nullif(current_setting('app.organisation', true), '')::uuid or nullif(current_setting('app.organisation', true), '') is null",
  ],
  [
    "a claim that is missing",
    "organisation_id in (select app_private.my_organisations()) or nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '') is null",
  ],
  [
    "a function of the application that returns null",
    "app_private.current_user_id() is null or reporter_id = app_private.current_user_id()",
  ],
  ["a comparison that is null", "coalesce(reporter_id = app_private.current_user_id(), true)"],
])("a policy that holds without a user is found: %s", async (_about, condition) => {
  await sql(`create policy accident on tasks for select to ${trackit.role("anon")} using (${condition});
    grant usage on schema app_private to ${trackit.role("anon")};
    grant select (id) on tasks to ${trackit.role("anon")};
    grant execute on function app_private.current_user_id, app_private.my_organisations to ${trackit.role("anon")}`);
  onTestFinished(async () => {
    await sql(`drop policy accident on tasks; revoke select (id) on tasks from ${trackit.role("anon")}`);
  });
  expect(await findingsOf("policy-without-sign-in")).toMatchObject([
    { level: "warning", object: "policy accident on public.tasks" },
  ]);
  // It is no false finding: an anonymous caller reads every task.
  await sql("notify pgrst, 'reload schema'");
  const count = async () => (await trackit.rest("tasks?select=id", { headers: { prefer: "count=exact" } })).json.length;
  const { rows } = await sql("select count(*)::int as n from tasks");
  await expect.poll(count).toBe(rows[0].n);
});

test("a policy that is true for everyone beside one for users is found, and a restrictive one that hides rows prevents it", async () => {
  await sql("create policy forgotten on tasks for select using (true)");
  onTestFinished(async () => void (await sql("drop policy forgotten on tasks; drop policy own on tasks")));
  // The other policy is for all commands: users write theirs, and everyone may read.
  expect(await findingsOf("policy-without-sign-in")).toEqual([]);
  const user = "(select app_private.current_user_id())";
  await sql(`create policy own on tasks for select to ${trackit.role("user")} using (reporter_id = ${user})`);
  expect(await findingsOf("policy-without-sign-in")).toMatchObject([
    {
      object: "policy forgotten on public.tasks",
      reason: "it shows every row to every role, so the policies for users have no effect: own",
    },
  ]);
  await sql(`create policy signed_in on tasks as restrictive for select to public using (${user} is not null)`);
  expect(await findingsOf("policy-without-sign-in")).toEqual([]);
  await sql("alter policy signed_in on tasks using (title <> '')");
  expect(await findingsOf("policy-without-sign-in")).toHaveLength(1);
  await sql("drop policy signed_in on tasks");
});
