import fc from "fast-check";
import pg from "pg";
import { parse } from "postgraphile/graphql";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { lambda } from "../../app/postgraphile.ts";
import { buildCatalog } from "../../db/catalog/build.ts";
import { parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import { CompiledQueries } from "../../graphql/compiled/compiled-queries.ts";
import type { Operation } from "../../graphql/execute/operation.ts";
import { buildSchema } from "../../graphql/schema/schema.ts";
import { useService } from "../support/http-client.ts";
import { samples } from "../support/samples.ts";
import { operations, type Request, type Vocabulary } from "./random-operations.ts";

const { service, sql, data } = useService({ RATE_LIMIT: "0" });

beforeAll(() =>
  sql(`
    create table public.makers (id bigint primary key, name text not null);
    create table public.samples (
      id bigint primary key, maker_id bigint not null references public.makers, note text, moment timestamptz,
      words text[], code varchar(9) not null
    );
    comment on constraint samples_maker_id_fkey on public.samples is E'@notNull';
    create index on public.samples (maker_id);
    create type public.part as (label text, size int, weight numeric);
    create domain public.sound as public.part check ((value).size > 0);
    create type public.outcome as (ok boolean, note text, sample public.samples, others public.samples[], part public.part, parts public.part[]);
    insert into public.makers values (1, 'Ada'), (2, E'"B"\\\\ é 😀'), (3, 'hidden');
    insert into public.samples values
      (1, 1, null, null, null, 'a'), (2, 1, '', '2026-01-01T00:00:00.123999Z', '{}', 'b'), (3, 2, 'x,"y")', '1999-12-31', '{a,"b,\\"c"}', 'c'),
      (4, 2, 'x', 'infinity', array['a', null], 'd'), (5, 2, 'x', '0044-03-15 BC', '{{a},{b}}', 'e'), (8, 3, 'x', null, null, 'h');
    alter table public.makers enable row level security;
    create policy "shown" on public.makers using (id <> 3);
    grant select on public.makers, public.samples to anon;

    create table public.crates (
      id bigint primary key, name text not null check (name <> 'bad'), size int default 7, maker_id bigint references public.makers,
      words text[], part public.part, added timestamptz default '2026-01-01', sound public.sound, sounds public.sound[]
    );
    create index on public.crates (maker_id);
    create function public.leave_out() returns trigger language plpgsql as
      $$ begin return case when new.name = 'left out' then null else new end; end $$;
    create trigger leave_out before insert or update on public.crates for each row execute function public.leave_out();
    alter table public.crates enable row level security;
    create policy "shown" on public.crates for select using (id <> 3);
    create policy "added" on public.crates for insert with check (size is distinct from 3);
    create policy "changed" on public.crates for update using (id <> 2);
    create table public.letters (id int primary key, text text, hidden text);
    grant select, insert, update on public.crates to anon;
    grant select (id, text), insert, update on public.letters to anon;
    create table public.mailbox (id int primary key, text text);
    grant insert on public.mailbox to anon;

    create function public.touch_sample(id bigint, note text default 'touched') returns public.samples
    language sql volatile security definer as
      $$ update public.samples as s set note = coalesce($2, s.note) where s.id = $1 returning s.* $$;
    create function public.strict_touch(id bigint) returns public.samples language sql volatile strict security definer as
      $$ update public.samples as s set code = s.code where s.id = $1 returning s.* $$;
    comment on function public.strict_touch(bigint) is '@notNull';
    create function public.change_part(part public.part, factor int default 2) returns public.part language plpgsql volatile as $$ begin
      if (part).size = 3 then return null; end if;
      return row((part).label, (part).size * factor, (part).weight)::public.part;
    end $$;
    create function public.judge(id bigint) returns public.outcome language plpgsql volatile as $$
    declare
      found public.samples[] := array(select s from public.samples as s where s.id <= judge.id order by s.id);
      parts public.part[] := array[row('p', 1, 1.50), null, row(null, null, null)]::public.part[];
    begin
      case id % 4
        when 0 then return null;
        when 1 then return row(true, '', found[1], found, parts[1], parts)::public.outcome;
        when 2 then return row(false, null, null, array[found[1], null], null, array[]::public.part[])::public.outcome;
        else return row(null, null, found[3], null, parts[3], array[[parts[1]], [parts[2]]])::public.outcome;
      end case;
    end $$;
    create function public.refuse(kind text) returns public.samples language plpgsql volatile as $$ begin
      case kind
        when 'business' then raise exception 'not today' using errcode = 'PT402', detail = 'd', hint = 'h';
        when 'plain' then raise exception 'plain';
        when 'value' then perform 1 / 0;
        else insert into public.samples (id, maker_id, code) values (1, 1, 'a');
      end case;
      return null;
    end $$;
    grant execute on all functions in schema public to anon;`),
);

const isCompiled = { now: true };
const { statementOf } = CompiledQueries.prototype;
const spy = vi.spyOn(CompiledQueries.prototype, "statementOf").mockImplementation(function (
  this: CompiledQueries,
  operation,
) {
  return isCompiled.now ? statementOf.call(this, operation) : null;
});
const lastStatement = () => spy.mock.results.at(-1)!.value;

async function answer(request: Request): Promise<string> {
  const response = await fetch(`${service().url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(request),
  });
  return (await response.text()).replaceAll(/,"requestId":"[^"]+"/g, "");
}

/** The same if Grafast executes the operation. */
async function answerOfGrafast(request: Request): Promise<string> {
  isCompiled.now = false;
  return answer(request).finally(() => {
    isCompiled.now = true;
  });
}

const waitsFor = async (query: string) => {
  const before = service().service.databaseWaits();
  const text = await answer({ query });
  return { answer: JSON.parse(text), waits: service().service.databaseWaits() - before };
};

const SHAPES: Vocabulary["shapes"] = {
  Sample: { leaves: "id note moment words code".split(" "), rows: { maker: "Maker" } },
  Maker: { leaves: ["id", "name"], lists: { samples: "Sample" } },
  Crate: { leaves: "id name size words added".split(" "), rows: { maker: "Maker", part: "Part" } },
  Part: { leaves: ["label", "size", "weight"] },
  Outcome: { leaves: ["ok", "note"], rows: { sample: "Sample", others: "Sample", part: "Part", parts: "Part" } },
};
const ids = fc.constantFrom("1", "2", "3", "4", "5", "8", "99", "abc");
const id = fc.tuple(fc.constant("ID!"), ids);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const crate = (required: readonly ("id" | "name")[]) =>
  fc.record(
    {
      id: fc.constantFrom("1", "4", "5", "3"),
      name: fc.constantFrom("a crate", "a crate", "bad", "left out", null),
      size: fc.constantFrom(null, 1, 3),
      makerId: fc.constantFrom(null, "1", "3", "99"),
      words: fc.constantFrom(null, [], ["a", 'b,"'], [null]),
      part: fc.constantFrom(null, {}, { label: '(",)', size: 1, weight: "1.50" }),
    },
    { requiredKeys: [...required] },
  );
const mutation = operations({
  kind: "mutation",
  shapes: SHAPES,
  roots: {
    rows: { touchSample: "Sample", strictTouch: "Sample", changePart: "Part", judge: "Outcome", refuse: "Sample" },
  },
  args: {
    touchSample: fc.record({
      id,
      note: maybe(fc.tuple(fc.constant("String"), fc.constantFrom(null, "", '"(,)', "é"))),
    }),
    strictTouch: fc.record({ id }),
    changePart: fc.record({
      part: fc.tuple(
        fc.constant("CreatePartInput!"),
        fc.record({ label: fc.constantFrom(null, "", '(",)'), size: fc.constantFrom(1, 3) }, { requiredKeys: [] }),
      ),
      factor: maybe(fc.tuple(fc.constant("Int"), fc.constantFrom(null, 0, 2_000_000_000))),
    }),
    judge: fc.record({ id }),
    createCrate: fc.record({ input: fc.tuple(fc.constant("CreateCrateInput!"), crate(["id", "name"])) }),
    updateCrate: fc.record({ id, input: fc.tuple(fc.constant("UpdateCrateInput!"), crate([])) }),
    refuse: fc.record({
      kind: fc.tuple(fc.constant("String!"), fc.constantFrom("business", "plain", "value", "unique")),
    }),
  },
});

const ROWS = "insert into public.crates (id, name, maker_id) values (1, 'one', 1), (2, 'two', null), (3, 'three', 2)";
const crates = () => sql("select * from public.crates order by id");
const restore = () => sql(`truncate public.crates; ${ROWS}`);

test("random mutations answer byte for byte as Grafast does, with their errors, and write the same", async () => {
  let count = 0;
  let statements = 0;
  await fc.assert(
    fc.asyncProperty(mutation, async (request) => {
      count++;
      await restore();
      const first = await answer(request);
      const statement = lastStatement();
      const written = await crates();
      await restore();
      expect(first).toBe(await answerOfGrafast(request));
      expect(written).toEqual(await crates());
      if (!statement) return;
      statements++;
      // A statement that Postgres refuses would be hidden by Grafast's answer.
      for (const { text } of [statement.call, statement]) await sql(`explain (generic_plan) ${text}`);
    }),
    { numRuns: samples(150), seed: 20_261_129 },
  );
  expect(statements).toBeGreaterThan(count / 4);
});

test("a domain over a row is read after a write", async () => {
  await restore();
  const part = "{ label size }";
  const input = `{ sound: { label: "a", size: 1 }, sounds: [{ label: "b", size: 2 }, null] }`;
  const request = { query: `mutation { updateCrate(id: 1, input: ${input}) { sound ${part} sounds ${part} } }` };
  const first = await answer(request);
  expect(JSON.parse(first).data.updateCrate).toEqual({
    sound: { label: "a", size: 1 },
    sounds: [{ label: "b", size: 2 }, null],
  });
  expect(await answerOfGrafast(request)).toBe(first);
});

test("mutations of the contract are one round trip, whatever rows of their result are read", async () => {
  await sql("grant select on public.articles, public.users, public.comments to anon");
  const { waits, answer: judged } = await waitsFor(
    "mutation { judge(id: 1) { ok sample { code maker { name } } others { maker { name } } parts { label } } }",
  );
  expect(judged).toEqual({
    data: {
      judge: {
        ok: true,
        sample: { code: "a", maker: { name: "Ada" } },
        others: [{ maker: { name: "Ada" } }],
        parts: [{ label: "p" }, null, { label: null }],
      },
    },
  });
  expect(waits).toBe(1);
  await data("{ me { id } }", { as: "ada" });
  const before = service().service.databaseWaits();
  const query = `mutation ($input: CreateArticleInput!) {
    createArticle(input: $input) { success message errors { field message code } article { id title status tags author { id name } } } }`;
  const variables = { input: { title: "In one trip", content: "x" } };
  const { createArticle } = await data(query, { as: "ada", variables });
  expect(createArticle).toMatchObject({
    success: true,
    errors: null,
    article: { status: "DRAFT", author: { id: "1" } },
  });
  expect(service().service.databaseWaits() - before).toBe(1);
});

test("the first statement of a mutation writes and keeps the record, the second one reads it", async () => {
  await answer({ query: "mutation { touchSample(id: 1) { code maker { name } } }" });
  const { call, text, values } = lastStatement();
  expect([call.values, values]).toEqual([["1", "touched"], []]);
  expect(`${call.text};\n${text}`.replaceAll(/![0-9a-f-]{36}/g, "<mark>")).toMatchInlineSnapshot(`
    "select pg_catalog.set_config('content_service.result', pg_catalog.concat(pg_catalog.concat((select concat(oid, '.', relnatts) from pg_catalog.pg_class where oid = '"public"."samples"'::regclass), ' '), "public"."touch_sample"($1::"int8",
    $2::"text")::text), true);
    select case when strpos(j::text, '<mark>') = 0 then j else (1 / (strpos(j::text, '<mark>') * 0))::text::json end
    from (select row_to_json("{}") from (
    select (select row_to_json("{}") from (
    select coalesce(__samples__."code", '<mark>') as "code",
      coalesce((select row_to_json("{}") from (
    select coalesce(__makers__."name", '<mark>') as "name"
      from "public"."makers" as __makers__
      where (__makers__."id" = __samples__."maker_id")) as "{}"), '"<mark>"'::json) as "maker"
      from (select nullif(case when starts_with(text, versions) then substr(text, length(versions) + 1) else 'changed' end, '')::"public"."samples" as record from (select current_setting('content_service.result') as text, pg_catalog.concat((select concat(oid, '.', relnatts) from pg_catalog.pg_class where oid = '"public"."samples"'::regclass), ' ') as versions offset 0) as kept offset 0) as result, unnest(case when result.record is distinct from null then array[result.record] end) as __samples__
      where (((not (__samples__."id" is null))::text)::boolean)) as "{}") as "touchSample") as "{}") as s(j)"
  `);
});

describe("what the function writes", () => {
  beforeAll(() =>
    sql(`
      create table public.kinds (id int primary key, name text not null);
      create table public.things (id int primary key, kind_id int not null references public.kinds deferrable initially deferred);
      create index on public.things (kind_id);
      create sequence public.calls;
      create function public.rename() returns trigger language plpgsql security definer as
        $$ begin update public.kinds set name = name || '!' where id = new.kind_id; return null; end $$;
      create constraint trigger rename after insert on public.things deferrable initially deferred for each row execute function public.rename();
      create function public.add_thing(id int, kind int, fails boolean default false) returns public.things
      language plpgsql volatile security definer as $$
      declare added public.things;
      begin
        perform nextval('public.calls');
        if kind < 100 then insert into public.kinds values (kind, 'kind') on conflict do nothing; end if;
        insert into public.things values (id, kind) returning * into added;
        if fails then raise exception 'not today'; end if;
        return added;
      end $$;
      grant select on public.things, public.kinds to anon;
      grant execute on function public.add_thing to anon;`),
  );
  const add = (args: string, selected = "id kind { id name }") => `mutation { addThing(${args}) { ${selected} } }`;
  const calls = async () => Number((await sql("select nextval('public.calls') as n"))[0]!.n);
  const things = async () => (await sql("select id from public.things order by id")).map((row: any) => row.id);

  test("is read with the rest of its result, and so is what deferred triggers write", async () => {
    await expect
      .poll(async () => (await waitsFor(add("id: 1, kind: 1"))).answer.data)
      .toEqual({
        addThing: { id: "1", kind: { id: "1", name: "kind!" } },
      });
    const { answer: second, waits } = await waitsFor(add("id: 2, kind: 1"));
    expect([second, waits]).toEqual([{ data: { addThing: { id: "2", kind: { id: "1", name: "kind!!" } } } }, 1]);
  });

  test("is undone if the function fails, which is called once", async () => {
    const before = await calls();
    const { answer: failed } = await waitsFor(add("id: 3, kind: 1, fails: true"));
    expect(failed).toMatchObject({ data: { addThing: null }, errors: [{ message: "not today", path: ["addThing"] }] });
    expect([await things(), await calls()]).toEqual([[1, 2], before + 2]);
  });

  test("is undone if a deferred constraint does not hold", async () => {
    const { answer: failed } = await waitsFor(add("id: 4, kind: 100"));
    expect(failed).toMatchObject({ data: { addThing: null }, errors: [{ path: ["addThing"] }] });
    expect(await things()).toEqual([1, 2]);
    expect(await answer({ query: add("id: 4, kind: 100") })).toBe(
      await answerOfGrafast({ query: add("id: 4, kind: 100") }),
    );
  });

  test("is written once if its result cannot be read", async () => {
    await sql("revoke select on public.kinds from anon");
    const { answer: partly } = await waitsFor(add("id: 5, kind: 1"));
    expect(partly.errors).toHaveLength(1);
    expect(await things()).toEqual([1, 2, 5]);
    await sql("grant select on public.kinds to anon");
  });
});

test("a record is not read with the columns that its table has meanwhile", async () => {
  await answer({ query: "mutation { touchSample(id: 1) { id code } }" });
  const { call, text } = lastStatement();
  const owner = new pg.Client({ connectionString: service().database.url });
  await owner.connect();
  await owner.query("begin");
  await owner.query(call.text, call.values);
  expect((await owner.query(text)).rows).toMatchObject([{ case: { touchSample: { id: "1", code: "a" } } }]);
  await owner.query("alter table public.samples drop column words, add column more text");
  await expect(owner.query(text)).rejects.toThrow('malformed record literal: "changed"');
  await owner.end();
});

test("a row is written and read in one round trip, unless its caller may not read all of it", async () => {
  await restore();
  const { waits, answer: created } = await waitsFor(
    'mutation { createCrate(input: { id: 8, name: "new", makerId: 2, part: { size: 3 } }) { size maker { name } part { size } } }',
  );
  expect(created.data.createCrate).toEqual({ size: 7, maker: { name: '"B"\\ é 😀' }, part: { size: 3 } });
  expect(waits).toBe(1);
  const { waits: again, answer: changed } = await waitsFor(
    "mutation { updateCrate(id: 8, input: { size: 4 }) { size maker { id } } }",
  );
  expect([changed.data.updateCrate, again]).toEqual([{ size: 4, maker: { id: "2" } }, 1]);

  for (const query of [
    'mutation { createLetter(input: { id: 1, text: "a" }) { text } }',
    'mutation { createMailbox(input: { id: 1, text: "a" }) { __typename } }',
  ]) {
    expect((await waitsFor(query)).answer.errors).toBeUndefined();
    expect(lastStatement()).toBeNull();
  }
});

test("a field whose plan a plugin replaces is left to the plan", async () => {
  const mask = (field: any, { scope }: any) =>
    scope.pgFieldAttribute && scope.fieldName === "name" ? { ...field, plan: () => lambda(null, () => "***") } : field;
  const own = (field: any, { scope }: any) =>
    scope.fieldName === "judge" ? { ...field, plan: (...all: unknown[]) => field.plan(...all) } : field;
  const plugin = (name: string, hook: (field: any, context: any) => any): GraphileConfig.Plugin => ({
    ...{ name, version: "1.0.0" },
    schema: { hooks: { GraphQLObjectType_fields_field: (field, _build, context) => hook(field, context) } },
  });
  const pool = new pg.Pool({ connectionString: service().database.url });
  const parsed = await parseCatalog(await readCatalog(pool, { schemas: ["public"], extraSearchPath: [] }));
  const catalog = await buildCatalog(parsed, 1);
  const { schema } = await buildSchema({
    ...{ catalog: pool, schemas: ["public"], maxPageSize: 100, plugins: [plugin("Mask", mask), plugin("Own", own)] },
    ...{ nodeIds: false, unindexedFilters: "all", anonymousRole: "anon" },
    relations: () => catalog,
    readRelations: async () => {},
  });
  await pool.end();
  const queries = new CompiledQueries(schema, () => {});
  const isLeft = (query: string) =>
    queries.statementOf({ document: parse(query), variables: {}, operationName: undefined } as Operation) === null;
  expect(isLeft("{ sample(id: 1) { code } }")).toBe(false);
  expect(isLeft("{ sample(id: 1) { code maker { name } } }")).toBe(true);
  expect(isLeft("mutation { touchSample(id: 1) { code } }")).toBe(false);
  expect(isLeft("mutation { touchSample(id: 1) { maker { name } } }")).toBe(true);
  expect(isLeft("mutation { judge(id: 1) { ok } }")).toBe(true);
});
