import fc from "fast-check";
import { beforeAll, expect, test, vi } from "vitest";
import type { Caller } from "../../../../db/caller.ts";
import type { Change } from "../../../../db/changes/change.ts";
import type { ChangeReader } from "../../../../db/changes/reader.ts";
import { filterOf } from "../../../../db/filters/condition.ts";
import type { IsKeyword, Operator } from "../../../../db/filters/operators.ts";
import type { FilterRequest } from "../../../../db/rights/filter.ts";
import { Watches } from "../../../../db/rights/subscriber-watches.ts";
import type { ChangeVisibility, VisibleChange, Watch } from "../../../../db/rights/watch.ts";
import { claimsText } from "../../../../db/transaction/identity.ts";
import { startFeed } from "../../../support/changes.ts";
import { createTestDatabase, type TestDatabase } from "../../../support/database.ts";
import { CLAIMS, COLUMNS, conditionOfPolicy, functionOf, OBJECTS, rowOfTable } from "../../../support/policies.ts";
import { callerOf, startRights } from "../../../support/rights.ts";

const ROLES = ["user", "boss", "owner", "bypass", "stranger"] as const;

let database: TestDatabase;

const dba = async (sql: string, ...values: unknown[]) => (await database.owner.query(sql, values)).rows;
/** Roles belong to the whole cluster, so those of this file begin with the name of its database. */
const role = (name: string) => (name === "public" ? name : `${database.name}_${name}`);
const named = (sql: string) => sql.replaceAll(/\$(user|boss|owner|bypass|stranger)\b/g, (_, name) => role(name));

beforeAll(async () => {
  database = await createTestDatabase();
  await dba(
    named(`
      create role $user; create role $boss in role $user; create role $owner in role $user;
      create role $bypass bypassrls in role $user; create role $stranger;
      grant usage, create on schema public to $owner;
      ${OBJECTS}`),
  );
  return async () => {
    const names = ROLES.map(role).join(", ");
    await dba(`drop owned by ${names} cascade; drop role ${names}`);
    await database.drop();
  };
});

const TABLES = Number(process.env.TABLES ?? 30);

const policyOfTable = fc.record({
  condition: conditionOfPolicy,
  kind: fc.constantFrom("permissive", "restrictive"),
  command: fc.constantFrom("select", "select", "all", "update"),
  role: fc.constantFrom("user", "user", "user", "boss", "public", "stranger"),
});
const sampleOfTable = fc.record({
  condition: conditionOfPolicy,
  policies: fc.array(policyOfTable, { maxLength: 2 }),
  rowSecurity: fc.constantFrom("enable", "enable", "enable", "enable", "force", "disable"),
  identity: fc.constantFrom("full", "full", "full", "default"),
  isPartitioned: fc.boolean(),
  grant: fc.constantFrom("select", "select", "select", "select (id, owner, name)", "insert"),
  rows: fc.array(fc.record({ inserted: rowOfTable, updated: rowOfTable }), { minLength: 2, maxLength: 3 }),
});
type Sample = typeof sampleOfTable extends fc.Arbitrary<infer T> ? T : never;

function writeTable(
  table: string,
  { condition, policies, rowSecurity, identity, isPartitioned, grant }: Sample,
): string {
  const first = { condition, kind: "permissive", command: "select", role: "user" };
  const written = [first, ...policies].map(
    (each, i) => `create policy p${i} on ${table} as ${each.kind} for ${each.command} to ${role(each.role)}
      using (${each.condition.replaceAll("$table", table)});`,
  );
  const partition = `create table ${table}_all partition of ${table} default; alter table ${table}_all replica identity ${identity};`;
  return `
    create table ${table} (${COLUMNS}) ${isPartitioned ? `partition by list (id); ${partition}` : ""};
    alter table ${table} replica identity ${identity}, owner to ${role("owner")},
      ${rowSecurity === "force" ? "force" : "no force"} row level security,
      ${rowSecurity === "disable" ? "disable" : "enable"} row level security;
    grant ${grant} on ${table} to ${role("user")};
    ${functionOf(table)}
    ${written.join("\n")}`;
}

const callers = (): Caller[] => [
  ...CLAIMS.map((claims) => callerOf(role("user"), claims)),
  callerOf(role("boss"), CLAIMS[1]),
  callerOf(role("owner"), CLAIMS[0]),
  callerOf(role("bypass"), CLAIMS[0]),
  callerOf(role("stranger"), CLAIMS[0]),
];

/** The ids that each caller reads from the table; none if the SELECT is refused. */
async function visibleTo(readers: readonly Caller[], table: string): Promise<ReadonlySet<string>[]> {
  const visible: ReadonlySet<string>[] = [];
  for (const caller of readers) {
    const claims = database.owner.escapeLiteral(claimsText(caller));
    const settings = `set_config('role', '${caller.role}', true), set_config('request.jwt.claims', ${claims}, true)`;
    const sent = database.owner.query(`begin; select ${settings}; select id::text from public.${table}; rollback`);
    visible.push(
      await sent.then(
        (results) => new Set((results as unknown as { rows: { id: string }[] }[])[2]!.rows.map(({ id }) => id)),
        async (error) => {
          await dba("rollback");
          if (error.code !== "42501") throw error;
          return new Set();
        },
      ),
    );
  }
  return visible;
}

function* writesOf(table: string, { rows }: Sample): Generator<[sql: string, ...values: unknown[]]> {
  for (const [i, { inserted, updated }] of rows.entries()) {
    const columns = Object.keys(inserted).join(", ");
    const parameters = Object.keys(inserted).map((_, n) => `$${n + 2}`);
    yield [`insert into ${table} (id, ${columns}) values ($1, ${parameters})`, i, ...Object.values(inserted)];
    yield [`update ${table} set (${columns}) = row (${parameters}) where id = $1`, i, ...Object.values(updated)];
    yield [`delete from ${table} where id = $1`, i];
  }
}

/** The changes from now on. */
async function readChanges(): Promise<ChangeReader> {
  const feed = await startFeed(database, "logical");
  // A slot is created when the transactions of other tests have ended.
  await vi.waitFor(() => feed.open(), { timeout: 120_000 });
  return feed.read();
}

async function next(reader: ChangeReader, table: string): Promise<Change> {
  for (;;) {
    const found = reader.take(1).find((change) => change.table.name === table);
    if (found) return found;
    await reader.wait();
  }
}

type Shown = Pick<VisibleChange<Watch>, "event" | "left" | "seesOld"> | undefined;

/** What a caller must see of a change whose row they could read before it, and can read after it. */
function expectedOf({ operation, old }: Change, could: boolean, can: boolean): Shown {
  if (operation === "INSERT") return can ? { event: "INSERT", left: null, seesOld: false } : undefined;
  if (operation === "DELETE") return could ? { event: "DELETE", left: null, seesOld: true } : undefined;
  if (can) return { event: "UPDATE", left: null, seesOld: could && old !== null };
  return could && old !== null ? { event: "DELETE", left: "rights", seesOld: false } : undefined;
}

/** Filters on the columns of the table, and the same as SQL. */
const filterOfTable = fc.letrec<{ any: FilterRequest }>((tie) => ({
  any: fc.oneof(
    { depthSize: "small" },
    {
      weight: 4,
      arbitrary: fc.oneof(
        compared("owner", ["eq", "neq", "lt", "gte", "isdistinct"], ["1", "2", "007"]),
        compared("status", ["eq", "lt", "isdistinct"], ["public", "draft"]),
        compared("pub", ["eq", "neq"], ["true", "f", "yes"]),
        compared(
          "name",
          ["eq", "neq", "lt", "like", "ilike", "match", "imatch", "isdistinct"],
          ["ada", "a%", "^A", ""],
        ),
        compared("code", ["eq", "like"], ["ab", "ab    ", "a_"]),
        compared("uid", ["eq"], ["00000000-0000-0000-0000-00000000000A", "{00000000000000000000000000000000}"]),
        compared("amount", ["eq", "lt", "gt"], ["1", "1.00", "2"]),
        compared("at", ["lt", "gte"], ["2020-01-01", "2100-01-01T00:00:00Z"]),
        compared("padded", ["eq", "neq"], ["ab", "x"]),
        compared("tags", ["eq", "neq"], ["{a}", "{}"]),
        fc.constantFrom(
          filterOf("owner", "in", '{"1","3"}'),
          filterOf("name", "in", '{"ada","a \\"b\\" \\\\ c"}'),
          filterOf("amount", "in", '{"1.0","7"}'),
          filterOf("status", "in", "{}"),
        ),
        tested("pub", ["null", "not_null", "true", "false", "unknown"]),
        tested("tags", ["null", "not_null"]),
        tested("amount", ["null"]),
      ),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("logic" as const),
        operator: fc.constantFrom("and" as const, "or" as const),
        isNegated: fc.boolean(),
        conditions: fc.array(tie("any"), { minLength: 1, maxLength: 3 }),
      }),
    },
  ),
})).any;

function compared(column: string, operators: readonly Operator[], values: readonly string[]) {
  const choice = { operator: fc.constantFrom(...operators), value: fc.constantFrom(null, ...values) };
  return fc.record({ ...choice, isNegated: fc.boolean() }).map(({ operator, value, isNegated }): FilterRequest => {
    const own = operator === "isdistinct" ? value : (value ?? values[0]!);
    return { ...filterOf(column, operator, own), isNegated };
  });
}

function tested(column: string, keywords: readonly IsKeyword[]) {
  const choice = { keyword: fc.constantFrom(...keywords), isNegated: fc.boolean() };
  return fc.record(choice).map((test): FilterRequest => ({ ...filterOf(column, "is", null), ...test }));
}

const SQL: Partial<Record<Operator, string>> = {
  ...{ eq: "=", neq: "<>", lt: "<", gt: ">", gte: ">=", isdistinct: "is distinct from" },
  ...{ like: "~~", ilike: "~~*", match: "~", imatch: "~*" },
};

function sqlOf(filter: FilterRequest): string {
  const not = filter.isNegated ? "not " : "";
  if (filter.kind === "logic")
    return `${not}(${filter.conditions.map((each) => `(${sqlOf(each)})`).join(` ${filter.operator} `)})`;
  const { field, operator, keyword, value } = filter;
  const literal = value === null ? "null" : database.owner.escapeLiteral(value);
  if (keyword !== null) return `${not}(${field} is ${keyword.replace("_", " ")})`;
  return operator === "in" ? `${not}(${field} = any (${literal}))` : `${not}(${field} ${SQL[operator]} ${literal})`;
}

test("a filter matches exactly the rows that the same condition finds in SQL", async () => {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));
  const filters = fc.sample(filterOfTable, { numRuns: 150, seed });
  const values = fc.sample(rowOfTable, { numRuns: 40, seed });
  await dba(`create table filtered (${COLUMNS}); alter publication content_changes add table filtered`);
  const { rights } = await startRights(database);
  const reader = await readChanges();
  const table = { schema: "public", name: "filtered" };
  const live = new Watches<Watch>(rights);
  const watches: Watch[] = [];
  for (const each of filters) {
    const filter = await rights.prepareFilter(each, table, "postgres");
    watches.push({ table, caller: callerOf("postgres"), filter, subscriber: {} });
    live.add(watches.at(-1)!);
  }
  for (const [i, row] of values.entries()) {
    const columns = Object.keys(row);
    const parameters = columns.map((_, n) => `$${n + 2}`);
    await dba(`insert into filtered (id, ${columns}) values ($1, ${parameters})`, i, ...Object.values(row));
  }
  const changes: Change[] = [];
  while (changes.length < values.length) changes.push(await next(reader, "filtered"));
  const { results } = await live.findVisible(changes);
  for (const [n, filter] of filters.entries()) {
    const found = results.filter(({ visible }) => visible.some(({ watch }) => watch === watches[n]));
    const expected = await dba(`select id::text from filtered where ${sqlOf(filter)} order by filtered.id`);
    const ids = found.map(({ change }) => change.new![0]);
    expect(ids, JSON.stringify({ seed, filter })).toEqual(expected.map(({ id }) => id));
  }
});

test("an event is visible exactly when a SELECT by that caller would have returned the row", async () => {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));
  const samples = fc.sample(sampleOfTable, { numRuns: TABLES, seed });
  await dba(samples.map((sample, i) => writeTable(`t${i}`, sample)).join("\n"));
  await dba(`alter publication content_changes add table ${samples.map((_, i) => `t${i}`).join(", ")};
    alter publication content_changes set (publish_via_partition_root = true)`);
  const { rights } = await startRights(database);
  const reader = await readChanges();
  let shown = 0;

  for (const [i, sample] of samples.entries()) {
    const name = `t${i}`;
    const live = new Watches<Watch>(rights);
    const watches = callers().map((caller) => ({
      table: { schema: "public", name },
      caller,
      filter: null,
      subscriber: {},
    }));
    for (const watch of watches) live.add(watch);
    const found: ChangeVisibility<Watch>[] = [];
    let before = await visibleTo(callers(), name);
    for (const [sql, ...values] of writesOf(name, sample)) {
      await dba(sql, ...values);
      const change = await next(reader, name);
      const after = await visibleTo(callers(), name);
      const { results } = await live.findVisible([change]);
      const [{ visible, failures }] = results as [(typeof results)[0]];
      expect(failures).toEqual([]);
      found.push(results[0]!);
      for (const [n, { caller }] of watches.entries()) {
        const seen = visible.find(({ watch }) => watch === watches[n]);
        const actual: Shown = seen && { event: seen.event, left: seen.left, seesOld: seen.seesOld };
        const id = (change.new ?? change.old)![0]!;
        const expected = expectedOf(change, before[n]!.has(id), after[n]!.has(id));
        // Without the whole old row, a change may be withheld, but never shown to others.
        const isWhole = change.old === null || !change.old.includes(undefined);
        const about = { seed, name, sample, change: { ...change, position: null }, caller };
        if (isWhole || actual) expect(actual, JSON.stringify(about)).toEqual(expected);
        if (actual) shown++;
      }
      before = after;
    }
    // All changes of the table in one batch.
    const again = await live.findVisible(found.map(({ change }) => change));
    const inOrder = ({ visible }: ChangeVisibility<Watch>) =>
      watches.map((watch) => visible.find((each) => each.watch === watch));
    expect(again.results.map(inOrder), JSON.stringify({ seed, name, sample })).toEqual(found.map(inOrder));
  }
  // Otherwise the policies show too little to test anything.
  expect(shown).toBeGreaterThan(10 * TABLES);
}, 60_000);
