import { beforeEach, describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const { rest, sql } = useRest(
  {},
  `create table public.items (
     id integer primary key, name text not null check (name <> 'bad'), data jsonb, at date
   );
   create function public.size_of(value json) returns bigint language sql immutable as $$ select length(value::text) $$;
   create function public.whole(json) returns text language sql immutable as $$ select left($1::text, 20) $$;
   grant all on public.items to anon;
   grant execute on function public.size_of, public.whole to anon`,
);

beforeEach(() => sql("truncate items"));

/** More than is read at once, in rows with brackets, commas and quotes within text. */
const ROWS = 20_000;
const nameOf = (id: number) => `],"{ é ${id} ${"x".repeat(60)}\\`;
const rowsOf = (change: (id: number) => object = () => ({})) =>
  Array.from({ length: ROWS }, (_, id) => ({ id, name: nameOf(id), data: [[id], { a: "}" }], ...change(id) }));

const JSON_TYPE = "application/json";
const send = (body: string, { type = JSON_TYPE, path = "items", method = "POST" } = {}) =>
  rest(path, { body, method, headers: { "content-type": type } });

/** What the same body is answered when it is small: a tenth of the rows. */
async function refused(body: string, type = JSON_TYPE) {
  expect(body.length).toBeGreaterThan(1_048_576);
  const { status, json } = await send(body, { type });
  expect(await sql("select count(*)::int from items")).toEqual([{ count: 0 }]);
  return { status, ...json };
}

describe("a body of more than a megabyte", () => {
  test("is inserted as a small one is, as JSON and as CSV", async () => {
    const sum = "select count(*)::int, sum(id)::int as ids, max(name) filter (where id = 15000) as name from items";
    const inserted = { count: ROWS, ids: (ROWS * (ROWS - 1)) / 2, name: nameOf(15_000) };
    const csv = rowsOf().map(
      ({ id, name, data }) => `${id},"${name.replaceAll('"', '""')}","${JSON.stringify(data).replaceAll('"', '""')}"`,
    );
    for (const [type, body] of [
      [JSON_TYPE, ` ${JSON.stringify(rowsOf(), null, 1)}\n`],
      ["text/csv", `id,name,data\n${csv.join("\n")}\n`],
    ] as const) {
      expect((await send(body, { type })).status).toBe(201);
      expect(await sql(sum)).toEqual([inserted]);
      await sql("truncate items");
    }
  });

  test.each<[string, string, string, object]>([
    [
      "a value that violates a check",
      JSON_TYPE,
      JSON.stringify(rowsOf((id) => (id === 15_001 ? { name: "bad" } : {}))),
      {
        status: 400,
        code: "23514",
        fields: [expect.objectContaining({ field: "[15001].name" })],
      },
    ],
    [
      "a value that cannot be read",
      JSON_TYPE,
      JSON.stringify(rowsOf((id) => ({ at: id === ROWS - 1 ? "no" : null }))),
      {
        status: 400,
        code: "22007",
        fields: [expect.objectContaining({ field: `[${ROWS - 1}].at` })],
      },
    ],
    [
      "a null",
      JSON_TYPE,
      JSON.stringify(rowsOf((id) => (id === 0 ? { name: null } : {}))),
      {
        status: 400,
        code: "23502",
        fields: [expect.objectContaining({ field: "[0].name" })],
      },
    ],
    [
      "a key that is there twice",
      JSON_TYPE,
      JSON.stringify(rowsOf((id) => (id === 7 ? { id: 6 } : {}))),
      {
        status: 409,
        code: "23505",
        fields: [expect.objectContaining({ field: "[7].id" })],
      },
    ],
    [
      "different keys",
      JSON_TYPE,
      JSON.stringify(rowsOf((id) => (id === 9 ? { more: 1 } : {}))),
      {
        status: 400,
        code: "PGRST102",
        message: "All object keys must match",
      },
    ],
    [
      "a syntax error",
      JSON_TYPE,
      JSON.stringify(rowsOf()).replace(/]$/, "}"),
      { status: 400, code: "PGRST102", message: "Empty or invalid json" },
    ],
    [
      "too many brackets",
      JSON_TYPE,
      JSON.stringify(rowsOf()).replace("[[0]", `${"[".repeat(70)}${"]".repeat(70)}`),
      {
        status: 400,
        code: "PGRST102",
        details: "the body is nested more than 64 levels deep",
      },
    ],
    [
      "a line that is too short",
      "text/csv",
      `id,name\n${"1,a\n".repeat(300_000)}2`,
      {
        status: 400,
        code: "PGRST102",
        details: "line 300002 has 1 fields, the header has 2",
      },
    ],
  ])("is refused for %s, with the reason and the row", async (_fault, type, body, problem) => {
    expect(await refused(body, type)).toMatchObject(problem);
  });

  test("calls a function, with named arguments and as its only one", async () => {
    const text = JSON.stringify({ value: rowsOf() });
    const { json } = await send(text, { path: "rpc/size_of" });
    expect(json).toBe(text.length - '{"value":}'.length);
    expect((await send(text, { path: "rpc/whole" })).json).toBe(text.slice(0, 20));
  });

  test("changes one row", async () => {
    await sql("insert into items values (1, 'a')");
    const body = JSON.stringify({ data: rowsOf() });
    expect((await send(body, { path: "items?id=eq.1", method: "PATCH" })).status).toBe(204);
    expect(await sql("select jsonb_array_length(data) as length from items")).toEqual([{ length: ROWS }]);
    const bad = JSON.stringify({ data: rowsOf(), name: "bad" });
    expect(await send(bad, { path: "items?id=eq.1", method: "PATCH" })).toMatchObject({
      status: 400,
      json: { code: "23514" },
    });
  });

  test("of many clients at once is read for each", async () => {
    const bodies = Array.from({ length: 4 }, (_, n) =>
      JSON.stringify({ value: rowsOf((id) => ({ n: "y".repeat(n), id })) }),
    );
    const results = await Promise.all(bodies.map((body) => send(body, { path: "rpc/size_of" })));
    expect(results.map(({ json }) => json)).toEqual(bodies.map((body) => body.length - '{"value":}'.length));
  });
});
