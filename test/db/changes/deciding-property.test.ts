import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import type { Catalog } from "../../../db/catalog/catalog.ts";
import type { Change, ChangedTable } from "../../../db/changes/change.ts";
import { Delivery } from "../../../db/changes/delivery.ts";
import { ChangeFeed } from "../../../db/changes/feed.ts";
import type { ChangeSink, ChangeSource } from "../../../db/changes/source.ts";
import { WatchEnded } from "../../../db/changes/watch-group.ts";
import { filterOf } from "../../../db/filters/condition.ts";
import type { CheckerOptions } from "../../../db/rights/checker.ts";
import type { PreparedFilter } from "../../../db/rights/filter.ts";
import { Rights } from "../../../db/rights/rights.ts";
import type { Watch } from "../../../db/rights/watches.ts";
import { elementsOf } from "../../../db/wire/array-text.ts";
import { createTestDatabase } from "../../support/database.ts";
import { callerOf, openRights } from "../../support/rights.ts";

/**
 * What Postgres does when it is asked about a filter. "none": no filter. "revoked": no filter, on a table whose grant is revoked.
 * "unsendable": no filter, and its second change cannot be sent.
 */
const KINDS = ["none", "revoked", "unsendable", "matches", "slow", "raises", "fault"] as const;
type Kind = (typeof KINDS)[number];

/** Milliseconds: how long questions wait, and how long a policy may take. */
const [PATIENCE, TIMEOUT] = [2, 4];
const ANONYMOUS = callerOf("anon");
const POLL = { interval: 1, timeout: 10_000 };

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

/** The same objects for all changes, as in a stream. */
const TABLES = new Map(
  ["things", "revoked"].map((name): [string, ChangedTable] => [
    name,
    {
      oid: 1,
      schema: "public",
      name,
      columns: [
        { name: "id", type: 23, typeName: "int4", shape: { kind: "number" } as any },
        { name: "title", type: 25, typeName: "text", shape: { kind: "string" } as any },
      ],
    },
  ]),
);

/** Answers as Postgres would; `expired` are the questions that it has cancelled. */
class Answers {
  expired = 0;

  readonly forRole: CheckerOptions["database"]["forRole"] = () =>
    ({
      run: async (identity: any, statements: readonly { readonly values: readonly string[] }[]) => {
        const [rows, terms] = statements.at(-1)!.values as [string, string];
        const lists = elementsOf(terms) as Kind[];
        const timeout = Number(identity.settings.fixed.find(([name]: [string]) => name === "statement_timeout")[1]);
        await null;
        if (lists.includes("fault")) throw new TypeError("a fault");
        if (lists.includes("slow")) {
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

/** A source whose commits are those of the test. */
class Commits implements ChangeSource {
  readonly health = { mode: "test", state: "streaming", lag: { bytes: 0, seconds: 0 } } as const;
  readonly mark = null;
  count = 0;
  #sink: ChangeSink | null = null;

  start(): void {}
  rest(): void {}
  async close(): Promise<void> {}

  open(sink: ChangeSink): void {
    this.#sink = sink;
    const start = { lsn: 0n, index: 1 };
    sink.begin({ start, live: start, stream: "test" });
  }

  commit(): void {
    const id = ++this.count;
    for (const table of TABLES.values()) {
      const position = { lsn: BigInt(id), index: table.name === "things" ? 1 : 2 };
      const image = [String(id), "a title"];
      const change: Change = { position, committedAt: 0, xid: id, table, operation: "INSERT", new: image, old: null };
      this.#sink!.receive(change, 100);
    }
  }
}

type Subscriber = Watch & {
  readonly kind: Kind;
  /** The commits before it began. */
  readonly since: number;
  readonly received: number[];
  ended: Error | null;
  hasLeft: boolean;
  /** How many questions expired, at most, from a commit until the subscriber got it. */
  delay: number;
};

class Run {
  readonly subscribers: Subscriber[] = [];
  readonly faults: unknown[] = [];
  readonly #answers = new Answers();
  readonly #commits = new Commits();
  readonly #expiredAt: number[] = [0];
  readonly #rights: Rights;
  readonly #delivery: Delivery<Subscriber>;
  readonly #feed: ChangeFeed;
  #onChange = () => {};
  #catalog = catalogs.before;

  constructor() {
    const run = this;
    this.#rights = new Rights({
      database: this.#answers,
      catalog: {
        get current() {
          return run.#catalog;
        },
        onChange: (listener: any) => {
          this.#onChange = () => listener(this.#catalog);
        },
      },
      timeout: TIMEOUT,
      patience: PATIENCE,
      searchPath: ["public"],
      appSettings: [],
      filterLimits: { conditions: 1, patterns: 1, patternLength: 100 },
      onInternalError: (error) => this.faults.push(error),
    });
    this.#feed = new ChangeFeed({ source: this.#commits, maxBytes: 10_000_000 });
    this.#delivery = new Delivery<Subscriber>(this.#feed, this.#rights, {
      deliver: (results, attempt) => {
        for (const { change, visible } of results)
          for (const { watch } of visible) attempt(watch, () => this.#receive(watch, Number(change.new![0])));
      },
      end: (watch, error) => {
        watch.ended = error;
      },
    });
  }

  open = () => this.#delivery.open();

  get commits(): number {
    return this.#commits.count;
  }

  join(kind: Kind): void {
    const filter = filters.get(kind) ?? null;
    const own = { kind, since: this.commits, received: [], ended: null, hasLeft: false, delay: 0 };
    const subscriber: Subscriber = { table: tableOf(kind), caller: ANONYMOUS, filter, ...own };
    this.subscribers.push(subscriber);
    this.#delivery.start([subscriber]);
  }

  leave(which: number): void {
    const subscriber = this.subscribers[which % (this.subscribers.length || 1)];
    if (!subscriber) return;
    subscriber.hasLeft = true;
    this.#delivery.delete(subscriber);
  }

  commit(): void {
    this.#expiredAt.push(this.#answers.expired);
    this.#commits.commit();
  }

  revoke(): void {
    this.#catalog = catalogs.after;
    this.#onChange();
  }

  async close(): Promise<void> {
    this.#delivery.close();
    this.#rights.close();
    await this.#feed.close();
  }

  #receive(subscriber: Subscriber, id: number): void {
    if (subscriber.kind === "unsendable" && subscriber.received.length > 0) throw new TypeError("a fault");
    subscriber.received.push(id);
    subscriber.delay = Math.max(subscriber.delay, this.#answers.expired - this.#expiredAt[id]!);
  }
}

const kind = fc.constantFrom(...KINDS);
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("join" as const), kind }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("leave" as const), which: fc.nat(50) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("commit" as const), count: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("pass" as const), milliseconds: fc.constantFrom(0, 1, 5) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("revoke" as const) }) },
);

/** The questions about several watches, and about each alone, that may expire before one that needs no answer gets a change. */
const BOUND = 10;

test("each well-behaved subscriber gets each change once and in order, whatever the filters of others do", () =>
  fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: "max" }), async (steps) => {
      const run = new Run();
      await run.open();
      let isRevoked = false;
      for (const each of steps) {
        if (each.do === "join") run.join(each.kind);
        else if (each.do === "leave") run.leave(each.which);
        else if (each.do === "commit") for (let i = 0; i < each.count; i++) run.commit();
        else if (each.do === "pass") await sleep(each.milliseconds);
        else {
          run.revoke();
          isRevoked = true;
        }
      }
      run.commit();
      const from = ({ since }: Subscriber) => Array.from({ length: run.commits - since }, (_, i) => since + 1 + i);
      const present = run.subscribers.filter(({ hasLeft }) => !hasLeft);
      const behaved = present.filter(
        ({ kind }) => kind === "none" || kind === "matches" || (kind === "revoked" && !isRevoked),
      );
      for (const each of behaved) await expect.poll(() => each.received, POLL).toEqual(from(each));
      for (const each of behaved) expect(each.ended).toBeNull();
      for (const each of behaved) if (each.kind === "none") expect(each.delay).toBeLessThanOrEqual(BOUND);
      for (const each of run.subscribers) expect(each.received).toEqual(from(each).slice(0, each.received.length));
      const ending = present.filter(
        ({ kind }) => kind === "slow" || kind === "fault" || (kind === "revoked" && isRevoked),
      );
      for (const each of ending) await expect.poll(() => each.ended, POLL).not.toBeNull();
      for (const { kind, ended, received } of ending) {
        expect(ended instanceof WatchEnded).toBe(kind !== "fault");
        if (kind !== "revoked") expect(received).toEqual([]);
      }
      for (const { kind, ended, received } of present)
        if (kind === "raises") expect([ended, received]).toEqual([null, []]);
      for (const each of present) {
        if (each.kind !== "unsendable") continue;
        await expect.poll(() => each.received, POLL).toEqual(from(each).slice(0, 1));
        if (from(each).length > 1) await expect.poll(() => each.ended?.message, POLL).toBe("internal error");
        else expect(each.ended).toBeNull();
      }
      if (!run.subscribers.some(({ kind }) => kind === "fault" || kind === "unsendable"))
        expect(run.faults).toEqual([]);
      await run.close();
    }),
    { numRuns: 40, endOnFailure: true },
  ));
