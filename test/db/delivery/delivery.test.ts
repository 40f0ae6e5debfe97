import { beforeAll, expect, onTestFinished, test } from "vitest";
import type { Caller } from "../../../db/caller.ts";
import type { Image } from "../../../db/changes/change.ts";
import type { ChangeFeed } from "../../../db/changes/feed.ts";
import { columnIndexesOf, imageJson } from "../../../db/changes/json.ts";
import type { Start } from "../../../db/changes/position.ts";
import { presentTable } from "../../../db/changes/present-table.ts";
import { Delivery } from "../../../db/delivery/delivery.ts";
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

type Reading = Watch & { readonly titles: string[]; ended: Error | null };

const ANONYMOUS: Caller = { role: "anon", claims: {}, expiresAt: null, refused: null };

const watchArticles = (): Reading => ({
  table: { schema: "public", name: "articles" },
  caller: ANONYMOUS,
  filter: null,
  titles: [],
  ended: null,
});

async function startDelivery(feed: ChangeFeed, prepare = (_title: string) => {}) {
  const { rights } = await startRights(database);
  const delivery = new Delivery<Reading>(feed, rights, {
    prepare(change) {
      const { title } = rowOf(change);
      prepare(title!);
      return ({ visible }, trySend) => {
        for (const { watch } of visible) if (change.new) trySend(watch, () => watch.titles.push(title!));
      };
    },
    end(watch, error) {
      watch.ended = error;
    },
  });
  await delivery.open();
  return delivery;
}

const insert = (from: number, to: number) =>
  database.owner.query(
    "insert into articles (author_id, title, content) select 1, 'Title ' || n, 'Text' from generate_series($1::int, $2::int) n",
    [from, to],
  );

const titlesFrom = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => `Title ${from + i}`);

test("a watch that starts at an earlier position gets every later change once and in order, then the new ones", async () => {
  const delivery = await startDelivery(await startFeed(database, "logical"));
  const first = watchArticles();
  const start = delivery.start([first]);
  await insert(1, 400);
  await expect.poll(() => first.titles.length).toBe(400);
  const middle = delivery.positionOf(first)!;
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
  const delivery = new Delivery<Watch>(feed, rights, {
    prepare: () => () => {},
    end: (_watch, { message }) => void ended.push(message),
  });
  await delivery.open();
  delivery.start([{ table: { schema: "public", name: "leaving" }, caller: ANONYMOUS, filter: null }]);
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
  const delivery = new Delivery<Watch>(feed, rights, {
    prepare: ({ table, old, new: current }) => {
      const json = (image: Image | null) => image && imageJson(table, image, [...table.columns.keys()]);
      received.push([isWhole ? json(old) : null, json(current)]);
      return () => {};
    },
    end: () => {},
  });
  await delivery.open();
  delivery.start([{ table: { schema: "public", name: "computed" }, caller: ANONYMOUS, filter: null }]);
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
  const delivery = new Delivery<Watch>(feed, rights, {
    prepare: (change) => (seen, trySend) => {
      for (const { watch, view } of seen.visible)
        trySend(watch, () => {
          const table = presentTable(change.table, view.table);
          received.push(imageJson(table, change.new!, columnIndexesOf(table, view.columns)));
        });
    },
    end: (_, error) => received.push(error.message),
  });
  const watch = () => ({ table: { schema: "public", name: "crates" }, caller: ANONYMOUS, filter: null });
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
