import { describe, expect, test } from "vitest";
import { dataOf, failureOf, useSupabase } from "../../support/supabase-client.ts";

const { cinema } = useSupabase();

describe("the client's", () => {
  test("insert inserts one row, or several with different keys", async () => {
    const moments = () => cinema().from("moments");
    expect(await moments().insert({ id: 10, word: "ten" })).toMatchObject({ data: null, status: 201, error: null });
    const rows = [
      { id: 11, word: "w" },
      { id: 12, amount: 1 },
    ];
    expect(await dataOf(moments().insert(rows).select("id, word, amount"))).toEqual([
      { id: 11, word: "w", amount: null },
      { id: 12, word: null, amount: 1 },
    ]);
  });

  test("insert with defaultToNull: false uses defaults for missing keys", async () => {
    const rows = [
      { id: 20, word: "w" },
      { id: 21, amount: 1 },
    ];
    const request = cinema().from("moments").insert(rows, { defaultToNull: false }).select("id, word, amount");
    expect(await dataOf(request)).toEqual([
      { id: 20, word: "w", amount: null },
      { id: 21, word: "hello", amount: 1 },
    ]);
  });

  test("upsert accepts onConflict, ignoreDuplicates, defaultToNull and count", async () => {
    const person = { id: 1, name: "Fritz Lang", born: "1999-09-09" };
    const ignored = cinema().from("people").upsert(person, { onConflict: "name", ignoreDuplicates: true });
    expect(await ignored.select("born")).toMatchObject({ data: [], status: 201 });
    const merged = cinema().from("people").upsert(person, { onConflict: "name", count: "exact" });
    expect(await merged.select("born")).toMatchObject({ data: [{ born: "1999-09-09" }], count: 1 });
    const rows = [{ id: 1, amount: 5 }, { id: 40 }];
    const filled = cinema().from("moments").upsert(rows, { defaultToNull: false }).select("id, word, amount");
    expect(await dataOf(filled)).toEqual([
      { id: 1, word: "one", amount: 5 },
      { id: 40, word: "hello", amount: null },
    ]);
  });

  test("update of no row is an error only if single() requires a row", async () => {
    const update = () => cinema().from("shows").update({ price: 1 }).eq("id", 99);
    expect(await update()).toMatchObject({ status: 204, error: null });
    expect(await dataOf(update().select())).toEqual([]);
    expect(await dataOf(update().select().maybeSingle())).toBeNull();
    expect(await failureOf(update().select().single())).toEqual([406, "PGRST116"]);
  });
});

describe("rpc", () => {
  test.each<[string, () => PromiseLike<any>, unknown]>([
    ["returns a value", () => cinema().rpc("add_them", { a: 1, b: 2 }), 3],
    ["returns a value with get: true", () => cinema().rpc("add_them", { a: 1, b: 2 }, { get: true }), 3],
    ["passes an array with get: true", () => cinema().rpc("longest", { words: ["a", "bbb"] }, { get: true }), "bbb"],
    ["passes an array of objects", () => cinema().rpc("echo_json", [{ a: 1 }, { b: 2 }] as any), [{ a: 1 }, { b: 2 }]],
    ["returns null for a void function", () => cinema().rpc("nothing"), null],
    [
      "applies filters to the result with get: true",
      () => cinema().rpc("films_of", { director: 3 }, { get: true }).select("id").eq("year", 1954),
      [{ id: 3 }],
    ],
  ])("%s", async (_what, request, expected) => {
    expect(await dataOf(request())).toEqual(expected);
  });

  test("returns the count with rows and without", async () => {
    const counted = await cinema().rpc("films_of", { director: 3 }, { count: "exact" }).select("id").limit(1);
    expect(counted).toMatchObject({ data: [{ id: 3 }], count: 3, status: 206 });
    const headless = await cinema().rpc("films_of", { director: 3 }, { head: true, count: "exact" });
    expect(headless).toMatchObject({ data: null, count: 3, status: 200, error: null });
  });

  test("sends head: true with an object as an argument with POST", async () => {
    const { status, error } = await cinema().rpc("named_json", { doc: { a: 1 } }, { head: true });
    expect([status, error]).toEqual([200, null]);
  });
});
