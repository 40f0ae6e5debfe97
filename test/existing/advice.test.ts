import { afterAll, beforeAll, expect, test } from "vitest";
import { adviseCommand } from "../../cli/advise.ts";
import { outcomeOf } from "../../cli/command.ts";
import type { Finding } from "../../db/advisor/finding.ts";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit({ GRAPHQL_MAX_TABLES: "0" });
});
afterAll(() => trackit.stop());

const sql = (text: string) => trackit.database.owner.query(text);

/** What the rule finds, with the login of the service. */
async function findingsOf(rule: string): Promise<readonly Finding[]> {
  const settings = {
    DATABASE_URL: trackit.loginUrl,
    MIGRATE: "off",
    DB_ANON_ROLE: trackit.role("anon"),
    API_KEY_REQUIRED: "off",
    GRAPHQL_MAX_TABLES: "0",
  };
  const { stdout, stderr } = await outcomeOf(adviseCommand(["--json"], settings));
  expect(stderr).not.toContain("cannot");
  return JSON.parse(stdout).findings.filter((each: Finding) => each.rule === rule);
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
