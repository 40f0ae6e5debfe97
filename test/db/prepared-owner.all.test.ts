import { existsSync, readFileSync } from "node:fs";
import pg from "pg";
import { expect, onTestFinished, test, vi } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { type ScratchCluster, startScratchCluster } from "../../cli/scratch-cluster.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import type { TestDatabase } from "../support/database.ts";
import { connect } from "../support/graphql-client.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const DEBIAN_15 = "/usr/lib/postgresql/15/bin";
const CONFIGURATION = readFileSync("docs/configuration.md", "utf8");
const [, PREPARATION] = /```sql\n(create role content_owner [\s\S]*?)```/.exec(CONFIGURATION)!;
const [, DECODING] = /```sql\n(alter system set wal_level [\s\S]*?)```/.exec(CONFIGURATION)!;

/** Runs statements of the documentation as a superuser. */
async function asRoot(cluster: ScratchCluster, statements: string): Promise<void> {
  const root = new pg.Client({ connectionString: cluster.url("postgres") });
  await root.connect();
  for (const statement of statements.trim().split("\n")) await root.query(statement);
  await root.end();
}

/** Runs the statements of docs/configuration.md as a superuser, and connects as the new owner. */
async function prepareDatabase(cluster: ScratchCluster): Promise<TestDatabase> {
  await asRoot(cluster, PREPARATION!);
  const url = new URL(cluster.url("content"));
  url.username = "content_owner";
  url.password = encodeURIComponent("change me");
  const owner = new pg.Client({ connectionString: url.href });
  await owner.connect();
  return { name: "content", url: url.href, owner, drop: async () => {} };
}

/** Signs in as ada, whose password is that of the demo data. */
async function signIn({ url }: TestService): Promise<{ readonly authorization: string }> {
  const response = await fetch(`${url}/auth/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ username: "ada", password: "Correct-Horse-7!" }),
  });
  expect(response.status).toBe(200);
  return { authorization: `Bearer ${((await response.json()) as { accessToken: string }).accessToken}` };
}

test.each([
  ["PostgreSQL 18", undefined],
  ["PostgreSQL 15", DEBIAN_15],
])(
  "on %s, an owner prepared as in docs/configuration.md need not be a superuser",
  {
    timeout: 90_000,
  },
  async (_version, binaries) => {
    if (binaries !== undefined && !existsSync(binaries)) return console.warn(`skipped: ${binaries} is missing`);
    const cluster = await startScratchCluster(binaries);
    onTestFinished(() => cluster.remove());
    const database = await prepareDatabase(cluster);
    const { owner } = database;
    onTestFinished(() => owner.end());
    const first = await startTestService({ SEED: "demo", TASK_CONCURRENCY: "2" }, database);
    const headers = { ...(await signIn(first)), apikey: first.service.tokens.issueKey("anon") };

    // The server of the test decodes the log already, so it need not be restarted.
    await asRoot(cluster, DECODING!);
    const subscribe = () => connect(first).subscribe("subscription { onArticleCreated { title } }");
    const subscription = await vi.waitFor(subscribe, POLL);
    const create =
      'mutation { createArticle(input: { title: "By a lesser owner", content: "Some text." }) { success } }';
    expect((await first.gql(create, { headers })).data).toEqual({ createArticle: { success: true } });
    await subscription.expect({ onArticleCreated: { title: "By a lesser owner" } });

    const accepted = await fetch(`${first.url}/rest/v1/rpc/search`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json", prefer: "respond-async" },
      body: JSON.stringify({ keyword: "lesser" }),
    });
    expect(accepted.status).toBe(202);
    const { taskId } = (await accepted.json()) as { taskId: string };
    const task = async () => (await fetch(`${first.url}/tasks/${taskId}`, { headers })).json();
    await expect.poll(task, POLL).toMatchObject({ status: "succeeded", result: [{ title: "By a lesser owner" }] });

    await owner.query(
      "create table notes (id int primary key); alter table notes enable row level security; grant select on notes to anon; notify pgrst, 'reload schema'",
    );
    const { apikey } = headers;
    const notes = async () => (await fetch(`${first.url}/rest/v1/notes`, { headers: { apikey } })).status;
    await expect.poll(notes, POLL).toBe(200);
    const { stdout } = await outcomeOf(doctor([], { DATABASE_URL: database.url, JWT_SECRET }));
    expect(stdout.split("\n").filter((line) => line.startsWith("error"))).toEqual([]);
    await first.stop();

    // A second start, with another signing secret, changes nothing.
    const tables = ["public.users", "public.articles", "auth_private.accounts", "graphile_migrate.migrations"];
    const state = async () =>
      (await owner.query(tables.map((table) => `select t::text from ${table} as t`).join(" union all "))).rows;
    const before = await state();
    // Before PostgreSQL 16, only a superuser may change the password of a login that may replicate.
    await asRoot(cluster, "alter role content_changes noreplication");
    const settings = {
      SEED: "demo",
      GRAPHQL_DOCUMENTS: "none",
      JWT_SECRET: "another secret of the tests, just as long",
    };
    const second = await startTestService(settings, database);
    onTestFinished(() => second.stop());
    expect(await state()).toEqual(before);
    expect((await fetch(`${second.url}/users/1`)).status).toBe(200);
  },
);
