import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ DB_POOL: "1" });
  await service.database.owner.query(`
    create function public.slow() returns text language sql stable as $$ select pg_sleep(30)::text $$;
    grant execute on function public.slow() to anon`);
  await vi.waitUntil(async () =>
    (await service.gql('{ __type(name: "Query") { fields { name } } }')).data.__type.fields.some(
      (f: any) => f.name === "slow",
    ),
  );
});
afterAll(() => service.stop());

const running = async () => {
  const { rows } = await service.database.owner.query(
    "select count(*)::int from pg_stat_activity where state = 'active' and query like '%slow%' and pid <> pg_backend_pid()",
  );
  return rows[0].count as number;
};

const ask = (query: string, signal: AbortSignal) =>
  fetch(`${service.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query }),
    signal,
  });

test("a client that goes away cancels its query, and its connection serves the next one", async () => {
  const client = new AbortController();
  const asked = ask("{ slow }", client.signal);
  await vi.waitUntil(async () => (await running()) === 1);
  client.abort();
  await expect(asked).rejects.toThrow();
  await vi.waitUntil(async () => (await running()) === 0, { timeout: 3000 });
  expect((await service.gql("{ articles { totalCount } }")).data.articles.totalCount).toBe(4);
});

test("a client that goes away while it waits for a connection never reaches the database", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const asked = [ask("{ slow }", first.signal), ask("{ waiting: slow }", second.signal)].map((answer) =>
    answer.catch(() => {}),
  );
  await vi.waitUntil(async () => (await running()) === 1);
  const before = service.service.databaseWaits();
  second.abort();
  first.abort();
  await Promise.all(asked);
  await vi.waitUntil(async () => (await running()) === 0, { timeout: 3000 });
  expect((await service.gql("{ articles { totalCount } }")).data.articles.totalCount).toBe(4);
  expect(service.service.databaseWaits()).toBe(before + 1);
});
