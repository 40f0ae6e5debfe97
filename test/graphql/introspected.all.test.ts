import { makeIntrospectionQuery, parseIntrospectionResults } from "postgraphile/graphile-build-pg/pg-introspection";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { parseIntrospection } from "../../graphql/schema/introspected.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const DATABASE = `
  create extension if not exists hstore;
  create extension if not exists pg_trgm;
  create table public.ports (id int primary key, name text unique, parent int references public.ports, words hstore);
  comment on column public.ports.name is E'@notNull\\n@name title\\nThe name.';
  create table public.berths (port int, number int, primary key (port, number));
  create index on public.berths ((number + 1), port);
  create table public.docks () inherits (public.ports);
  create type public.size as enum ('small', 'large');
  create type public.place as (port int, size public.size);
  comment on type public.place is '@name spot';
  create domain public.short as text check (length(value) < 9);
  create type public.spans as range (subtype = int);
  create role "a ""role""" ;
  create function public.find(in name text, inout port int default 3, variadic more int[] default '{}') language sql as 'select port';
  grant execute on function public.find to "a ""role""";
  revoke execute on function public.find from public;
  create function public.all_ports() returns table (id int, name text) language sql as 'select id, name from public.ports';
  comment on constraint ports_parent_fkey on public.ports is '@fieldName up'`;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.owner.query(DATABASE);
});
afterAll(async () => {
  for (const role of [`"a ""role"""`, `"b = ""role"""`])
    await database.owner.query(`drop owned by ${role}; drop role ${role}`);
  await database.drop();
});

const keyOf = (row: any) =>
  row._id ?? `${row.attrelid ?? row.indexrelid ?? row.rngtypid ?? row.inhrelid} ${row.attnum ?? ""}`;

/** What a method returns, with the keys of the objects. */
function plain(value: any): unknown {
  if (Array.isArray(value)) return value.length > 0 ? value.map(plain) : null;
  if (value?._type || value?.inhrelid) return `${value.typname ?? value.relname ?? ""} ${keyOf(value)}`;
  if (value?.type?._type) return { ...value, type: plain(value.type) };
  if (value?.execute !== undefined) return { role: value.role, execute: value.execute };
  if (value?.tags) return { tags: value.tags, description: plain(value.description) };
  // Neither describes an object that is not there.
  return value || null;
}

const textsOf = (introspection: string) =>
  new Map(Object.entries(JSON.parse(introspection)).map(([catalog, rows]) => [catalog, JSON.stringify(rows)]));

const methodsOf = (row: any) => Object.keys(row).filter((name) => /^get/.test(name) && row[name].length === 0);

test("the objects of a database answer as those of PostGraphile's parser", async () => {
  const { rows } = await database.owner.query(makeIntrospectionQuery());
  const theirs: any = parseIntrospectionResults(rows[0].introspection);
  const ours: any = await parseIntrospection(textsOf(rows[0].introspection), new Set());
  // It reports what a constraint does not have.
  using _ = vi.spyOn(console, "error").mockReturnValue();
  const compared: Record<string, number> = {};
  for (const [catalog, objects] of Object.entries<any>(theirs)) {
    if (!Array.isArray(objects)) continue;
    expect(ours[catalog].map(keyOf), catalog).toEqual(objects.map(keyOf));
    for (const [i, object] of objects.entries())
      for (const method of methodsOf(object)) {
        if (method === "getACL" && object._type !== "PgProc") continue;
        const [given, expected] = [ours[catalog][i], object].map((each) => plain(each[method]()));
        expect(given, `${catalog} ${keyOf(object)} ${method}`).toEqual(expected);
        compared[method] = (compared[method] ?? 0) + 1;
      }
  }
  expect(Object.keys(compared).length).toBeGreaterThan(25);

  const ports = theirs.classes.find(({ relname }: any) => relname === "ports");
  const find = theirs.procs.find(({ proname }: any) => proname === "find");
  for (const call of [
    (all: any) => all.getCurrentUser().rolname,
    (all: any) => all.getNamespace({ name: "public" }),
    (all: any) => all.getNamespace({ id: ports.relnamespace }).getClass({ name: "ports" }),
    (all: any) => all.getNamespace({ name: "public" }).getProcs({ name: "find" }),
    (all: any) => all.getNamespace({ name: "public" }).getConstraint({ name: "ports_pkey" }),
    (all: any) => all.getClass({ id: ports._id }).getAttribute({ name: "parent" }),
    (all: any) => all.getClass({ id: ports._id }).getAttribute({ number: 2 }),
    (all: any) => all.getProc({ id: find._id }),
    (all: any) => all.getType({ id: ports.reltype }),
    (all: any) => all.getConstraint({ id: theirs.constraints[0]._id }),
  ])
    expect(plain(call(ours)), String(call)).toEqual(plain(call(theirs)));
});

test("what a plugin adds to an object stays there", async () => {
  const { rows } = await database.owner.query(makeIntrospectionQuery());
  const { classes } = await parseIntrospection(textsOf(rows[0].introspection), new Set());
  const view = classes.find(({ relkind }) => relkind === "c")!;
  view.getConstraints().push({ conname: "added" } as never);
  view.getTags().added = true;
  expect(view.getConstraints()).toEqual([{ conname: "added" }]);
  expect(view.getTagsAndDescription().tags).toMatchObject({ added: true });
});

test("a role may have a name that PostGraphile's parser refuses", async () => {
  await database.owner.query(`
    create role "b = ""role""";
    grant execute on function public.all_ports() to "b = ""role"""`);
  const { rows } = await database.owner.query(makeIntrospectionQuery());
  const { procs } = await parseIntrospection(textsOf(rows[0].introspection), new Set());
  const grants = procs.find(({ proname }) => proname === "all_ports")!.getACL();
  expect(grants.map(({ role, execute }) => [role, execute])).toContainEqual([`b = "role"`, true]);
});
