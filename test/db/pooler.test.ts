import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { provisionLogins } from "../../db/cluster/provision.ts";
import { findServerUser } from "../../db/cluster/system-user.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

const PGBOUNCER = "/usr/sbin/pgbouncer";
const installed = existsSync(PGBOUNCER);
if (!installed) console.warn(`skipped: the service behind a pooler, because ${PGBOUNCER} is not installed`);

let database: TestDatabase;
let pooler: ChildProcess;
let folder: string;
let service: TestService;
beforeAll(async () => {
  if (!installed) return;
  database = await createTestDatabase();
  const { hostname, port } = new URL(database.url);
  const poolerPort = await findFreePort();
  const logins = await provisionLogins(database.url, database.url, JWT_SECRET);
  const users = [database.url, ...Object.values(logins)].map((url) => new URL(url));

  folder = await mkdtemp(join(tmpdir(), "pooler-"));
  await writeFile(
    join(folder, "users"),
    users.map(({ username, password }) => `"${username}" "${password}"\n`).join(""),
  );
  await writeFile(
    join(folder, "pgbouncer.ini"),
    `[databases]
${database.name} = host=${hostname} port=${port} dbname=${database.name}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${poolerPort}
auth_type = plain
auth_file = ${join(folder, "users")}
pool_mode = transaction
default_pool_size = 2
unix_socket_dir =
`,
  );
  pooler = await startPooler(poolerPort);
  const pooled = new URL(database.url);
  pooled.port = String(poolerPort);
  service = await startTestService(
    {
      DATABASE_URL: pooled.href,
      DATABASE_DIRECT_URL: database.url,
      DB_PREPARED_STATEMENTS: "0",
      TASK_CONCURRENCY: "2",
    },
    database,
  );
});
afterAll(async () => {
  await service?.stop();
  pooler?.kill("SIGKILL");
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** PgBouncer does not run as root. */
async function startPooler(port: number): Promise<ChildProcess> {
  const user = userInfo().uid === 0 ? await findServerUser(folder) : undefined;
  await chmod(folder, 0o711);
  for (const file of ["users", "pgbouncer.ini"]) if (user) await chown(join(folder, file), user.uid, user.gid);
  const child = spawn(PGBOUNCER, [join(folder, "pgbouncer.ini")], { stdio: "ignore", ...user });
  await vi.waitUntil(() => accepts(port), { timeout: 30_000 });
  return child;
}

const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true)).on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });

test.skipIf(!installed)(
  "behind a pooler in transaction mode, with more callers than server connections, each has its own identity",
  async () => {
    const callers = ["ada", "bob", "admin"] as const;
    const names = { ada: "Ada Lovelace", bob: "Bob Kahn", admin: "Administrator" };
    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        const caller = callers[i % 3]!;
        const { data } = await service.gql("{ me { name } articles(first: 2) { totalCount } }", { as: caller });
        return [data.me.name === names[caller], data.articles.totalCount];
      }),
    );
    expect(new Set(answers.map(String))).toEqual(new Set(["true,4"]));
  },
);

test.skipIf(!installed)("behind a pooler a failed request has no effect on the next one", async () => {
  const failed = await service.gql(
    '{ search(keyword: "x") { summary(length: -1) } articles { totalCount } users { avatar(size: -1) } }',
  );
  expect(failed.errors).not.toHaveLength(0);
  for (let i = 0; i < 6; i++)
    expect((await service.gql("{ articles { totalCount } }")).data.articles.totalCount).toBe(4);
});

test.skipIf(!installed)("behind a pooler a write is committed and announced", async () => {
  const mutation = `mutation { createArticle(input: { title: "Through the pool", content: "It arrives." }) { success } }`;
  expect((await service.gql(mutation, { as: "ada" })).data.createArticle.success).toBe(true);
  const { rows } = await database.owner.query("select count(*)::int from articles where title = 'Through the pool'");
  expect(rows).toEqual([{ count: 1 }]);
});
