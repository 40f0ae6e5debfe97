import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";

const { data, errors, gql, sql } = useService();

beforeAll(async () => {
  await sql(`
    create table public.parts (
      id bigint generated always as identity primary key, code text not null unique, maker text not null, number integer not null,
      price numeric check (price > 0), owner_id bigint not null default auth.uid(), label text generated always as (maker || '-' || number) stored,
      due date, unique (maker, number)
    );
    comment on constraint parts_price_check on public.parts is 'price must be positive';
    create index on public.parts (price);
    create table public.bins (
      name text primary key, part_id bigint references public.parts deferrable initially deferred
    );
    create index on public.bins (part_id);
    create function public.parts_tag(part public.parts, prefix text default '#') returns text language sql stable return prefix || part.code;
    create function public.parts_others(part public.parts) returns setof public.parts language sql stable
      begin atomic select * from public.parts where maker = part.maker and code <> part.code order by code; end;
    grant execute on function public.parts_tag, public.parts_others to anon, authenticated;
    alter table public.parts enable row level security;
    create policy "read" on public.parts for select using (true);
    create policy "own" on public.parts to authenticated using (owner_id = (select auth.uid())) with check (owner_id = (select auth.uid()));
    grant select on public.parts, public.bins to anon, authenticated;
    grant insert (id, code, maker, number, price, label), update (code, price, label), delete on public.parts to authenticated;
    grant insert, update, delete on public.bins to authenticated;
  `);
});

beforeEach(async () => {
  await sql("delete from bins; delete from parts");
  await sql(`insert into parts (code, maker, number, price, owner_id)
    values ('a', 'X', 1, 1, 1), ('b', 'X', 2, 2, 1), ('c', 'Y', 1, 3, 1), ('d', 'Y', 2, 4, 2)`);
});

const as = "ada" as const;
const codes = async () => (await sql("select code from parts order by code")).map(({ code }) => code);
const RESULT = "success message count parts { code maker number price label } errors { index field message code }";
const run = async (field: string, variables: Record<string, unknown> = {}, declared = "") =>
  Object.values<any>(await data(`mutation ${declared} { ${field} { ${RESULT} } }`, { as, variables }))[0];

test("columns that the database assigns are not inputs", async () => {
  const { __type } = await data('{ __type(name: "CreatePartInput") { inputFields { name } } }');
  expect(__type.inputFields.map(({ name }: any) => name).toSorted()).toEqual(["code", "maker", "number", "price"]);
  const update = await data('{ __type(name: "UpdatePartInput") { inputFields { name } } }');
  expect(update.__type.inputFields.map(({ name }: any) => name).toSorted()).toEqual(["code", "price"]);
});

test("the rows have their computed columns, and stay in order", async () => {
  const input = [..."zyx"].map((code, number) => ({ code, maker: "Z", number }));
  const { result } = await data(
    `mutation ($input: [CreatePartInput!]!) {
      result: createParts(input: $input) { parts { code tag other: tag(prefix: "/") others { edges { node { tag } } } } }
    }`,
    { as, variables: { input } },
  );
  const others = (...codes: string[]) => ({ edges: codes.map((code) => ({ node: { tag: `#${code}` } })) });
  expect(result.parts).toEqual([
    { code: "z", tag: "#z", other: "/z", others: others("x", "y") },
    { code: "y", tag: "#y", other: "/y", others: others("x", "z") },
    { code: "x", tag: "#x", other: "/x", others: others("y", "z") },
  ]);
});

describe("createParts", () => {
  const create = (input: unknown) => run("createParts(input: $input)", { input }, "($input: [CreatePartInput!]!)");

  test("creates all rows in one transaction and returns them in order, with their relations", async () => {
    const input = [
      { code: "z", maker: 'Quote " and \\ backslash', number: 9, price: "1.50" },
      { code: "e, (f)", maker: "Z", number: 1 },
    ];
    expect(await create(input)).toEqual({
      success: true,
      message: "2 rows",
      count: 2,
      parts: [
        { ...input[0], label: 'Quote " and \\ backslash-9' },
        { ...input[1], price: null, label: "Z-1" },
      ],
      errors: null,
    });
    expect(await codes()).toEqual(["a", "b", "c", "d", "e, (f)", "z"]);
    const { createBins } = await data(
      'mutation { createBins(input: [{ name: "one" }, { name: "two" }]) { bins { name part { code } } } }',
      { as },
    );
    expect(createBins.bins).toEqual([
      { name: "one", part: null },
      { name: "two", part: null },
    ]);
  });

  test.each([
    [{ code: "f", maker: "Z", number: 2, price: "-1" }, "price", "price must be positive", "VALIDATION_ERROR"],
    [{ code: "a", maker: "Z", number: 2 }, "code", "code is already taken", "RESOURCE_CONFLICT"],
    [{ code: "f", maker: "X", number: 1 }, null, "maker, number are already taken", "RESOURCE_CONFLICT"],
    [{ code: "f", maker: "Z", number: 1 }, null, "maker, number are already taken", "RESOURCE_CONFLICT"],
  ])(
    "names the row and the field that the database rejects, and creates nothing: %j",
    async (bad, field, message, code) => {
      const rows = [{ code: "e", maker: "Z", number: 1 }, bad, { code: "g", maker: "Z", number: 3 }];
      expect(await create(rows)).toEqual({
        success: false,
        message,
        count: 0,
        parts: [],
        errors: [{ index: 1, field, message, code }],
      });
      expect(await codes()).toEqual(["a", "b", "c", "d"]);
    },
  );

  test("names every row and field that the database rejects", async () => {
    const rows = [
      { code: "e", maker: "Z", number: 1 },
      { code: "a", maker: "Z", number: 2, price: "-1" },
      { code: "f", maker: "X", number: 1 },
    ];
    const { errors: reported } = await create(rows);
    expect(reported.map(({ index, field, message }: any) => [index, field, message])).toEqual([
      [1, "code", "code is already taken"],
      [1, "price", "price must be positive"],
      [2, null, "maker, number are already taken"],
    ]);
    const [only] = (await create([{ code: "f", maker: "Z", number: 2, price: "-1" }])).errors;
    expect(only).toMatchObject({ index: 0, field: "price" });
  });

  test("reports a violation at the commit without a row", async () => {
    const { createBins } = await data(
      'mutation { createBins(input: [{ name: "one", partId: 1000000 }, { name: "two" }]) { success errors { index field code } } }',
      { as },
    );
    expect(createBins).toEqual({
      success: false,
      errors: [{ index: null, field: "partId", code: "RESOURCE_CONFLICT" }],
    });
  });

  test("of no rows does nothing, and of too many is VALIDATION_ERROR", async () => {
    expect(await create([])).toMatchObject({ success: true, count: 0, parts: [] });
    const many = Array.from({ length: 1001 }, (_, i) => ({ code: `n${i}`, maker: "N", number: i }));
    const mutation = "mutation ($input: [CreatePartInput!]!) { createParts(input: $input) { count } }";
    expect(await errors(mutation, { as, variables: { input: many } })).toEqual([
      "VALIDATION_ERROR: input must be from 0 to 1000",
    ]);
    const { createParts } = await data(mutation, { as, variables: { input: many.slice(1) } });
    expect(createParts.count).toBe(1000);
  });

  test("needs the permission", async () => {
    const mutation = 'mutation { createParts(input: [{ code: "e", maker: "Z", number: 1 }]) { count } }';
    expect(await errors(mutation)).toEqual(["AUTH_REQUIRED: login required"]);
  });
});

describe("upsertPart", () => {
  test("creates a row, or updates the one with the same unique key", async () => {
    const upsert = (code: string, price: string, onConflict: string) =>
      run(
        `upsertPart(input: { code: "${code}", maker: "X", number: 1, price: "${price}" }, onConflict: ${onConflict})`,
      );
    expect(await upsert("a2", "9", "MAKER_AND_NUMBER")).toMatchObject({
      success: true,
      count: 1,
      parts: [{ code: "a2", price: "9" }],
    });
    expect(await codes()).toEqual(["a2", "b", "c", "d"]);
    expect(await upsert("b", "1", "MAKER_AND_NUMBER")).toMatchObject({
      success: false,
      errors: [{ field: "code", code: "RESOURCE_CONFLICT" }],
    });
    expect(await run('upsertPart(input: { code: "n", maker: "N", number: 7 })')).toMatchObject({
      success: true,
      parts: [{ code: "n" }],
    });
  });

  test("returns the row even if there is nothing to update", async () => {
    const { upsertBin: created } = await data(
      'mutation { upsertBin(input: { name: "one" }) { count bins { name } } }',
      { as },
    );
    const { upsertBin: found } = await data('mutation { upsertBin(input: { name: "one" }) { count bins { name } } }', {
      as,
    });
    expect([created, found]).toEqual([
      { count: 1, bins: [{ name: "one" }] },
      { count: 1, bins: [{ name: "one" }] },
    ]);
  });

  test("does not change the rows of others", async () => {
    const mutation =
      'mutation { upsertPart(input: { code: "d", maker: "Q", number: 1, price: "9" }, onConflict: CODE) { count } }';
    expect(await errors(mutation, { as })).toEqual(["PERMISSION_DENIED: no permission"]);
  });
});

describe("updateParts and deleteParts", () => {
  test("change the rows of a filter that policies allow, and return them", async () => {
    expect(
      await run('updateParts(filter: { price: { greaterThan: "1" } }, limit: 10, input: { price: "7" })'),
    ).toMatchObject({
      success: true,
      count: 2,
      message: "2 rows",
    });
    expect((await sql("select price from parts order by code")).map(({ price }) => Number(price))).toEqual([
      1, 7, 7, 4,
    ]);
    const deleted = await run(
      'deleteParts(filter: { or: [{ code: { equalTo: "a" } }, { code: { equalTo: "d" } }] }, limit: 2)',
    );
    expect(deleted).toMatchObject({ success: true, count: 1, message: "1 row", parts: [{ code: "a", label: "X-1" }] });
    expect(await codes()).toEqual(["b", "c", "d"]);
  });

  test("change nothing if more rows match than the limit", async () => {
    for (const field of [
      'updateParts(filter: { price: { greaterThan: "0" } }, limit: 3, input: { price: "7" })',
      'deleteParts(filter: { price: { greaterThan: "0" } }, limit: 3)',
    ]) {
      const message = "filter matches more than 3 rows: nothing was changed";
      expect(await run(field)).toMatchObject({
        success: false,
        count: 0,
        errors: [{ index: null, field: "filter", message }],
      });
    }
    expect(await codes()).toEqual(["a", "b", "c", "d"]);
    expect((await sql("select sum(price)::int from parts"))[0]).toEqual({ sum: 10 });
  });

  test("need a condition, a limit and a change", async () => {
    const refused = async (field: string) =>
      (await gql(`mutation { ${field} { count } }`, { as })).errors?.map(({ message }) => message);
    expect(await refused("deleteParts(filter: {}, limit: 1)")).toEqual(["filter must have at least one condition"]);
    expect(await refused("deleteParts(filter: { or: [{}] }, limit: 1)")).toEqual([
      "filter must have at least one condition",
    ]);
    expect(await refused('deleteParts(filter: { code: { equalTo: "a" } })')).toEqual([
      expect.stringContaining('"limit"'),
    ]);
    expect(await refused('deleteParts(filter: { code: { equalTo: "a" } }, limit: -1)')).toEqual([
      "limit must be from 0 to 1000",
    ]);
    expect(await refused("deleteParts(filter: { code: { equalTo: null } }, limit: 1)")).toEqual([
      expect.stringContaining("must not be null"),
    ]);
    expect(await refused('updateParts(filter: { code: { equalTo: "a" } }, limit: 1, input: {})')).toEqual([
      "input must have at least one field",
    ]);
    expect(await codes()).toEqual(["a", "b", "c", "d"]);
  });

  test("are undone if the database rejects one row", async () => {
    expect(
      await run('updateParts(filter: { price: { greaterThan: "0" } }, limit: 10, input: { code: "same" })'),
    ).toMatchObject({
      success: false,
      errors: [{ index: null, field: "code", code: "RESOURCE_CONFLICT" }],
    });
    expect(await codes()).toEqual(["a", "b", "c", "d"]);
  });

  test("filter by related rows", async () => {
    await sql("insert into bins select 'bin', id from parts where code = 'a'");
    expect(
      await run(
        'updateParts(filter: { bins: { some: { name: { equalTo: "bin" } } } }, limit: 1, input: { price: "5" })',
      ),
    ).toMatchObject({
      parts: [{ code: "a", price: "5" }],
    });
  });
});
