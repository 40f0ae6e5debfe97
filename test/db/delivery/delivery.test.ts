import { beforeAll, expect, onTestFinished, test } from "vitest";
import type { Caller } from "../../../db/caller.ts";
import type { Change, Image } from "../../../db/changes/change.ts";
import type { ChangeFeed } from "../../../db/changes/feed.ts";
import { columnIndexesOf, imageJson } from "../../../db/changes/json.ts";
import type { Start } from "../../../db/changes/position.ts";
import { presentTable } from "../../../db/changes/present-table.ts";
import { Delivery } from "../../../db/delivery/delivery.ts";
import type { Subscriber } from "../../../db/delivery/subscriber.ts";
import type { Watch } from "../../../db/rights/watch.ts";
import { rowOf, startFeed } from "../../support/changes.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { startRights } from "../../support/rights.ts";

const MISSED = expect.objectContaining({ reason: "changes missed" });

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

type Reading = Watch & {
  readonly subscriber: Subscriber<Reading, Change>;
  readonly titles: string[];
  ended: Error | null;
};

const ANONYMOUS: Caller = { role: "anon", claims: {}, expiresAt: null, refused: null };
const ARTICLES = { schema: "public", name: "articles" };

/** `untilReady` is called before each change. */
function watchArticles(untilReady: () => Promise<void> | null = () => null): Reading {
  const titles: string[] = [];
  const subscriber: Subscriber<Reading, Change> = {
    receive: (_, change) => void (change.new && titles.push(rowOf(change).title!)),
    fail() {},
    end: (error) => {
      watch.ended = error;
    },
    untilReady,
  };
  const watch: Reading = { table: ARTICLES, caller: ANONYMOUS, filter: null, subscriber, titles, ended: null };
  return watch;
}

async function startDelivery(feed: ChangeFeed, prepare = (_title: string) => {}) {
  const { rights } = await startRights(database);
  const delivery = new Delivery<Reading, Change>(feed, rights, (change) => {
    prepare(rowOf(change).title!);
    return change;
  });
  await delivery.open();
  return delivery;
}

/** A watch whose subscriber does only this. */
type Plain = Watch & { readonly subscriber: Subscriber<Plain, Change> };
const watchTable = (name: string, subscriber: Partial<Subscriber<Plain, Change>>): Plain => ({
  ...{ table: { schema: "public", name }, caller: ANONYMOUS, filter: null },
  subscriber: { receive() {}, fail() {}, end() {}, untilReady: () => null, ...subscriber },
});

const insert = (from: number, to: number) =>
  database.owner.query(
    "insert into articles (author_id, title, content) select 1, 'Title ' || n, 'Text' from generate_series($1::int, $2::int) n",
    [from, to],
  );

const titlesFrom = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => `Title ${from + i}`);

/** A live watch that has received 400 changes, with the positions before and after them. */
async function read400(delivery: Delivery<Reading, Change>) {
  const first = watchArticles();
  const start = delivery.start([first]);
  await insert(1, 400);
  await expect.poll(() => first.titles.length).toBe(400);
  return { first, start, middle: delivery.positionOf(first)! };
}

test("a watch that starts at an earlier position gets every later change once and in order, then the new ones", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical"));
  const { first, start, middle } = await read400(delivery);
  await insert(401, 500);
  const [resumed, later, live] = [watchArticles(), watchArticles(), watchArticles()];
  // All of them while the others are read.
  delivery.start([resumed], start);
  delivery.start([later], middle);
  await insert(501, 900);
  delivery.start([live], delivery.positionOf(first));
  await insert(901, 1000);
  await expect.poll(() => first.titles).toEqual(titlesFrom(1, 1000));
  await expect.poll(() => resumed.titles).toEqual(titlesFrom(1, 1000));
  await expect.poll(() => later.titles).toEqual(titlesFrom(401, 1000));
  await expect.poll(() => live.titles.at(-1)).toBe("Title 1000");
  expect(live.titles).toEqual(titlesFrom(1001 - live.titles.length, 1000));
});

test("watches come and go at any position while changes arrive, without a gap or a duplicate", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical"));
  const stays = watchArticles();
  delivery.start([stays]);
  const moving = Array.from({ length: 8 }, () => watchArticles());
  for (const watch of moving) delivery.start([watch]);
  for (let n = 0; n < 40; n++) {
    await insert(n * 10 + 1, n * 10 + 10);
    const watch = moving[n % moving.length]!;
    const position: Start = delivery.positionOf(watch)!;
    delivery.delete(watch);
    if (n % 3 === 0) await expect.poll(() => stays.titles.length).toBe(n * 10 + 10);
    delivery.start([watch], position);
  }
  await expect.poll(() => stays.titles).toEqual(titlesFrom(1, 400));
  for (const watch of moving) await expect.poll(() => watch.titles).toEqual(titlesFrom(1, 400));
  for (const watch of [stays, ...moving]) delivery.delete(watch);
  expect(delivery.size).toBe(0);
});

/** Longer than a piece of a delivery. */
function takeTime(): void {
  const end = performance.now() + 10;
  while (performance.now() < end);
}

test("watches that move while a change is delivered to some of them get every change once and in order", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical"), takeTime);
  const watches = Array.from({ length: 400 }, () => watchArticles());
  delivery.start(watches);
  let moves = 0;
  const move = () => {
    if (moves < 0) return;
    const watch = watches[(moves++ * 7) % watches.length]!;
    const position = delivery.positionOf(watch)!;
    delivery.delete(watch);
    delivery.start([watch], position);
    setImmediate(move);
  };
  setImmediate(move);
  await insert(1, 30);
  await expect.poll(() => watches.every(({ titles }) => titles.length >= 30)).toBe(true);
  expect(moves).toBeGreaterThan(30);
  moves = Number.NEGATIVE_INFINITY;
  for (const watch of watches) expect(watch.titles).toEqual(titlesFrom(1, 30));
  delivery.close();
});

test("watches that resume at different positions, before a restarted service has read the changes again, get what each lacks", async () => {
  const before = await startFeed(database, "logical", { instance: "restarted" });
  const delivery = await startDelivery(before);
  const first = watchArticles();
  delivery.start([first]);
  const positions: string[] = [];
  for (let n = 0; n < 30; n += 10) {
    await insert(n + 1, n + 10);
    await expect.poll(() => first.titles.length).toBe(n + 10);
    positions.push(before.textOf(delivery.positionOf(first)!));
  }
  await before.close();
  const after = await startFeed(database, "logical", { instance: "restarted" });
  const restarted = await startDelivery(after);
  const watches = [2, 0, 1].map((n) => ({ watch: watchArticles(), has: (n + 1) * 10, since: positions[n]! }));
  for (const { watch, since } of watches) restarted.start([watch], after.startOf(since)!);
  await insert(31, 40);
  for (const { watch, has } of watches) await expect.poll(() => watch.titles).toEqual(titlesFrom(has + 1, 40));
});

test("a watch whose position is no longer kept is refused, and others continue", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical", { maxBytes: 20_000 }));
  const live = watchArticles();
  const start = delivery.start([live]);
  await insert(1, 1000);
  await expect.poll(() => live.titles.length).toBe(1000);
  expect(() => delivery.start([watchArticles()], start)).toThrow(MISSED);
  await insert(1001, 1001);
  await expect.poll(() => live.titles.length).toBe(1001);
});

/** A subscriber that is ready for one change, and for the next one when `next` is called. */
function slowSubscriber() {
  let waiting: PromiseWithResolvers<void> | null = null;
  const watch = watchArticles(() => {
    if (watch.titles.length === ready) waiting ??= Promise.withResolvers();
    return watch.titles.length === ready ? waiting!.promise : null;
  });
  let ready = 1;
  const next = () => {
    ready += 1;
    waiting?.resolve();
    waiting = null;
  };
  return { watch, next, isPaused: () => waiting !== null };
}

test("a subscriber that is not ready is not waited for, and gets the rest when it is ready", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical"));
  const { watch: slow, next, isPaused } = slowSubscriber();
  const others = watchArticles();
  delivery.start([slow]);
  delivery.start([others]);
  await insert(1, 20);
  await expect.poll(() => others.titles).toEqual(titlesFrom(1, 20));
  for (let n = 1; n <= 20; n++) {
    if (n === 19) await insert(21, 21);
    await expect.poll(isPaused).toBe(true);
    expect(slow.titles).toEqual(titlesFrom(1, n));
    next();
  }
  await expect.poll(() => slow.titles).toEqual(titlesFrom(1, 21));
  delivery.delete(slow);
  await insert(22, 22);
  await expect.poll(() => others.titles).toEqual(titlesFrom(1, 22));
  expect(slow.titles).toEqual(titlesFrom(1, 21));
});

test("a subscriber that is ready when its position is no longer kept ends, and one that has left meanwhile stays away", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical", { maxBytes: 20_000 }));
  const [slow, left, others] = [slowSubscriber(), slowSubscriber(), watchArticles()];
  for (const watch of [slow.watch, left.watch, others]) delivery.start([watch]);
  await insert(1, 1000);
  await expect.poll(() => others.titles.length).toBe(1000);
  delivery.delete(left.watch);
  for (const each of [slow, left]) each.next();
  await expect.poll(() => slow.watch.ended).toEqual(MISSED);
  await insert(1001, 1001);
  await expect.poll(() => others.titles.length).toBe(1001);
  expect([slow.watch.titles, left.watch.titles, left.watch.ended]).toEqual([titlesFrom(1, 1), titlesFrom(1, 1), null]);
  expect(delivery.size).toBe(1);
});

test("a subscriber that pauses while a change is delivered to others, and is ready before they have it, gets each change once", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical"));
  const busy = () => {
    const end = performance.now() + 0.15;
    while (performance.now() < end);
    return null;
  };
  let isFirst = true;
  const brief = watchArticles(() => {
    if (!isFirst) return null;
    isFirst = false;
    return new Promise((resolve) => setImmediate(resolve));
  });
  delivery.start([brief]);
  const others = Array.from({ length: 300 }, () => watchArticles(busy));
  delivery.start(others);
  await insert(1, 30);
  await expect.poll(() => others.every(({ titles }) => titles.length === 30)).toBe(true);
  for (const watch of [brief, ...others]) expect(watch.titles).toEqual(titlesFrom(1, 30));
  delivery.close();
});

test("watches that catch up from different positions while none is live get every change", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical"));
  const { first, start, middle } = await read400(delivery);
  const [other, late, early] = [watchArticles(), watchArticles(), watchArticles()];
  delivery.start([other], start);
  delivery.start([late], middle);
  delivery.start([early], start);
  for (const watch of [other, first]) delivery.delete(watch);
  await insert(401, 410);
  await expect.poll(() => late.titles).toEqual(titlesFrom(401, 410));
  await expect.poll(() => early.titles).toEqual(titlesFrom(1, 410));
});

test("a subscriber that deletes its other watches when one ends is told once", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical", { maxBytes: 20_000 }));
  const { watch, next, isPaused } = slowSubscriber();
  const twin: Reading = { ...watch };
  let ends = 0;
  Object.assign(watch.subscriber, {
    end: () => {
      ends += 1;
      for (const each of [watch, twin]) delivery.delete(each);
    },
  });
  const others = watchArticles();
  delivery.start([watch, twin]);
  delivery.start([others]);
  await insert(1, 1000);
  await expect.poll(() => others.titles.length).toBe(1000);
  expect(isPaused()).toBe(true);
  next();
  await expect.poll(() => ends).toBe(1);
  expect(delivery.size).toBe(1);
});

test("watches whose batch cannot be prepared end with a reason, instead of losing it in silence, and others continue", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical"), (title) => {
    if (title === "Title 3001") throw new Error("not prepared");
  });
  const ended = watchArticles();
  delivery.start([ended]);
  await insert(3001, 3001);
  await expect.poll(() => ended.ended).toEqual(new Error("internal error"));
  const next = watchArticles();
  delivery.start([next]);
  await insert(3002, 3010);
  await expect.poll(() => next.titles).toEqual(titlesFrom(3002, 3010));
});

test("a watch ends with the reason when its role may no longer read the table", async () => {
  const feed = await startFeed(database, "logical");
  const { catalog, rights } = await startRights(database);
  feed.onSchemaChange(() => catalog.refreshed());
  await database.owner.query(
    "create table leaving (id int primary key); grant select on leaving to anon; alter table leaving replica identity full",
  );
  onTestFinished(async () => void (await database.owner.query("drop table leaving")));
  await database.owner.query("select changes.publish_table('leaving'::regclass)");
  await catalog.refreshed();
  const ended: string[] = [];
  const delivery = new Delivery<Plain, Change>(feed, rights, (change) => change);
  await delivery.open();
  delivery.start([watchTable("leaving", { end: ({ message }) => void ended.push(message) })]);
  await database.owner.query("revoke select on leaving from anon");
  await database.owner.query("insert into leaving values (1)");
  await expect.poll(() => ended).toEqual(["the role anon may not SELECT from public.leaving"]);
});

/** Types with a cast to json, alone and within others, and generated columns. */
const COMPUTED = `
  create extension if not exists hstore;
  create type public.mood as enum ('sad', 'glad');
  create function public.mood_json(mood public.mood) returns json language sql immutable
    return json_build_object('mood', mood::text);
  create cast (public.mood as json) with function public.mood_json(public.mood);
  create domain public.labels as hstore;
  create type public.labelled as (id int, labels public.labels);
  create function public.twice(n int) returns int language sql immutable return n * 2;
  create table public.computed (
    id int primary key, w int, "a ""b""" int, labels public.labels, moods public.mood[], labelled public.labelled,
    area int generated always as (public.twice(w) * "a ""b""") stored, one int generated always as (1) stored,
    label hstore generated always as (labels || 'x=>1') stored
  );
  alter table public.computed replica identity full;
  grant select on public.computed to anon;
  select changes.publish_table('public.computed');`;

test("a delivered row has the values of a select", async () => {
  const { owner } = database;
  await owner.query(COMPUTED);
  const { rows: server } = await owner.query(
    "select current_setting('server_version_num')::int >= 180000 as \"isNew\"",
  );
  const isWhole = !server[0].isNew;
  // The source never has such a column, and the log not the old rows of its table.
  if (server[0].isNew) await owner.query("alter table computed add half int generated always as (w / 2) virtual");
  onTestFinished(async () => {
    await owner.query("drop table computed; drop type labelled; drop domain labels; drop type mood cascade");
    await owner.query("drop function twice");
  });
  const feed = await startFeed(database, "logical");
  const { rights } = await startRights(database);
  const received: (string | null)[][] = [];
  const delivery = new Delivery<Plain, Change>(feed, rights, (change) => change);
  const receive: Subscriber<Plain, Change>["receive"] = (_, { table, old, new: current }) => {
    const json = (image: Image | null) => image && imageJson(table, image, [...table.columns.keys()]);
    received.push([isWhole ? json(old) : null, json(current)]);
  };
  await delivery.open();
  delivery.start([watchTable("computed", { receive })]);
  const select = async () => {
    const { rows } = await owner.query("select to_json(c)::text as json from computed as c order by id");
    return rows.map(({ json }) => json);
  };
  await owner.query(`insert into computed values
    (1, 2, 3, 'k=>v, "a,b"=>"c\\"d", n=>NULL', '{sad,NULL,glad}', row(1, 'k=>"(x)"')),
    (2, null, null, null, null, null), (3, 1, 1, '', '{}', row(null, null))`);
  const inserted = await select();
  await owner.query("update computed set w = 4 where id = 1");
  const [updated] = await select();
  await owner.query("delete from computed where id = 1");
  const old = (row: string | undefined) => (isWhole ? row : null);
  await expect
    .poll(() => received)
    .toEqual([...inserted.map((row) => [null, row]), [old(inserted[0]), updated], [old(updated), null]]);
  expect(JSON.parse(inserted[0]!)).toMatchObject({ labels: { k: "v" }, moods: [{ mood: "sad" }, null, {}], area: 12 });
});

test("a change has the names of the catalog that decides it", async () => {
  const { owner } = database;
  await owner.query(`create table public.crates (id int primary key, a text, b text, gone int default 1);
    grant select (id, a, gone) on public.crates to anon; select changes.publish_table('public.crates')`);
  onTestFinished(async () => void (await owner.query("drop table crates")));
  const feed = await startFeed(database, "logical");
  const { rights, catalog } = await startRights(database);
  const received: string[] = [];
  const delivery = new Delivery<Plain, Change>(feed, rights, (change) => change);
  const receive: Subscriber<Plain, Change>["receive"] = ([seen], change) => {
    const table = presentTable(change.table, seen!.view.table);
    received.push(imageJson(table, change.new!, columnIndexesOf(table, seen!.view.columns)));
  };
  const watch = () => watchTable("crates", { receive, end: ({ message }) => void received.push(message) });
  await delivery.open();
  const start = delivery.start([watch()]);
  const add = (id: number) => owner.query("insert into crates values ($1, 'open', 'secret')", [id]);
  const got = async (...rows: string[]) => {
    await expect.poll(() => received).toEqual(rows);
    received.length = 0;
  };
  await add(1);
  await got('{"id":1,"a":"open","gone":1}');

  await owner.query(`begin; alter table crates rename a to c; alter table crates rename b to a;
    alter table crates rename c to b; commit`);
  await add(2);
  await got('{"id":2,"a":"open","gone":1}');
  await catalog.refreshed();
  await add(3);
  await got('{"id":3,"b":"open","gone":1}');
  delivery.start([watch()], start);
  await got(...[1, 2, 3].map((id) => `{"id":${id},"b":"open","gone":1}`));

  // The columns of a change that the catalog does not know have it read again.
  await owner.query("alter table crates drop gone, add more int default 5; grant select on crates to anon");
  await add(4);
  await got(...Array.from({ length: 2 }, () => '{"id":4,"b":"open","a":"secret","more":5}'));
  delivery.close();
});
