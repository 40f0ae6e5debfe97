import { describe, expect, test } from "vitest";
import { dataOf, failureOf, useSupabase } from "../../support/supabase-client.ts";

const { cinema, sql } = useSupabase();

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

  test("insert of an empty array inserts no row", async () => {
    expect(await cinema().from("moments").insert([]).select()).toMatchObject({ data: [], status: 201, error: null });
  });

  test("insert with count returns the number of rows", async () => {
    const rows = [{ name: "one" }, { name: "two" }];
    expect(await cinema().from("tags").insert(rows, { count: "exact" })).toMatchObject({ count: 2, status: 201 });
  });

  test("insert(…).select() may select relations, and single() returns one row", async () => {
    const film = { id: 70, title: "Ran", director_id: 4, tags: ["a, b"], data: { a: [1] } };
    const request = cinema().from("films").insert(film).select("title, tags, data, people!director_id(name)").single();
    expect(await dataOf(request)).toEqual({
      title: "Ran",
      tags: ["a, b"],
      data: { a: [1] },
      people: { name: "Toshiro Mifune" },
    });
  });

  test("upsert replaces the row with the same key with 200, and inserts a new row with 201", async () => {
    const prizes = () => cinema().from("prizes");
    expect(await prizes().upsert({ id: 1, name: "Lion" }).select()).toMatchObject({
      data: [{ id: 1, name: "Lion" }],
      status: 200,
    });
    expect(
      await prizes()
        .upsert([
          { id: 1, name: "Lions" },
          { id: 30, name: "Bear" },
        ])
        .select("name"),
    ).toMatchObject({
      data: [{ name: "Lions" }, { name: "Bear" }],
      status: 201,
    });
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

  test("update returns nothing, the rows, or their number", async () => {
    const update = (options?: { count: "exact" }) =>
      cinema().from("shows").update({ price: 5.5 }, options).eq("house_id", 1);
    expect(await update()).toMatchObject({ data: null, status: 204, count: null });
    expect(await update().select("id, price, screens(seats)").order("id")).toMatchObject({
      data: [
        { id: 1, price: 5.5, screens: { seats: 300 } },
        { id: 2, price: 5.5, screens: { seats: 300 } },
        { id: 3, price: 5.5, screens: { seats: 80 } },
      ],
      status: 200,
    });
    expect(await update({ count: "exact" })).toMatchObject({ data: null, count: 3 });
  });

  test("update of no row is an error only if single() requires a row", async () => {
    const update = () => cinema().from("shows").update({ price: 1 }).eq("id", 99);
    expect(await update()).toMatchObject({ status: 204, error: null });
    expect(await dataOf(update().select())).toEqual([]);
    expect(await dataOf(update().select().maybeSingle())).toBeNull();
    expect(await failureOf(update().select().single())).toEqual([406, "PGRST116"]);
  });

  test("update of several rows is rolled back if single() requires one", async () => {
    const update = cinema().from("shows").update({ price: 77 }).in("id", [1, 2]).select().single();
    expect(await failureOf(update)).toEqual([406, "PGRST116"]);
    expect(await dataOf(cinema().from("shows").select("id").eq("price", 77))).toEqual([]);
  });

  test("delete returns nothing, the rows, or their number", async () => {
    await sql("insert into cinema.tags values ('a'), ('b'), ('c'), ('d')");
    const remove = (...names: string[]) => cinema().from("tags").delete({ count: "exact" }).in("name", names);
    expect(await remove("a")).toMatchObject({ data: null, status: 204, count: 1 });
    expect(await remove("b", "c").select().order("name")).toMatchObject({
      data: [{ name: "b" }, { name: "c" }],
      status: 200,
      count: 2,
    });
    expect(await remove("gone")).toMatchObject({ data: null, status: 204, count: 0 });
    expect(await dataOf(remove("d").select().single())).toEqual({ name: "d" });
  });
});

describe("rpc", () => {
  test.each<[string, () => PromiseLike<any>, unknown]>([
    ["returns a value", () => cinema().rpc("add_them", { a: 1, b: 2 }), 3],
    ["returns a value with get: true", () => cinema().rpc("add_them", { a: 1, b: 2 }, { get: true }), 3],
    ["passes an array with get: true", () => cinema().rpc("longest", { words: ["a", "bbb"] }, { get: true }), "bbb"],
    ["calls a function without arguments", () => cinema().rpc("greet"), "Hello, World"],
    [
      "passes some arguments and uses defaults for the others",
      () => cinema().rpc("greet", { name: "you" }),
      "Hello, you",
    ],
    ["passes an array of objects", () => cinema().rpc("echo_json", [{ a: 1 }, { b: 2 }] as any), [{ a: 1 }, { b: 2 }]],
    ["returns null for a void function", () => cinema().rpc("nothing"), null],
    ["returns a set of values", () => cinema().rpc("some_numbers", { upto: 3 }), [1, 2, 3]],
    ["returns an object", () => cinema().rpc("divided", { a: 7, b: 2 }), { quotient: 3, remainder: 1 }],
    [
      "applies filters, order, limit and relations to the result",
      () =>
        cinema()
          .rpc("films_of", { director: 3 })
          .select("title, studios(name)")
          .gt("year", 1960)
          .order("title")
          .limit(1),
      [{ title: "Sanjuro", studios: { name: "Toho" } }],
    ],
    [
      "applies filters to the result with get: true",
      () => cinema().rpc("films_of", { director: 3 }, { get: true }).select("id").eq("year", 1954),
      [{ id: 3 }],
    ],
    [
      "returns one row with single()",
      () => cinema().rpc("films_of", { director: 3 }).select("id").eq("year", 1954).single(),
      { id: 3 },
    ],
    [
      "returns null with maybeSingle() for no row",
      () => cinema().rpc("films_of", { director: 3 }).eq("year", 1900).maybeSingle(),
      null,
    ],
    ["returns CSV with csv()", () => cinema().rpc("pairs", { upto: 2 }).csv(), "n,square\n1,1\n2,4"],
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
