import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import type { Catalog } from "../../../db/catalog/catalog.ts";
import type { Change } from "../../../db/changes/change.ts";
import { ChangeFeed } from "../../../db/changes/feed.ts";
import { Delivery } from "../../../db/delivery/delivery.ts";
import type { Subscriber } from "../../../db/delivery/subscriber.ts";
import { WatchEnded } from "../../../db/delivery/watch-group.ts";
import { filterOf } from "../../../db/filters/condition.ts";
import type { CheckerOptions } from "../../../db/rights/checker.ts";
import type { PreparedFilter } from "../../../db/rights/filter.ts";
import { Rights } from "../../../db/rights/rights.ts";
import type { VisibleChange, Watch } from "../../../db/rights/watch.ts";
import { elementsOf } from "../../../db/wire/array-text.ts";
import { Commits } from "../../support/commits.ts";
import { createTestDatabase } from "../../support/database.ts";
import { callerOf, openRights } from "../../support/rights.ts";
import { samples } from "../../support/samples.ts";

/**
 * What Postgres does when it is asked about a filter. "none": no filter. "revoked": no filter, on a table whose grant is revoked.
 * "unsendable": no filter, and its second change cannot be sent.
 */
const KINDS = ["none", "revoked", "unsendable", "matches", "slow", "raises", "fault"] as const;
type Kind = (typeof KINDS)[number];

/** Milliseconds: how long questions wait, and how long a policy may take. */
const [PATIENCE, TIMEOUT] = [2, 4];
const ANONYMOUS = callerOf("anon");
const POLL = { interval: 1, timeout: 120_000 };

let catalogs: { readonly before: Catalog; readonly after: Catalog };
let filters: ReadonlyMap<Kind, PreparedFilter>;

beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    create table things (id int primary key, title text); grant select on things to anon;
    create table revoked (id int primary key, title text); grant select on revoked to anon`);
  const { rights, catalog, close } = await openRights(database);
  const before = catalog.current;
  const prepared = async (kind: Kind) => rights.prepareFilter(filterOf("title", "like", kind), tableOf("none"), "anon");
  filters = new Map(await Promise.all(KINDS.slice(3).map(async (kind) => [kind, (await prepared(kind))!] as const)));
  await database.owner.query("revoke select on revoked from anon");
  await catalog.refreshed();
  catalogs = { before, after: catalog.current };
  await close();
  return () => database.drop();
});

const tableOf = (kind: Kind) => ({ schema: "public", name: kind === "revoked" ? "revoked" : "things" });

const TABLES = ["things", "revoked"];

/** Answers as Postgres would; `expired` are the questions that it has cancelled. */
class Answers {
  asked = 0;
  expired = 0;
  /** So many of the next questions are too slow, for any subscriber. */
  slow = 0;

  readonly forRole: CheckerOptions["database"]["forRole"] = () =>
    ({
      run: async (identity: any, statements: readonly { readonly values: readonly string[] }[]) => {
        const [rows, terms] = statements.at(-1)!.values as [string, string];
        const lists = elementsOf(terms) as Kind[];
        const timeout = Number(identity.settings.fixed.find(([name]: [string]) => name === "statement_timeout")[1]);
        await null;
        this.asked += 1;
        if (lists.includes("fault")) throw new TypeError("a fault");
        if (lists.includes("slow") || this.slow-- > 0) {
          await sleep(timeout);
          this.expired += 1;
          throw Object.assign(new Error("canceled"), { code: "57014", severity: "ERROR" });
        }
        if (lists.includes("raises")) throw Object.assign(new Error("raised"), { code: "22012", severity: "ERROR" });
        const places = Buffer.from(`{${lists.map((_, i) => i + 1)}}`);
        const result = elementsOf(rows).map((_, i) => [Buffer.from(String(i + 1)), places]);
        return [...statements.slice(1).map(() => ({ rows: [] })), { rows: result }];
      },
    }) as any;
}

/** It has a watch of each kind, and gets the changes that any of them sees. */
type Client = {
  readonly kinds: readonly Kind[];
  /** Whether it is not ready for a while after each change. */
  readonly pauses: boolean;
  readonly watches: Own[];
  /** The commits before it began. */
  readonly since: number;
  /** Commits, with "r" for a change of the table "revoked". */
  readonly received: string[];
  ended: Error | null;
  hasLeft: boolean;
  /** How many questions expired, at most, from a commit until the subscriber got it. */
  delay: number;
};

type Own = Watch & { readonly kind: Kind; readonly subscriber: Subscriber<Own, Change> };

class Run {
  readonly subscribers: Client[] = [];
  readonly faults: unknown[] = [];
  readonly answers = new Answers();
  readonly #commits = new Commits(TABLES.map((name) => catalogs.before.schemas.get("public")!.tables.get(name)!));
  readonly #expiredAt: number[] = [0];
  readonly #rights: Rights;
  readonly #delivery: Delivery<Own, Change>;
  readonly #feed: ChangeFeed;
  readonly #listeners: ((catalog: Catalog) => void)[] = [];
  #catalog = catalogs.before;

  constructor() {
    const run = this;
    this.#rights = new Rights({
      database: this.answers,
      catalog: {
        get current() {
          return run.#catalog;
        },
        onChange: (listener) => void this.#listeners.push(listener),
        refreshed: async () => {},
        refreshIfStale: async () => false,
      },
      timeout: TIMEOUT,
      hasPreRequest: false,
      patience: PATIENCE,
      filterLimits: { restMaxConditions: 1, restMaxPatterns: 1, restMaxPatternLength: 100 },
      onInternalError: (error) => this.faults.push(error),
    });
    this.#feed = new ChangeFeed({ source: this.#commits, maxBytes: 10_000_000, openTimeout: 60_000 });
    this.#delivery = new Delivery(this.#feed, this.#rights, (change) => change);
  }

  open = () => this.#delivery.open();

  get commits(): number {
    return this.#commits.count;
  }

  join(kinds: readonly Kind[], pauses: boolean): void {
    const none = { watches: [], received: [], ended: null, hasLeft: false, delay: 0 };
    const client: Client = { kinds, pauses, since: this.commits, ...none };
    let isReady = true;
    const rest = async () => {
      await sleep(1);
      isReady = true;
    };
    const subscriber: Subscriber<Own, Change> = {
      receive: (seen, change) => {
        isReady = !pauses;
        this.#receive(client, change, seen);
      },
      fail() {},
      end: (error) => {
        client.ended = error;
        this.#delete(client);
      },
      untilReady: () => (isReady ? null : rest()),
    };
    for (const kind of kinds) {
      const filter = filters.get(kind) ?? null;
      client.watches.push({ kind, table: tableOf(kind), caller: ANONYMOUS, filter, subscriber });
    }
    this.subscribers.push(client);
    this.#delivery.start(client.watches);
  }

  leave(which: number): void {
    const subscriber = this.subscribers[which % (this.subscribers.length || 1)];
    if (!subscriber) return;
    subscriber.hasLeft = true;
    this.#delete(subscriber);
  }

  commit(): void {
    this.#expiredAt.push(this.answers.expired);
    this.#commits.commit();
  }

  revoke(): void {
    this.#catalog = catalogs.after;
    for (const listener of this.#listeners) listener(this.#catalog);
  }

  async close(): Promise<void> {
    this.#delivery.close();
    this.#rights.close();
    await this.#feed.close();
  }

  #delete({ watches }: Client): void {
    for (const watch of watches) this.#delivery.delete(watch);
  }

  #receive(subscriber: Client, { new: row, table }: Change, seen: readonly VisibleChange<Own>[]): void {
    const id = Number(row![0]);
    if (subscriber.received.length > 0 && seen.some(({ watch }) => watch.kind === "unsendable"))
      throw new TypeError("a fault");
    subscriber.received.push(nameOf(id, table.name));
    subscriber.delay = Math.max(subscriber.delay, this.answers.expired - this.#expiredAt[id]!);
  }
}

const nameOf = (id: number, table: string) => (table === "revoked" ? `${id}r` : `${id}`);

/** Those whose watches see changes. */
const SEEING: readonly Kind[] = ["none", "revoked", "unsendable", "matches"];

/** What the subscriber gets until it ends. */
function expectedOf({ kinds, since }: Client, commits: number): string[] {
  const tables = new Set(kinds.filter((kind) => SEEING.includes(kind)).map((kind) => tableOf(kind).name));
  const ids = Array.from({ length: commits - since }, (_, i) => since + 1 + i);
  return ids.flatMap((id) => TABLES.filter((name) => tables.has(name)).map((name) => nameOf(id, name)));
}

const kinds = fc.oneof(
  fc.tuple(fc.constantFrom(...KINDS)),
  fc.array(fc.constantFrom(...SEEING, "raises" as const), { minLength: 2, maxLength: 4 }),
  fc.array(fc.constantFrom(...KINDS), { minLength: 2, maxLength: 4 }),
);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("join" as const), kinds, pauses: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("leave" as const), which: fc.nat(50) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("commit" as const), count: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("pass" as const), milliseconds: fc.constantFrom(0, 1, 5) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("revoke" as const) }) },
);

/** The questions about several watches, and about each alone, that may expire before one that needs no answer gets a change. */
const BOUND = 10;

test("each well-behaved subscriber gets each change once, in the order of commits over all its watches, whatever others do", () =>
  fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: "max" }), async (steps) => {
      const run = new Run();
      await run.open();
      let isRevoked = false;
      for (const each of steps) {
        if (each.do === "join") run.join(each.kinds, each.pauses);
        else if (each.do === "leave") run.leave(each.which);
        else if (each.do === "commit") for (let i = 0; i < each.count; i++) run.commit();
        else if (each.do === "pass") await sleep(each.milliseconds);
        else {
          run.revoke();
          isRevoked = true;
        }
      }
      run.commit();
      const expected = (each: Client) => expectedOf(each, run.commits);
      const endings = ({ kinds, since }: Client) =>
        kinds.filter(
          (kind) =>
            kind === "slow" ||
            kind === "fault" ||
            (kind === "revoked" && isRevoked) ||
            (kind === "unsendable" && run.commits > since + 1),
        );
      const present = run.subscribers.filter(({ hasLeft }) => !hasLeft);
      const [behaved, ending] = [
        present.filter((each) => endings(each).length === 0),
        present.filter((each) => endings(each).length > 0),
      ];
      for (const each of behaved) await expect.poll(() => each.received, POLL).toEqual(expected(each));
      for (const each of behaved) expect(each.ended).toBeNull();
      for (const { kinds, pauses, delay } of behaved)
        if (!pauses && kinds.every((kind) => kind === "none" || kind === "revoked"))
          expect(delay).toBeLessThanOrEqual(BOUND);
      for (const each of ending) await expect.poll(() => each.ended, POLL).not.toBeNull();
      for (const each of ending) {
        const isReason = (kind: Kind) => kind === "slow" || kind === "revoked";
        expect(endings(each).map(isReason)).toContain(each.ended instanceof WatchEnded);
      }
      for (const each of run.subscribers) expect(each.received).toEqual(expected(each).slice(0, each.received.length));
      for (const { kinds, received } of ending) {
        if (kinds.every((kind) => kind === "slow" || kind === "fault")) expect(received).toEqual([]);
        if (kinds.every((kind) => kind === "unsendable")) expect(received.length).toBe(1);
      }
      if (!run.subscribers.some(({ kinds }) => kinds.includes("fault") || kinds.includes("unsendable")))
        expect(run.faults).toEqual([]);
      await run.close();
    }),
    { numRuns: samples(40), endOnFailure: true },
  ));

test("a database that is slow for a moment does not get a query for each subscriber", async () => {
  const run = new Run();
  await run.open();
  for (let n = 0; n < 200; n++) run.join(["matches"], false);
  const received = () => run.subscribers.map((each) => each.received.length);
  run.commit();
  await expect.poll(received, POLL).toEqual(Array(200).fill(1));
  const before = run.answers.asked;
  run.answers.slow = 3;
  for (let n = 0; n < 4; n++) run.commit();
  await expect.poll(received, POLL).toEqual(Array(200).fill(5));
  expect(run.answers.slow).toBeLessThanOrEqual(0);
  expect(run.answers.asked - before).toBeLessThan(30);
  for (const each of run.subscribers) expect(each.received).toEqual(expectedOf(each, 5));
  expect(run.faults).toEqual([]);
  await run.close();
});
