import pg from "pg";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { changesPool } from "../../../db/changes/changes-config.ts";
import { Publication, type PublicationManager } from "../../../db/changes/publication.ts";
import { failureOf, planReplicaIdentities, WHOLE } from "../../../db/changes/publication-plan.ts";
import { type Relation, tablesQuery } from "../../../db/changes/publication-state.ts";
import { NO_REQUEST } from "../../../db/transaction/identity.ts";
import { rowOf, startFeed, subscribe } from "../../support/changes.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { openRights } from "../../support/rights.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  await database.owner.query(`create role ${database.name}_login; grant anon, authenticated to ${database.name}_login`);
  return () => database.drop();
});

const dba = async (sql: string, ...values: unknown[]) => (await database.owner.query(sql, values)).rows;

type Options = { readonly manager?: PublicationManager; readonly name?: string };

/** The publication of a service on the database, and its warnings. */
function createPublication({ manager = "service", name = "content_changes" }: Options = {}) {
  const warnings: string[] = [];
  const pool = changesPool({ url: database.url, manager }, () => {});
  onTestFinished(() => pool.end());
  const publication = new Publication({
    pool,
    name,
    manager,
    schemas: ["public"],
    logins: [`${database.name}_login`],
    onError: () => {},
    onChange: () => {},
    onWarning: (warning) => warnings.push(warning),
  });
  onTestFinished(() => publication.close());
  const lostChanges = (table: string, ...read: string[]) =>
    publication.lostChanges({ schema: "public", name: table }, new Set(read));
  const reasonAgainst = async (table: string) => (await lostChanges(table)).all;
  return { pool, publication, warnings, lostChanges, reasonAgainst };
}

/** What the publication has of a table: null, or what is logged of its old rows. */
async function published(table: string, publication = "content_changes"): Promise<string | null> {
  const rows = await dba(
    `select c.relreplident as identity from pg_publication_tables as p
     join pg_class as c on c.oid = format('%I.%I', p.schemaname, p.tablename)::regclass
     where p.pubname = $1 and p.tablename = $2`,
    publication,
    table,
  );
  return rows[0]?.identity ?? null;
}

describe("the publication of the service", () => {
  test("has the tables that callers may read, with whole old rows, and no others", async () => {
    await dba(`create table readable (id int primary key); grant select on readable to anon;
      create table by_column (id int primary key, secret text); grant select (id) on by_column to authenticated;
      create table hidden (id int primary key); grant insert on hidden to anon;
      create view shown as select 1 as id; grant select on shown to anon`);
    const { publication, reasonAgainst } = createPublication();
    await publication.start();
    for (const table of ["articles", "comments", "users", "readable", "by_column"]) {
      expect([table, await published(table), await reasonAgainst(table)]).toEqual([table, "f", null]);
    }
    expect(await published("hidden")).toBeNull();
    for (const table of ["hidden", "shown", "missing"])
      expect(await reasonAgainst(table)).toBe(`"public"."${table}" is not a table that callers may read`);

    await dba("grant select on hidden to anon; revoke select on readable from anon");
    publication.soon();
    expect(await reasonAgainst("hidden")).toBeNull();
    expect(await published("readable")).toBeNull();
    await dba("drop table hidden");
    publication.soon();
    expect(await reasonAgainst("hidden")).toContain("is not a table");
  });

  test("has a table without those that inherit from it: callers may read the first, and the last has no key", async () => {
    await dba(`create table parents (id int primary key); create table elder () inherits (parents); create table younger () inherits (parents);
      grant select on parents, elder to anon; insert into younger values (1)`);
    onTestFinished(async () => void (await dba("drop table parents cascade")));
    await dba("alter publication content_changes add table elder");
    const { publication, warnings } = createPublication();
    await publication.start();
    const all = () => Promise.all(["elder", "parents", "younger"].map((table) => published(table)));
    expect([await all(), warnings]).toEqual([["f", "f", null], []]);
    await dba("update parents set id = 2; delete from younger; revoke select on parents from anon");
    publication.soon();
    await expect.poll(all).toEqual(["f", null, null]);
  });

  test("leaves the tables of other schemas as they are, which another service may have published", async () => {
    await dba("create schema other; create table other.kept (id int primary key)");
    await dba("alter publication content_changes add table other.kept");
    await createPublication().publication.start();
    expect(await published("kept")).toBe("d");
  });

  /** Tables, what is logged of their old rows, and why they cannot be published. */
  const TABLES: readonly (readonly [about: string, columns: string, identity: string | null, reason?: string])[] = [
    ["a primary key", "id int primary key, value int", "f"],
    ["no primary key", "id int, value int", "f"],
    ["a deferrable primary key", "id int primary key deferrable, value int", "f"],
    [
      "a stored generated column",
      "id int primary key, value int, twice int generated always as (value * 2) stored",
      "f",
    ],
    [
      "a virtual generated column",
      "id int primary key, value int, twice int generated always as (value * 2) virtual",
      "d",
    ],
    [
      "a virtual generated column and no primary key",
      "id int, value int, twice int generated always as (value * 2) virtual",
      null,
      "has a virtual generated column and no primary key, so its updates and deletes fail while it is published: add a primary key",
    ],
    [
      "a virtual generated column and a deferrable primary key",
      "id int primary key deferrable, value int, twice int generated always as (value * 2) virtual",
      null,
      "no primary key",
    ],
  ];

  test.each(TABLES)("never makes the writes of a table with %s fail", async (_about, columns, identity, reason) => {
    await dba(`create table written (${columns}); grant select on written to anon`);
    onTestFinished(async () => void (await dba("drop table written")));
    const { publication, warnings, reasonAgainst } = createPublication();
    await publication.start();
    expect(await published("written")).toBe(identity);
    expect(await reasonAgainst("written")).toEqual(reason ? expect.stringContaining(reason) : null);
    expect(warnings).toEqual(
      reason ? [expect.stringContaining("subscribers receive no changes of public.written")] : [],
    );
    await dba("insert into written (id, value) values (1, 1); update written set value = 2; delete from written");
  });

  test.each([
    ["unlogged", "create unlogged table refused (id int primary key)", "alter table public.refused set logged"],
    [
      "published without its old rows",
      "create table refused (id int primary key); alter table refused replica identity nothing",
      "alter table public.refused replica identity default",
    ],
  ])("refuses a table that is %s, and says what to do", async (_about, create, advice) => {
    await dba(`${create}; grant select on refused to anon`);
    onTestFinished(async () => void (await dba("drop table refused")));
    const { publication, reasonAgainst } = createPublication();
    await publication.start();
    expect(await reasonAgainst("refused")).toContain(advice);
    expect(publication.health.refused).toEqual({ '"public"."refused"': expect.stringContaining(advice) });
    await dba(advice);
    publication.soon();
    expect(await reasonAgainst("refused")).toBeNull();
    expect(publication.health).toEqual({ name: "content_changes", tables: expect.any(Number) });
  });

  test("keeps the index that a DBA has chosen as replica identity", async () => {
    await dba(`create table chosen (id int not null, value text); create unique index chosen_key on chosen (id);
      alter table chosen replica identity using index chosen_key; grant select on chosen to anon`);
    const { publication, reasonAgainst } = createPublication();
    await publication.start();
    expect([await published("chosen"), await reasonAgainst("chosen")]).toEqual(["i", null]);
    await dba("drop index chosen_key");
    publication.soon();
    expect([await reasonAgainst("chosen"), await published("chosen")]).toEqual([null, "f"]);
  });

  test("adds a table that is locked when it is free again", async () => {
    await dba("create table locked (id int primary key); grant select on locked to anon");
    const reader = new pg.Client({ connectionString: database.url });
    await reader.connect();
    onTestFinished(() => reader.end());
    await reader.query("begin; select from locked");
    const { publication, warnings } = createPublication();
    await publication.start();
    expect(warnings).toEqual([expect.stringContaining("another transaction has locked it: the service tries again")]);
    expect(await published("locked")).toBeNull();
    await reader.query("commit");
    await expect.poll(() => published("locked")).toBe("f");
  });

  test("has a partitioned table as one table, whose partitions keep their writes", async () => {
    await dba(`create table measured (id int, at int, value int) partition by range (at);
      create table measured_1 partition of measured for values from (0) to (10);
      create table measured_2 (value int, id int, at int);
      alter table measured attach partition measured_2 for values from (10) to (20);
      grant select on measured to anon`);
    const { publication, reasonAgainst } = createPublication();
    await publication.start();
    expect(await reasonAgainst("measured")).toBeNull();
    // Its identity is logged from the first statement on.
    await dba("create table measured_3 partition of measured for values from (20) to (30)");
    const feed = await startFeed(database, "logical");
    const changes = await subscribe(feed, { table: "measured" });
    await dba("insert into measured values (1, 1, 10), (2, 11, 20), (3, 21, 30)");
    await dba("update measured set value = value + 1");
    await dba("delete from measured");
    const taken = await changes.take(9);
    expect(taken.map((change) => [change.operation, rowOf(change)])).toEqual([
      ["INSERT", { id: "1", at: "1", value: "10" }],
      ["INSERT", { id: "2", at: "11", value: "20" }],
      ["INSERT", { id: "3", at: "21", value: "30" }],
      ["UPDATE", { id: "1", at: "1", value: "11" }],
      ["UPDATE", { id: "2", at: "11", value: "21" }],
      ["UPDATE", { id: "3", at: "21", value: "31" }],
      ["DELETE", { id: "1", at: "1", value: "11" }],
      ["DELETE", { id: "2", at: "11", value: "21" }],
      ["DELETE", { id: "3", at: "21", value: "31" }],
    ]);
  });
});

describe("DDL on a published table does not make its writes fail, not even in its own transaction:", () => {
  test.each([
    ["a virtual generated column", "add twice int generated always as (value * 2) virtual", "d"],
    ["a stored generated column", "add twice int generated always as (value * 2) stored", "f"],
    ["the loss of the primary key", "drop constraint altered_pkey", "f"],
    [
      "the loss of the primary key together with a virtual generated column",
      "drop constraint altered_pkey, add twice int generated always as (value * 2) virtual",
      null,
    ],
  ])("%s", async (_about, change, identity) => {
    await dba("create table altered (id int primary key, value int); grant select on altered to anon");
    onTestFinished(async () => void (await dba("drop table altered")));
    await createPublication().publication.start();
    expect(await published("altered")).toBe("f");
    const writes = "insert into altered (id, value) values (1, 1); update altered set value = 2; delete from altered";
    await dba(`begin; alter table altered ${change}; ${writes}; commit`);
    await dba(writes);
    expect(await published("altered")).toBe(identity);
  });

  test("the loss of the primary key of a table with a virtual generated column", async () => {
    await dba(`create table altered (id int primary key, value int, twice int generated always as (value * 2) virtual);
      grant select on altered to anon`);
    onTestFinished(async () => void (await dba("drop table altered")));
    await createPublication().publication.start();
    expect(await published("altered")).toBe("d");
    const warned: string[] = [];
    database.owner.on("notice", ({ message }) => warned.push(message!));
    await dba("alter table altered drop constraint altered_pkey");
    await dba("insert into altered (id, value) values (1, 1); update altered set value = 2; delete from altered");
    expect(await published("altered")).toBeNull();
    expect(warned).toEqual(["subscribers no longer receive the changes of public.altered"]);
  });

  test("by a role that owns only the table", async () => {
    const role = `${database.name}_dba`;
    await dba(`create role ${role}; grant usage, create on schema public to ${role}; set role ${role}`);
    onTestFinished(async () => void (await dba(`reset role; drop owned by ${role}; drop role ${role}`)));
    await dba("create table altered (id int primary key, value int); grant select on altered to anon; reset role");
    await createPublication().publication.start();
    expect(await published("altered")).toBe("f");
    await dba(`set role ${role}`);
    await dba("alter table altered add twice int generated always as (value * 2) virtual");
    await dba("insert into altered (id, value) values (1, 1); update altered set value = 2; delete from altered");
  });
});

describe("a publication in a database that is not migrated", () => {
  test("gets the tables that can be published as they are, and no table is altered", async () => {
    await dba(`create publication own_changes with (publish_via_partition_root);
      create table with_key (id int primary key); grant select on with_key to anon;
      create table without_key (id int); grant select on without_key to anon`);
    const { publication, reasonAgainst } = createPublication({ manager: "login", name: "own_changes" });
    expect(publication.health).toEqual({ name: "own_changes", tables: null });
    await publication.start();
    expect(publication.health.tables).toBeGreaterThan(0);
    expect(await published("with_key", "own_changes")).toBe("d");
    expect(await reasonAgainst("without_key")).toContain("alter table public.without_key replica identity full");
    await dba("insert into without_key values (1); update without_key set id = 2; delete from without_key");
  });

  test("of a DBA is used as it is", async () => {
    await dba("create publication their_changes for table articles");
    const { publication, reasonAgainst } = createPublication({ manager: "dba", name: "their_changes" });
    await publication.start();
    expect(await reasonAgainst("articles")).toBeNull();
    expect(await reasonAgainst("comments")).toContain("alter publication their_changes add table public.comments");
    expect(await published("comments", "their_changes")).toBeNull();
  });
});

describe("for clients that subscribe", () => {
  /** A publication whose table loses deletions, on a server that needs a second for each statement. */
  async function slowPublication(manager: PublicationManager) {
    await dba(`create table slow (id int primary key, owner int); grant select on slow to anon;
      create publication slow_changes for table slow`);
    onTestFinished(async () => void (await dba("drop table slow; drop publication slow_changes")));
    const { publication, pool, lostChanges } = createPublication({ manager, name: "slow_changes" });
    let now = Date.now();
    const clock = vi.spyOn(Date, "now").mockImplementation(() => now);
    onTestFinished(() => clock.mockRestore());
    const query = pool.query.bind(pool) as (...statement: unknown[]) => Promise<unknown>;
    let reads = 0;
    pool.query = (async (...statement: unknown[]) => {
      if (statement[0] === tablesQuery) reads++;
      now += 1000;
      return query(...statement);
    }) as never;
    await publication.start();
    reads = 0;
    return {
      losses: async (count: number) => {
        now += 5000;
        return Promise.all(Array.from({ length: count }, () => lostChanges("slow", "owner")));
      },
      reads: () => reads,
    };
  }

  test.each(["dba", "login"] as const)(
    "the tables are read once, also for several at the same time, where the publication belongs to a %s",
    async (manager) => {
      const { losses, reads } = await slowPublication(manager);
      const lost = { all: null, deletes: expect.stringContaining("alter table public.slow replica identity full") };
      expect(await losses(1)).toEqual([lost]);
      expect(reads()).toBe(1);
      expect(await losses(3)).toEqual([lost, lost, lost]);
      expect(reads()).toBe(2);
    },
  );

  test("they are read as they were after the client subscribed, although an earlier read still runs", async () => {
    const { losses } = await slowPublication("dba");
    const earlier = losses(1);
    await dba("alter table slow replica identity full");
    expect([await losses(1), (await earlier).length]).toEqual([[{ all: null, deletes: null }], 1]);
  });
});

test("the connections for changes and for the catalog do not compile statements, those of callers as the login says", async () => {
  await dba(`alter role current_user in database ${database.name} set jit = on`);
  onTestFinished(async () => void (await dba(`alter role current_user in database ${database.name} reset jit`)));
  const { pool } = createPublication();
  const opened = await openRights(database);
  onTestFinished(opened.close);
  const show = "select current_setting('jit') as jit";
  const [changes, catalog] = await Promise.all([pool, opened.database.catalog].map((each) => each.query(show)));
  const caller = { role: "anon", claims: {}, expiresAt: null, refused: null };
  const identity = { caller, request: NO_REQUEST, settings: { fixed: [], given: [] } };
  const [ofCaller] = await opened.database.forRole("anon").run(identity, [{ text: show, values: [] }]);
  expect([changes!.rows, catalog!.rows, String(ofCaller!.rows[0]![0])]).toEqual([
    [{ jit: "off" }],
    [{ jit: "off" }],
    "on",
  ]);
});

const RELATION: Relation = {
  oid: 1,
  name: "public.t",
  identity: "d",
  hasKey: true,
  hasIdentityIndex: false,
  hasVirtualColumn: false,
  hasStoredColumn: false,
  oldColumns: ["id"],
  isLogged: true,
};

test.each<[about: string, relation: Partial<Relation>, withAlter: string | object[], without: string | null]>([
  ["a primary key", {}, [{ oid: 1, name: "public.t", identity: "f" }], null],
  ["whole old rows", { identity: "f" }, [], null],
  ["whole old rows and a generated column", { identity: "f", hasStoredColumn: true }, [], null],
  ["no key", { hasKey: false }, [{ oid: 1, name: "public.t", identity: "f" }], "replica identity full"],
  ["a virtual column", { hasVirtualColumn: true }, [], null],
  [
    "a virtual column and whole old rows",
    { hasVirtualColumn: true, identity: "f" },
    [{ oid: 1, name: "public.t", identity: "d" }],
    "replica identity default",
  ],
  ["an index", { identity: "i", hasIdentityIndex: true }, [], null],
])("the identity of a table with %s is chosen", (_about, relation, withAlter, without) => {
  const table = { name: "public.t", isKeylessParent: false, relations: [{ ...RELATION, ...relation }] };
  expect(planReplicaIdentities(table)).toEqual(withAlter);
  expect(failureOf(table, WHOLE)).toEqual(without && expect.stringContaining(without));
});
