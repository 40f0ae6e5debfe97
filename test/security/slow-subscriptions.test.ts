import { beforeAll, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { connect, POLL } from "../support/graphql-client.ts";
import { startTestService, type TestService } from "../support/service.ts";

/** A field whose value waits until the test gives the lock back. */
const HELD = 4711;

let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    create function public.articles_held(a public.articles) returns text language plpgsql stable
    as $$ begin perform pg_advisory_xact_lock_shared(${HELD}); return 'held'; end $$;
    grant execute on function public.articles_held to anon`);
  service = await startTestService({ DB_STATEMENT_TIMEOUT: "0" }, database);
  return () => service.stop();
});

test("subscribers get their events while the rows of others take long to read", async () => {
  const { owner } = service.database;
  await owner.query("select pg_advisory_lock($1)", [HELD]);
  const attacker = connect(service);
  const slow = [];
  for (const alias of ["a", "b", "c"])
    slow.push(await attacker.subscribe(`subscription { onArticleUpdated(id: 1) { title ${alias}: held } }`));
  const other = await connect(service).subscribe("subscription { onArticleUpdated(id: 1) { title } }");
  const titles = ["The first title", "The second title"];
  for (const [i, title] of titles.entries()) {
    await owner.query("update articles set title = $1 where id = 1", [title]);
    await other.expect(...titles.slice(0, i + 1).map((each) => ({ onArticleUpdated: { title: each } })));
  }
  expect(slow.flatMap(({ events }) => events)).toEqual([]);

  await owner.query("select pg_advisory_unlock($1)", [HELD]);
  for (const each of slow) await expect.poll(() => each.events.length, POLL).toBe(2);
  expect(slow.flatMap(({ faults }) => faults)).toEqual([]);
});
