import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { user } from "../../cli/user.ts";
import { createTestDatabase } from "../support/database.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let service: TestService;
/** As libpq writes it: `postgres://owner:secret@/database?host=/var/run/postgresql&port=5432` */
let url: string;

beforeAll(async () => {
  const database = await createTestDatabase();
  const { rows } = await database.owner.query(`select current_setting('unix_socket_directories') as folders`);
  const { username, password, port, pathname } = new URL(database.url);
  const folder = encodeURIComponent(rows[0].folders.replaceAll('"', ""));
  url = `postgres://${username}:${password}@${pathname}?host=${folder}&port=${port}`;
  await database.owner.query(`
    create table public.notes (id int primary key, title text not null);
    alter table public.notes enable row level security;
    create policy "everyone" on public.notes using (true);
    grant select on public.notes to anon;`);
  service = await startTestService({ DATABASE_URL: url, API_KEY_REQUIRED: "off" }, database);
  return () => service.stop();
});

const sql = async (text: string) => (await service.database.owner.query(text)).rows;

test("a service whose DATABASE_URL names a socket directory opens all its connections there, that of changes included", async () => {
  await sql("insert into notes values (1, 'First')");
  const events = new EventStreamClient(`${service.url}/rest/v1/notes?order=id`);
  expect((await events.take(1))[0]!.data).toEqual([{ id: 1, title: "First" }]);
  await sql("insert into notes values (2, 'Second')");
  const [, change] = await events.take(2);
  expect(change!.data).toMatchObject({ new: { id: 2, title: "Second" } });
  const connections = `
    select backend_type as type, bool_and(client_addr is null) as "isLocal" from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() group by 1 order by 1`;
  await expect
    .poll(() => sql(connections), POLL)
    .toEqual([
      { type: "client backend", isLocal: true },
      { type: "walsender", isLocal: true },
    ]);
});

test("a command uses the socket too", async () => {
  const folder = await mkdtemp(join(tmpdir(), "content-service-socket-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "users.ndjson");
  await writeFile(file, `${JSON.stringify({ email: "ann@import.example", name: "ann", password_hash: null })}\n`);
  const outcome = await outcomeOf(user(["import", file], { DATABASE_URL: url, JWT_SECRET }));
  expect([outcome, (await sql("select name from users where email = 'ann@import.example'")).length]).toMatchObject([
    { exitCode: 0 },
    1,
  ]);
});
