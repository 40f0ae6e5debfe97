import { describe, expect, test } from "vitest";
import { type RestSent, useRest } from "../support/rest-client.ts";

const { rest, rows } = useRest(
  { GRAPHQL_DOCUMENTS: "none", DB_MAX_ROWS: "0" },
  `create table public.pages (id int primary key, body text, doc jsonb);
   insert into public.pages values (1, 'a', '{}'), (2, '"', '{}'), (3, 'a,b', '{}');
   create function public.number_of(variadic numbers int[]) returns int immutable language sql
     return pg_catalog.array_length(numbers, 1);
   grant all on public.pages to anon;
   grant execute on function public.number_of(int[]) to anon`,
);

const many = (count: number, write: (i: number) => unknown) => Array.from({ length: count }, (_, i) => write(i)).join();
const form = { "content-type": "application/x-www-form-urlencoded" };
const query = (body: string): RestSent => ({ method: "QUERY", body, headers: form });
/** Status and body. */
async function failure(path: string, sent: RestSent) {
  const { status, json } = await rest(path, sent);
  return { status, ...json };
}
const tooMany = (what: string, max: number) => ({
  status: 400,
  code: "PGRST100",
  message: `a request may have at most ${max} ${what}`,
  hint: "Split it into several requests.",
});

describe("a request has at most", () => {
  test("50000 values in lists, quoted or not, in all filters together", async () => {
    const ids = (count: number) => many(count, (i) => i + 1);
    const texts = (count: number) => many(count, (i) => (i === 0 ? '"\\""' : `"a,${i}"`));
    expect(await rows("pages?select=id", query(`id=in.(${ids(50_000)})`))).toHaveLength(3);
    expect(await rows("pages?select=id", query(`body=in.(${texts(50_000)})`))).toEqual([{ id: 2 }]);
    const refused = tooMany("values in lists", 50_000);
    for (const filters of [
      `id=in.(${ids(50_001)})`,
      `body=in.(${texts(50_001)})`,
      `id=in.(${ids(25_000)})&id=not.in.(${ids(25_001)})`,
      `or=(id.in.(${ids(25_000)}),id.in.(${ids(25_001)}))`,
    ])
      expect(await failure("pages", query(filters))).toMatchObject(refused);
    expect(await failure("rpc/number_of", query(`numbers=in.(${ids(50_001)})`))).toMatchObject(refused);
  });

  test.each([
    ["select", (count: number) => `select=${many(count, (i) => `a${i}:id`)}`, {}],
    ["order", (count: number) => `order=${many(count, () => "id")}`, {}],
    ["columns", (count: number) => `columns=${many(count, () => "id")}`, { body: { id: 4 }, prefer: "tx=rollback" }],
    [
      "on_conflict",
      (count: number) => `on_conflict=${many(count, () => "id")}`,
      { body: { id: 1 }, prefer: "resolution=ignore-duplicates" },
    ],
  ])("2000 columns in %s", async (what, list, { body, prefer }: RestSent) => {
    const ask = (count: number) =>
      body === undefined ? rest("pages", query(list(count))) : rest(`pages?${list(count)}`, { body, prefer: prefer! });
    const { status, json } = await ask(2000);
    // A row of PostgreSQL has at most 1664 columns.
    if (what === "select") expect([status, json.code]).toEqual([400, "54011"]);
    else expect(status).toBeLessThan(300);
    for (const count of body === undefined ? [2001, 20_000, 50_000] : [2001]) {
      const refused = await ask(count);
      expect({ status: refused.status, ...refused.json }).toMatchObject(tooMany(`columns in ${what}`, 2000));
    }
  });

  test("2000 columns in select, those of relations and repeated ones included", async () => {
    expect(await failure("pages", query(`select=id,pages(${many(2000, () => "id")})`))).toMatchObject(
      tooMany("columns in select", 2000),
    );
  });

  test("5000 steps in a JSON path, and 262144 characters in names", async () => {
    const path = (steps: number) => `doc${"->a".repeat(steps)}`;
    const refused = {
      status: 400,
      code: "PGRST100",
      message: "a JSON path is nested more than 5000 levels deep",
    };
    for (const filter of [`select=${path(5001)}`, `order=${path(2500)},${path(2501)}`, `${path(5001)}=eq.1`])
      expect(await failure("pages", query(filter))).toMatchObject(refused);
    expect((await rest("pages", query(`select=${path(2000)}&order=${path(2000)}`))).status).toBe(200);
    expect(await failure("pages", query(`${"a".repeat(262_145)}=eq.1`))).toMatchObject(
      tooMany("characters in names of parameters", 262_144),
    );
  });

  test("10000 parameters in a query string or a form", async () => {
    const numbers = (count: number) => many(count, () => "numbers=1").replaceAll(",", "&");
    expect((await rest("rpc/number_of", query(numbers(10_000)))).json).toBe(10_000);
    expect((await rest("rpc/number_of", { method: "POST", body: numbers(10_000), headers: form })).json).toBe(10_000);
    const refused = tooMany("parameters", 10_000);
    expect(await failure("rpc/number_of", query(numbers(10_001)))).toMatchObject(refused);
    expect(await failure("rpc/number_of", { method: "POST", body: numbers(10_001), headers: form })).toMatchObject({
      status: 400,
    });
    expect(await failure("pages", query("&a".repeat(10_001)))).toMatchObject(refused);
    const override = { method: "POST", headers: { ...form, "x-http-method-override": "PATCH" } };
    expect(await failure("pages", { ...override, body: "a&".repeat(10_001) })).toMatchObject(refused);
  });

  test("4 MiB of query string or form in a body", async () => {
    const text = (bytes: number) => `body=eq.${"+".repeat(bytes - "body=eq.".length)}`;
    expect(await rows("pages", query(text(4_194_304)))).toEqual([]);
    expect((await rest("pages", query(text(4_194_305)))).status).toBe(413);
    expect((await rest("rpc/number_of", { method: "POST", body: text(4_194_305), headers: form })).status).toBe(413);
  });
});
