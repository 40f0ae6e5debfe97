import fc from "fast-check";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { samples } from "../support/samples.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { SchemaTraffic } from "./schema-traffic.ts";

const FUNCTIONS = `
  create function public.current_thing() returns setof public.things language sql stable as 'select * from public.things where id = 1';
  create function public.things_shout(t public.things) returns text language sql stable as 'select upper(t.label)';`;
const GRANTS = `
  grant all on public.things, public.parts to anon, authenticated, service_role;
  grant execute on all functions in schema public to anon, authenticated, service_role;`;

const TABLES = `
  create type public.mood as enum ('new', 'done');
  create table public.things (
    id int primary key, n bigint not null default 0, label text not null, mood public.mood not null default 'new', extra int not null default 7
  );
  create table public.parts (id int primary key, thing_id int not null references public.things);
  create index on public.things (mood);
  insert into public.things (id, label) values (1, 'one');
  insert into public.parts values (1, 1);
  ${FUNCTIONS} ${GRANTS}`;

let service: TestService;
/** Who changes the schema. */
let dba: pg.Client;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(TABLES);
  service = await startTestService({ REALTIME: "on" }, database, undefined, undefined, {
    buildsGraphQL: true,
  });
  dba = new pg.Client(database.url);
  await dba.connect();
});
afterAll(async () => {
  await dba.end();
  await service.stop();
});

const columns = async (): Promise<string[]> =>
  (
    await dba.query(
      "select attname from pg_attribute where attrelid = 'public.things'::regclass and attnum > 0 and not attisdropped",
    )
  ).rows.map(({ attname }) => attname);

const sizeColumn = async () => ((await columns()).includes("extra") ? "extra" : "other");
let number = 0;

/** Each leaves the columns id, n, label and mood, the size in a column `extra` or `other`, and the functions. */
const CHANGES: Readonly<Record<string, () => Promise<string>>> = {
  "a column is added": async () => `alter table things add column more_${++number} int default 3`,
  "a column is dropped": async () => {
    const more = (await columns()).find((name) => name.startsWith("more_"));
    return more ? `alter table things drop column ${more}` : "select";
  },
  "a column is renamed": async () => {
    const from = await sizeColumn();
    return `alter table things rename column ${from} to ${from === "extra" ? "other" : "extra"}`;
  },
  "a column gets another type": async () => {
    const column = await sizeColumn();
    return `alter table things alter column ${column} drop default, alter column ${column} type text using ${column}::text, alter column ${column} set default '7'`;
  },
  "a column is replaced": async () => {
    const column = await sizeColumn();
    return `alter table things drop column ${column}, add column ${column} int not null default 7`;
  },
  "the type of a column that is read is changed": async () => `
    alter table things alter column label type varchar(20)`,
  "the type of a column that is read is changed back": async () => "alter table things alter column label type text",
  "an enum is recreated": async () => `
    drop table if exists things_old cascade;
    alter table things alter mood drop default;
    alter type mood rename to mood_old;
    create type mood as enum ('new', 'busy', 'done');
    alter table things alter mood type mood using mood::text::mood;
    alter table things alter mood set default 'new';
    drop type mood_old`,
  "an enum gets a label": async () => `alter type mood add value 'label ${++number}'`,
  "a table is recreated": async () => `
    lock table parts, things;
    create table things_new (like things including all);
    insert into things_new select * from things;
    drop function current_thing, things_shout;
    alter table parts drop constraint parts_thing_id_fkey;
    drop table things cascade;
    alter table things_new rename to things;
    alter table parts add constraint parts_thing_id_fkey foreign key (thing_id) references things;
    ${FUNCTIONS} ${GRANTS}`,
  "a table is renamed, and a copy gets its name": async () => `
    lock table parts, things;
    drop table if exists things_old cascade;
    drop function current_thing, things_shout;
    alter table parts drop constraint parts_thing_id_fkey;
    alter table things rename to things_old;
    create table things (like things_old including all);
    insert into things select * from things_old;
    alter table parts add constraint parts_thing_id_fkey foreign key (thing_id) references things;
    ${FUNCTIONS} ${GRANTS}`,
  "functions are recreated": async () => `drop function current_thing, things_shout; ${FUNCTIONS} ${GRANTS}`,
  "a function is replaced": async () => FUNCTIONS.replaceAll("create function", "create or replace function"),
  "a table is created": async () =>
    `create table more_${++number} (id int primary key, thing_id int references things)`,
  "a table is dropped": async () => {
    const found = await dba.query(
      "select tablename from pg_tables where schemaname = 'public' and tablename like 'more%'",
    );
    return found.rows[0] ? `drop table ${found.rows[0].tablename}` : "select";
  },
  "an index is created": async () => `create index on things (n)`,
  "a trigger is replaced": async () => `
    create or replace function keep() returns trigger language plpgsql as 'begin return new; end';
    create or replace trigger keep before update on things for each row execute function keep()`,
};

/** Runs a change in one transaction, again after a deadlock. */
async function run(statements: string): Promise<void> {
  for (;;) {
    try {
      return void (await dba.query(statements));
    } catch (error) {
      if ((error as pg.DatabaseError).code !== "40P01") throw error;
    }
  }
}

test("requests and subscribers of every interface go on while the schema changes", async () => {
  const names = Object.keys(CHANGES);
  const orders = fc.shuffledSubarray(names, { minLength: names.length });
  await fc.assert(
    fc.asyncProperty(orders, async (order) => {
      const traffic = new SchemaTraffic(service);
      try {
        await traffic.start();
        for (const name of order) await traffic.during(name, async () => run(await CHANGES[name]!()));
        await traffic.complete();
      } finally {
        await traffic.stop();
      }
      expect(traffic.faults).toEqual([]);
    }),
    { numRuns: samples(5), endOnFailure: true },
  );
}, 900_000);
