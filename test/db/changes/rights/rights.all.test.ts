import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import type { Caller } from "../../../../db/caller.ts";
import type { Change, ChangedTable, Image } from "../../../../db/changes/change.ts";
import { filterOf, negated } from "../../../../db/filters/condition.ts";
import type { FilterRequest } from "../../../../db/rights/filter.ts";
import { Matcher } from "../../../../db/rights/matcher.ts";
import type { Rights } from "../../../../db/rights/rights.ts";
import { Watches } from "../../../../db/rights/subscriber-watches.ts";
import type { ChangeVisibility, Watch } from "../../../../db/rights/watch.ts";
import { createTestDatabase, type TestDatabase } from "../../../support/database.ts";
import { CLAIMS, COLUMNS, CONDITIONS, functionOf, OBJECTS } from "../../../support/policies.ts";
import { callerOf, openRights, startRights } from "../../../support/rights.ts";

let database: TestDatabase;
let user: string;
let opened: Awaited<ReturnType<typeof openRights>>;

const dba = async (sql: string) => (await database.owner.query(sql.replaceAll("$user", user))).rows;

/** A table with the columns of `notes`. */
const tableWith = (name: string, policy: string) => `
  create table ${name} (like notes); alter table ${name} enable row level security;
  grant select on ${name} to $user; create policy p on ${name} using (${policy});`;

/** Conditions of policies, and how they must be decided. */
const KINDS = Object.entries(CONDITIONS).flatMap(([kind, conditions]) =>
  conditions.map((text) => [kind, text] as const),
);

beforeAll(async () => {
  database = await createTestDatabase();
  user = `${database.name}_user`;
  const ways = KINDS.map(
    ([, text], i) => `create table way_${i} (${COLUMNS}); alter table way_${i} enable row level security;
      grant select on way_${i} to $user; ${functionOf(`way_${i}`)}
      create policy p on way_${i} using (${text.replaceAll("$table", `way_${i}`)});`,
  );
  await dba(`create role $user; ${OBJECTS}
    create table notes (id int primary key, owner bigint, title text, secret text, tags text[]);
    alter table notes enable row level security;
    grant select (id, owner, title) on notes to $user;
    create policy own on notes using (owner = auth.uid());
    create function refuse() returns boolean language plpgsql stable
    as $$ begin if auth.uid() = 2 then raise 'not for Bob'; end if; return true; end $$;
    create function wait() returns boolean language sql volatile
    as $$ select true from pg_sleep(case when auth.uid() = 2 then 60 else 0 end) $$;
    grant execute on function refuse, wait to $user;
    create table refused_1 (id int);
    create table refused_2 (id int); grant select on refused_2 to $user; alter table refused_2 enable row level security;
    ${tableWith("partial", "id > 0 and (owner is null or title is not null)")}
    ${tableWith("keyed", "id > 0 or owner is null")}
    ${tableWith("teamed", "exists (select from members as m where m.team = teamed.id and m.user_id = auth.uid())")}
    ${tableWith("raising", "owner = (auth.claims() ->> 'sub')::bigint")}
    ${tableWith("dividing", "10 / owner > 1")}
    ${tableWith("refusing", "refuse()")}
    ${tableWith("slow", "wait()")}
    ${ways.join("\n")}`);
  opened = await openRights(database);
  return async () => {
    await opened.close();
    await dba("drop owned by $user cascade; drop role $user");
    await database.drop();
  };
});

const STREAMED = ["id", "owner", "title", "secret"].map((name, i) => ({
  name,
  type: [23, 20, 25, 25][i]!,
  typeName: "",
  shape: { kind: "text" } as const,
}));
const tables = new Map<string, ChangedTable>();
/** As the catalog has it when it is first used. */
const tableOf = (name: string): ChangedTable => {
  const { oid, columns } = opened.catalog.current.schemas.get("public")!.tables.get(name)!;
  const streamed = STREAMED.map((column) => ({ ...column, number: columns.get(column.name)?.number }));
  const table = tables.get(name) ?? { oid, schema: "public", name, columns: streamed };
  tables.set(name, table);
  return table;
};

const changeOf = (name: string, operation: Change["operation"], old: Image | null, after: Image | null): Change => ({
  position: { lsn: 1n, index: 1 },
  committedAt: 0,
  xid: 1,
  table: tableOf(name),
  operation,
  new: after,
  old,
});
const inserted = (name: string, ...image: Image) => changeOf(name, "INSERT", null, image);
const updated = (name: string, old: Image, after: Image) => changeOf(name, "UPDATE", old, after);
const deleted = (name: string, ...old: Image) => changeOf(name, "DELETE", old, null);

const ada = () => callerOf(user, { sub: "1" });
const bob = () => callerOf(user, { sub: "2" });

/** Watches of `table` for the callers, and what they see of changes: `["0 INSERT", "1 DELETE rights"]`, by the index of the caller. */
class Watching {
  readonly live: Watches<Watch>;
  readonly watches: Watch[] = [];

  constructor(rights: Rights) {
    this.live = new Watches(rights);
  }

  add(name: string, caller: Caller, filter: Watch["filter"] = null): this {
    this.watches.push({ table: { schema: "public", name }, caller, filter, subscriber: {} });
    this.live.add(this.watches.at(-1)!);
    return this;
  }

  async see(...changes: Change[]): Promise<string[][]> {
    const { results } = await this.live.findVisible(changes);
    return results.map(({ visible, failures }) =>
      [
        ...visible.map(({ watch, event, left, seesOld }) =>
          [this.watches.indexOf(watch), event, left ?? "", seesOld ? "old" : ""]
            .filter((part) => part !== "")
            .join(" "),
        ),
        ...failures.map(({ watch, error }) => `${this.watches.indexOf(watch)} ${error.message}`),
      ].sort(),
    );
  }
}

describe("the events of a caller", () => {
  test("are those whose row their policies show: the new row of an insert or update, the old row of a delete", async () => {
    const { rights } = opened;
    const both = new Watching(rights).add("notes", ada()).add("notes", bob());
    expect(await both.see(inserted("notes", "1", "1", "a", "x"))).toEqual([["0 INSERT"]]);
    expect(await both.see(updated("notes", ["1", "1", "a", "x"], ["1", "1", "b", "x"]))).toEqual([["0 UPDATE old"]]);
    expect(await both.see(deleted("notes", "1", "1", "b", "x"))).toEqual([["0 DELETE old"]]);
    expect(await both.see(inserted("notes", "2", null, "a", "x"))).toEqual([[]]);
  });

  test("are a DELETE for an update that takes the row away from them, and an UPDATE without the old row for one that gives it", async () => {
    const { rights } = opened;
    const both = new Watching(rights).add("notes", ada()).add("notes", bob());
    const change = updated("notes", ["1", "1", "a", "x"], ["1", "2", "a", "x"]);
    expect(await both.see(change)).toEqual([["0 DELETE rights", "1 UPDATE"]]);
  });

  test("are withheld if the stream lacks a value that the policy reads", async () => {
    const both = new Watching(opened.rights).add("notes", ada()).add("partial", ada());
    const key = ["1", undefined, undefined, undefined] as const;
    expect(await both.see(deleted("notes", ...key), deleted("partial", ...key))).toEqual([[], []]);
    // This policy needs only the key.
    const other = new Watching(opened.rights).add("keyed", ada());
    expect(await other.see(deleted("keyed", ...key))).toEqual([["0 DELETE old"]]);
  });

  test("have the columns that their role may read", async () => {
    const { rights } = opened;
    const view = await rights.view({ schema: "public", name: "notes" }, user);
    expect("columns" in view && [...view.columns]).toEqual(["id", "owner", "title"]);
  });
});

describe("a role that sees nothing gets a reason:", () => {
  test.each([
    ["no grant", "refused_1", /may not SELECT from public.refused_1/],
    ["no policy", "refused_2", /row-level security is on for public.refused_2, and no policy lets .*_user read a row/],
    ["no table", "refused_3", /there is no table public.refused_3/],
  ])("%s", async (_what, name, reason) => {
    const view = await opened.rights.view({ schema: "public", name }, user);
    expect(view).toEqual({ refusal: expect.stringMatching(reason) });
  });
});

describe("policies", () => {
  test.each(KINDS.map(([kind, text], i) => [text, kind, i] as const))(
    "such as %s are decided by: %s",
    async (_text, kind, i) => {
      const caller = callerOf(user, CLAIMS[0]);
      const view = await opened.rights.view({ schema: "public", name: `way_${i}` }, user);
      const policy = "policy" in view ? view.policy : null;
      await policy?.prepare([caller], opened.rights.checker.inquiry("alone"));
      expect(policy?.decisionFor(caller)?.kind ?? "in process").toBe(kind);
    },
  );

  test("that are functions of the row and the claims take no query, however many callers there are", async () => {
    const { rights, database: pools } = opened;
    const many = new Watching(rights);
    for (let id = 1; id <= 500; id++) many.add("notes", callerOf(user, { sub: String(id) }));
    await many.see(inserted("notes", "1", "1", "a", "x"));
    const before = pools.waits;
    expect(await many.see(inserted("notes", "2", "77", "a", "x"))).toEqual([["76 INSERT"]]);
    expect(pools.waits).toBe(before);
  });

  test("that read other tables take one query for a batch and all callers", async () => {
    const { rights, database: pools } = opened;
    const many = new Watching(rights);
    for (let id = 1; id <= 500; id++) many.add("teamed", callerOf(user, { sub: String(id) }));
    await many.see(inserted("teamed", "1", null, "a", "x"));
    const before = pools.waits;
    const batch = [1, 2, 3].map((team) => inserted("teamed", String(team), null, "a", "x"));
    expect(await many.see(...batch)).toEqual([["0 INSERT", "1 INSERT"], ["1 INSERT"], ["2 INSERT"]]);
    expect(pools.waits).toBe(before + 1);
  });

  test("that read other tables are decided for each caller, with and without a filter, as long as they watch", async () => {
    const { rights } = opened;
    const on = { schema: "public", name: "teamed" };
    const titled = filterOf("title", "eq", "a");
    const filter = await rights.prepareFilter(titled, on, user);
    const many = new Watching(rights).add("teamed", bob()).add("teamed", bob(), filter);
    many.add("teamed", bob()).add("teamed", ada());
    const both = [inserted("teamed", "1", null, "a", "x"), inserted("teamed", "2", null, "b", "x")];
    expect(await many.see(...both)).toEqual([
      ["0 INSERT", "1 INSERT", "2 INSERT", "3 INSERT"],
      ["0 INSERT", "2 INSERT"],
    ]);
    const moved = updated("teamed", ["1", null, "a", "x"], ["2", null, "a", "x"]);
    expect(await many.see(moved)).toEqual([["0 UPDATE old", "1 UPDATE old", "2 UPDATE old", "3 DELETE rights"]]);
    many.live.delete(many.watches[0]!);
    many.live.delete(many.watches[3]!);
    expect(await many.see(...both)).toEqual([["1 INSERT", "2 INSERT"], ["2 INSERT"]]);
    many.live.delete(many.watches[2]!);
    expect(await many.see(...both)).toEqual([["1 INSERT"], []]);
    expect(await many.add("teamed", ada()).see(...both)).toEqual([["1 INSERT", "4 INSERT"], []]);
  });
});

describe("an error in a policy", () => {
  test("affects only the callers whose claims cause it", async () => {
    const { rights } = opened;
    const many = new Watching(rights).add("raising", callerOf(user, { sub: "x" }));
    for (let id = 1; id <= 9; id++) many.add("raising", callerOf(user, { sub: String(id) }));
    const error = 'invalid input syntax for type bigint: "x"';
    const changes = [inserted("raising", "1", "5", "a", "x"), deleted("raising", "2", "6", "a", "x")];
    expect(await many.see(...changes)).toEqual([
      [`0 ${error}`, "5 INSERT"],
      [`0 ${error}`, "6 DELETE old"],
    ]);
  });

  test("affects only the rows that cause it", async () => {
    const { rights } = opened;
    const both = new Watching(rights).add("dividing", ada());
    const changes = ["1", "0", "20"].map((owner) => inserted("dividing", "1", owner, "a", "x"));
    expect(await both.see(...changes)).toEqual([["0 INSERT"], ["0 division by zero"], []]);
  });

  test("is a raised exception, with its message", async () => {
    const { rights } = opened;
    const both = new Watching(rights).add("refusing", ada()).add("refusing", bob());
    expect(await both.see(inserted("refusing", "1", "1", "a", "x"))).toEqual([["0 INSERT", "1 not for Bob"]]);
  });

  test("is a timeout, and other tables are not affected", async () => {
    const { rights } = await startRights(database, { timeout: 5000 });
    const both = new Watching(rights).add("slow", ada()).add("slow", bob());
    const { results } = await both.live.findVisible([inserted("slow", "1", "1", "a", "x")]);
    expect(results[0]!.visible.map(({ watch }) => watch)).toEqual([both.watches[0]]);
    expect(results[0]!.failures).toMatchObject([{ watch: both.watches[1], error: { isTimeout: true } }]);
  });
});

describe("a filter", () => {
  const on = { schema: "public", name: "notes" };
  const titled = (value: string): FilterRequest => filterOf("title", "eq", value);

  test("is fulfilled by the new row of an insert or update, and the old row of a delete", async () => {
    const { rights } = opened;
    const filter = await rights.prepareFilter(titled("a"), on, user);
    const watching = new Watching(rights).add("notes", ada(), filter);
    const [a, b] = [
      ["1", "1", "a", "x"],
      ["1", "1", "b", "x"],
    ] as const;
    const changes = [inserted("notes", ...a), inserted("notes", ...b), updated("notes", b, a), deleted("notes", ...a)];
    expect(await watching.see(...changes)).toEqual([["0 INSERT"], [], ["0 UPDATE old"], ["0 DELETE old"]]);
  });

  test("that takes too long is an error, not a row that does not fulfil it", async () => {
    const { rights } = await startRights(database, { timeout: 50 });
    const slow = filterOf("title", "match", "^(a+)(a+)(a+)\\1\\2\\3b$");
    const quick = await opened.rights.prepareFilter({ ...slow, value: "^a" }, on, user);
    // The limits of patterns would refuse it.
    const filter = { ...quick, terms: [slow.value] };
    const watching = new Watching(rights).add("notes", ada(), filter);
    const [{ visible, failures }] = (
      await watching.live.findVisible([inserted("notes", "1", "1", `${"a".repeat(201)}b`, "x")])
    ).results as [ChangeVisibility<Watch>];
    expect([visible, failures]).toMatchObject([[], [{ watch: watching.watches[0], error: { isTimeout: true } }]]);
  });

  test("tells an update after which the row no longer fulfils it", async () => {
    const { rights } = opened;
    const filter = await rights.prepareFilter(titled("a"), on, user);
    const watching = new Watching(rights).add("notes", ada(), filter);
    expect(await watching.see(updated("notes", ["1", "1", "a", "x"], ["1", "1", "b", "x"]))).toEqual([
      ["0 DELETE filter"],
    ]);
  });

  test("leaves nothing behind when its last watch has left, whatever its shape was", async () => {
    const { rights, catalog } = opened;
    const notes = catalog.current.schemas.get("public")!.tables.get("notes")!;
    const matcher = new Matcher<Watch>(notes, user, rights.checker);
    const add = async (request: FilterRequest) => {
      const filter = await rights.prepareFilter(request, notes, user);
      const watch: Watch = { table: notes, caller: ada(), filter, subscriber: {} };
      matcher.add(watch, { condition: null, terms: [] });
      return watch;
    };
    const [stays, like, same] = [
      await add(filterOf("id", "gt", "0")),
      await add(filterOf("title", "like", "a%")),
      await add(filterOf("title", "like", "b%")),
    ];
    const seen = () => matcher.match([{ table: tableOf("notes"), image: ["1", "1", "a", "x"] }]);
    const askedAbout = () => [...seen().doubtful.values()].flatMap((watches) => [...watches.keys()]);
    expect(matcher.shapes).toBe(2);
    matcher.delete(like);
    expect(matcher.shapes).toBe(2);
    expect(askedAbout()).toEqual([same]);
    matcher.delete(same);
    expect(matcher.shapes).toBe(1);
    expect(askedAbout()).toEqual([]);
    const again = await add(filterOf("title", "like", "a%"));
    expect(askedAbout()).toEqual([again]);
    expect(seen().certain).toEqual([new Set([stays])]);
    for (const watch of [stays, again]) matcher.delete(watch);
    expect(matcher.shapes).toBe(0);
  });

  test("is not fulfilled by a column that the stream lacks", async () => {
    const { rights } = opened;
    const filter = await rights.prepareFilter(negated(titled("a")), on, "postgres");
    const watching = new Watching(rights).add("notes", callerOf("postgres"), filter);
    expect(await watching.see(deleted("notes", "1", undefined, undefined, undefined))).toEqual([[]]);
  });

  test.each<[FilterRequest, string | RegExp]>([
    [filterOf("missing", "eq", "1"), 'public.notes has no column "missing"'],
    [filterOf("id", "eq", "one"), 'invalid input syntax for type integer: "one"'],
    [filterOf("id", "eq", "99999999999"), /out of range for type integer/],
    [filterOf("owner", "in", "{1,x}"), 'invalid input syntax for type bigint: "x"'],
    [filterOf("title", "match", "("), /invalid regular expression/],
    [filterOf("id", "like", "1%"), /operator does not exist: integer ~~ text/],
    [filterOf("tags", "in", '{"{a}"}'), /operator does not exist: text\[\] = text/],
    [
      { ...filterOf("title", "is", null), keyword: "true" },
      "is.true requires a boolean column, and title has the type text",
    ],
  ])("%j is refused with a reason", async (request, reason) => {
    await expect((async () => opened.rights.prepareFilter(request, on, user))()).rejects.toThrow(reason);
  });
});

describe("after DDL", () => {
  const setup = async (name: string) => {
    await dba(tableWith(name, "owner = auth.uid()"));
    await opened.catalog.refreshed();
    const own = await startRights(database);
    const filter = await own.rights.prepareFilter(filterOf("title", "eq", "a"), { schema: "public", name }, user);
    const watching = new Watching(own.rights).add(name, ada()).add(name, bob(), filter);
    await watching.see(inserted(name, "1", "1", "a", "x"));
    return { ...own, watching };
  };

  test("the next change is checked by the new policies", async () => {
    const { catalog, watching } = await setup("altered");
    await dba("alter policy p on altered using (owner <> auth.uid())");
    await catalog.refreshIfStale();
    catalog.soon();
    await expect
      .poll(() => catalog.current.schemas.get("public")!.tables.get("altered")!.rowSecurity.policies[0]!.using)
      .toBe("(owner <> auth.uid())");
    expect(await watching.see(inserted("altered", "1", "1", "a", "x"))).toEqual([["1 INSERT"]]);
  });

  test.each([
    ["revoke select on $table from $user", /may not SELECT from/, [0, 1]],
    ["drop table $table", /there is no table/, [0, 1]],
    ["alter table $table alter title type varchar", /the column title of public.\w+ has changed/, [1]],
  ])("%s ends the watches that it affects, with a reason", async (ddl, reason, affected) => {
    const name = `ended_${affected.length}_${ddl.length}`;
    const { catalog, watching } = await setup(name);
    const before = catalog.current;
    await dba(ddl.replaceAll("$table", name));
    catalog.soon();
    await expect.poll(() => catalog.current).not.toBe(before);
    const { ended } = await watching.live.findVisible([]);
    expect(ended.map(({ watch }) => watching.watches.indexOf(watch))).toEqual(affected);
    for (const each of ended) expect(each.reason).toMatch(reason);
    expect(watching.live.size).toBe(2 - affected.length);
  });

  test("changes wait for policies that another transaction has locked", async () => {
    await dba(tableWith("locked", "owner = auth.uid()"));
    await opened.catalog.refreshed();
    const lock = await createLock("locked");
    const { rights } = await startRights(database);
    const watching = new Watching(rights).add("locked", ada());
    let isJudged = false;
    const finding = watching.see(inserted("locked", "1", "1", "a", "x")).finally(() => {
      isJudged = true;
    });
    expect(rights.viewOf({ schema: "public", name: "locked" }, user)).toBeUndefined();
    expect(isJudged).toBe(false);
    await lock.end();
    expect(await finding).toEqual([["0 INSERT"]]);
  });
});

/** Another session that has locked a table. */
async function createLock(table: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(`begin; lock table ${table}`);
  return client;
}
