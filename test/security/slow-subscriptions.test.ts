import { beforeAll, expect, onTestFinished, test } from "vitest";
import { ByteBudget } from "../../db/admission/byte-budget.ts";
import type { Statement } from "../../db/transaction/transaction.ts";
import {
  type ChangeEvent,
  type ChangeEvents,
  type ChangeFilter,
  Subscriptions,
} from "../../graphql/execute/change-events.ts";
import { EventTransactions } from "../../graphql/execute/event-transactions.ts";
import { startFeed } from "../support/changes.ts";
import { createTestDatabase } from "../support/database.ts";
import { connect } from "../support/graphql-client.ts";
import { callerOf, startRights } from "../support/rights.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { identityOf } from "../support/transactions.ts";
import { POLL } from "../support/until.ts";

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

test("however many events wait for one subscription, the others get theirs, and it misses none", async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const feed = await startFeed(database, "logical", { maxBytes: 100_000_000 });
  const { rights } = await startRights(database);
  const subscriptions = new Subscriptions(feed, rights);
  const open = async () => {
    const before = subscriptions.size;
    const holding = new ByteBudget({ total: 0, perAddress: 0 }).hold("10.0.0.1", "subscriptions");
    const caller = callerOf("anon");
    const created = {
      schema: "public",
      table: "articles",
      key: ["id"],
      columns: new Map(),
      operations: ["INSERT"],
      where: {},
      filter: null,
      isWhole: false,
    };
    const events = subscriptions.open(created as ChangeFilter, { caller, since: null, holding });
    await expect.poll(() => subscriptions.size, POLL).toBe(before + 1);
    return events;
  };
  const [held, other] = [await open(), await open()];
  const first = held.next();
  const got = readAll(other);
  await database.owner.query(
    "insert into articles (author_id, title, content) select 1, 'Title ' || n, 'Text' from generate_series(1, 12000) n",
  );
  const titles = Array.from({ length: 12_000 }, (_, i) => `Title ${i + 1}`);
  await expect.poll(() => got.length, POLL).toBe(titles.length);
  expect(got).toEqual(titles);

  const late = [titleOf(await first)];
  const rest = readAll(held);
  await expect.poll(() => rest.length, POLL).toBe(titles.length - 1);
  expect([...late, ...rest]).toEqual(titles);
  await held.return();
  await other.return();
});

test("the rows of a subscription are read together with those of others only after they have been read quickly", async () => {
  const { database } = await startRights(service.database);
  const runs: string[][] = [];
  const transactions = new EventTransactions(
    {
      run(identity, statements, options) {
        runs.push(statements.map(({ text }) => text).filter((text) => !text.includes("set_config")));
        return database.forRole("anon").run(identity, statements, options);
      },
    },
    { decidesAlone: false },
  );
  const identities = [1, 2, 3].map((id) => identityOf("anon", id));
  const read = (n: number, text: string) => transactions.run(identities[n]!, [{ text, values: [] } as Statement]);
  await Promise.all([read(0, "select 1"), read(1, "select 2")]);
  await Promise.all([read(0, "select 1"), read(2, "select 3"), read(1, "select 2")]);
  await Promise.all([read(0, "select 1"), read(2, "select 3"), read(1, "select 4")]);
  expect(runs).toEqual([
    ...[["select 1", "select 2"]],
    ...[["select 1", "select 2"], ["select 3"]],
    ...[["select 1", "select 3"], ["select 4"]],
  ]);
});

/** The titles of its events, as they come. */
function readAll(events: ChangeEvents): string[] {
  const titles: string[] = [];
  void (async () => {
    for await (const { row } of events) titles.push(row!.title!);
  })();
  return titles;
}

const titleOf = ({ value }: IteratorResult<ChangeEvent>) => (value as ChangeEvent).row!.title!;
