import { afterAll, beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import type { Finding } from "../../db/findings/finding.ts";
import { adviseCommand } from "../../parts/advisor/advise.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { healthOf } from "../support/service.ts";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit({ GRAPHQL_DOCUMENTS: "none", ADVISOR: "on" });
});
afterAll(() => trackit.stop());

const sql = (text: string) => trackit.database.owner.query(text);

const ABOUT_CHANGES = ["changes-not-published", "changes-not-checked", "deletes-not-delivered", "table-not-writable"];

/** What is found about changes, with the login of the service. */
async function lost(rules = ABOUT_CHANGES): Promise<readonly Finding[]> {
  const DB_ANON_ROLE = trackit.role("anon");
  const settings = { DATABASE_URL: trackit.loginUrl, MIGRATE: "off", DB_ANON_ROLE, API_KEY_REQUIRED: "off" };
  const { stdout } = await outcomeOf(adviseCommand(["--json"], { ...settings, GRAPHQL_DOCUMENTS: "none" }));
  return JSON.parse(stdout).findings.filter(({ rule }: Finding) => rules.includes(rule));
}

const only = async (object: string) => (await lost()).filter((finding) => finding.object === object);

const fixAll = async (findings: readonly Finding[]) => {
  for (const { fix } of findings) await sql(fix!);
};

test("no policy of the application holds without a user", async () => {
  expect(await lost(["policy-without-sign-in"])).toEqual([]);
});

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
