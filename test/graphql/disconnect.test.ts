import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    create function public.slow() returns text language sql stable as $$ select pg_sleep(30)::text $$;
    grant execute on function public.slow() to anon`);
  service = await startTestService({ DB_POOL: "1" }, database);
});
afterAll(() => service.stop());

/** The number of running statements of slow(). */
const running = async () => {
  const { rows } = await service.database.owner.query(
    `select count(*)::int from pg_stat_activity
      where datname = current_database() and state = 'active' and query like '%slow%' and pid <> pg_backend_pid()`,
  );
  return rows[0].count as number;
};

const send = (query: string, signal: AbortSignal) =>
  fetch(`${service.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query }),
    signal,
  });

test("the query of a client that disconnects is cancelled, and its connection serves the next query", async () => {
  const client = new AbortController();
  const answers = send("{ slow }", client.signal);
  await expect.poll(running, POLL).toBe(1);
  client.abort();
  await expect(answers).rejects.toThrow();
  await expect.poll(running, POLL).toBe(0);
  expect((await service.gql("{ articles { totalCount } }")).data.articles.totalCount).toBe(4);
});

test("a request that waits for a connection when its client disconnects never reaches the database", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const answers = [send("{ slow }", first.signal), send("{ waiting: slow }", second.signal)].map((answer) =>
    answer.catch(() => {}),
  );
  await expect.poll(running, POLL).toBe(1);
  const before = service.service.databaseWaits();
  second.abort();
  first.abort();
  await Promise.all(answers);
  await expect.poll(running, POLL).toBe(0);
  expect((await service.gql("{ articles { totalCount } }")).data.articles.totalCount).toBe(4);
  expect(service.service.databaseWaits()).toBe(before + 1);
});
