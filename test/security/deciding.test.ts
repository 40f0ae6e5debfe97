import { expect, onTestFinished, test } from "vitest";
import { EventStreamClient } from "../support/event-stream.ts";
import { type Observed, observing, summary, useRealtime } from "../support/realtime.ts";

/** A filter `mood=lt.slow` takes as long as changesPolicyTimeout allows, and so does the policy of `slow_for_bob` for Bob. */
const DDL = `
  create type public.mood as enum ('calm', 'quick', 'slow');
  create table public.moods (id int primary key, mood public.mood not null);
  alter table public.moods enable row level security;
  grant select on public.moods to anon, authenticated;
  create policy "everyone" on public.moods using (true);
  create function public.is_less(a public.mood, b public.mood) returns boolean language plpgsql strict as
    $$ begin if b = 'slow' then perform pg_sleep(100); end if; return enum_lt(a, b); end $$;
  create operator public.< (leftarg = public.mood, rightarg = public.mood, function = public.is_less);
  create function public.wait_for_bob() returns boolean language plpgsql stable as
    $$ begin if auth.uid() = 2 then perform pg_sleep(100); end if; return true; end $$;
  grant execute on function public.is_less, public.wait_for_bob to anon, authenticated;
  create table public.slow_for_bob (id int primary key);
  alter table public.slow_for_bob enable row level security;
  grant select on public.slow_for_bob to anon, authenticated;
  create policy "everyone" on public.slow_for_bob using (public.wait_for_bob());
  create table public.notes (id int primary key, body text);
  alter table public.notes enable row level security;
  grant select on public.notes to anon, authenticated;
  create policy "everyone" on public.notes using (true);
`;

// Longer than a test: what waits for a slow filter does not come at all.
const { client, service, sql } = useRealtime({ changesPolicyTimeout: 90_000 }, DDL);

const on = (table: string, filter?: string) => [{ event: "*", schema: "public", table, ...(filter && { filter }) }];

async function many(count: number, name: string, ...bindings: ReturnType<typeof on>) {
  const made = client();
  onTestFinished(async () => {
    void made.realtime.disconnect();
    await cancelSlow();
  });
  const channels: Observed[] = [];
  for (let i = 0; i < count; i++) channels.push(await observing(made, `${name} ${i}`, bindings));
  return { made, channels };
}

/** Ends what the slow filters and policies wait for. */
const cancelSlow = async () => {
  const slow = `select pid from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`;
  await expect
    .poll(async () => (await sql(`select pg_cancel_backend(pid) from (${slow}) as running`)).length, { interval: 50 })
    .toBe(0);
};

const asking = async () =>
  (await sql("select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'")).length;

test("slow filters of one subscriber delay the changes of no other, in the same table and in others", async () => {
  const { url, service: running } = service();
  const [open, equal, other] = [
    await observing(client(), "open", on("moods")),
    await observing(client(), "equal", on("moods", "mood=eq.calm")),
    await observing(client(), "other", on("notes")),
  ];
  const asked = await observing(client(), "asked", on("moods", "mood=lt.quick"));
  const events = new EventStreamClient(`${url}/rest/v1/moods`, {
    headers: { apikey: running.tokens.issueKey("anon") },
  });
  await events.take(1, "snapshot");
  const slow = await many(10, "slow", ...on("moods", "mood=lt.slow"));
  for (let id = 1; id <= 3; id++) {
    await sql("insert into moods values ($1, 'calm')", id);
    await sql("insert into notes values ($1, 'one')", id);
  }
  const all = ["INSERT 1", "INSERT 2", "INSERT 3"];
  for (const each of [open, equal, other, asked]) await expect.poll(() => summary(each)).toEqual(all);
  expect((await events.take(3, "INSERT")).map(({ data }) => data.new.id)).toEqual([1, 2, 3]);
  expect(slow.channels.map(({ states, changes }) => [states, changes])).toEqual(
    slow.channels.map(() => [["SUBSCRIBED"], []]),
  );
});

test("a slow policy of one caller delays the changes of no other", async () => {
  const ada = await observing(client({ as: "ada" }), "ada", on("slow_for_bob"));
  const other = await observing(client(), "other", on("notes"));
  const bob = client({ as: "bob" });
  const slow = await observing(bob, "bob", on("slow_for_bob"));
  onTestFinished(async () => {
    void bob.realtime.disconnect();
    await cancelSlow();
  });
  await sql("insert into slow_for_bob values (1)");
  await sql("insert into notes values (11, 'one')");
  await sql("insert into slow_for_bob values (2)");
  await expect.poll(() => summary(ada)).toEqual(["INSERT 1", "INSERT 2"]);
  await expect.poll(() => summary(other)).toEqual(["INSERT 11"]);
  expect([slow.states, slow.changes]).toEqual([["SUBSCRIBED"], []]);
});

test("a subscriber that leaves while its filter is decided ends no channel of others", async () => {
  const others = [
    await observing(client(), "open", on("moods")),
    await observing(client(), "asked", on("moods", "mood=lt.quick")),
    await observing(client(), "other", on("notes")),
  ];
  const slow = await many(2, "leaving", ...on("moods", "mood=lt.slow"));
  await sql("insert into moods values (21, 'calm')");
  await expect.poll(asking).toBeGreaterThan(0);
  void slow.made.realtime.disconnect();
  await expect.poll(() => service().service.open().sockets, { timeout: 120_000 }).toBe(3);
  await cancelSlow();
  await sql("insert into moods values (22, 'calm')");
  await sql("insert into notes values (22, 'one')");
  await expect
    .poll(() => others.map(summary))
    .toEqual([["INSERT 21", "INSERT 22"], ["INSERT 21", "INSERT 22"], ["INSERT 22"]]);
  expect(others.map(({ states }) => states)).toEqual([["SUBSCRIBED"], ["SUBSCRIBED"], ["SUBSCRIBED"]]);
});

test("a filter that takes too long is asked alone once, and then ends its channel with the reason", async () => {
  const others = [
    await observing(client(), "asked", on("moods", "mood=lt.quick")),
    await observing(client(), "open", on("moods")),
  ];
  const slow = await many(1, "ended", ...on("moods", "mood=lt.slow"));
  await sql("insert into moods values (31, 'calm')");
  await expect.poll(() => others.map(summary)).toEqual([["INSERT 31"], ["INSERT 31"]]);
  await cancelSlow();
  await expect
    .poll(() => slow.channels[0]!.system.at(-1)?.message)
    .toBe(
      "RealtimeDisabledForConfiguration: the filter, or a policy of public.moods, takes too long: simplify it, or give it an index",
    );
  expect(others.map(({ states }) => states)).toEqual([["SUBSCRIBED"], ["SUBSCRIBED"]]);
});
