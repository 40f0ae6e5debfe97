import { describe, expect, test } from "vitest";
import { dataOf, failureOf, useSupabase } from "../../support/supabase-client.ts";

const { content, cinema, sql } = useSupabase();

describe("select returns", () => {
  test("204 for head: true of an unknown table, because the client maps a 404 without a body to it", async () => {
    expect(await cinema().from("nowhere").select("*", { head: true })).toMatchObject({
      status: 204,
      error: null,
      data: null,
    });
  });
});

describe("the filter", () => {
  test.each<[string, (request: any) => PromiseLike<any>, number[]]>([
    ["eq", (films) => films.eq("title", "M"), [2]],
    ["neq", (films) => films.neq("id", 1), [2, 3, 4, 5, 6]],
    ["gt", (films) => films.gt("year", 1961), [5, 6]],
    ["gte", (films) => films.gte("year", 1961), [4, 5, 6]],
    ["lt", (films) => films.lt("released", "1931-05-11"), [1]],
    ["lte", (films) => films.lte("released", "1931-05-11"), [1, 2]],
    ["like", (films) => films.like("title", "S%o"), [5]],
    ["likeAllOf", (films) => films.likeAllOf("title", ["S%", "%o"]), [5]],
    ["likeAnyOf", (films) => films.likeAnyOf("title", ["S%", "%o"]), [3, 4, 5]],
    ["ilike", (films) => films.ilike("title", "s%O"), [5]],
    ["ilikeAllOf", (films) => films.ilikeAllOf("title", ["s%", "%O"]), [5]],
    ["ilikeAnyOf", (films) => films.ilikeAnyOf("title", ["s%", "%7"]), [3, 5, 6]],
    ["regexMatch", (films) => films.regexMatch("title", "^S.*i$"), [3]],
    ["regexIMatch", (films) => films.regexIMatch("title", "^s.*I$"), [3]],
    ["is null", (films) => films.is("gross", null), [2, 4, 5]],
    ["is true", (films) => films.is("is_colour", true), [6]],
    ["isDistinct", (films) => films.isDistinct("gross", 75000), [2, 3, 4, 5, 6]],
    ["in", (films) => films.in("id", [1, 3, 99]), [1, 3]],
    ["in with reserved characters", (films) => films.in("title", ["M", "a,b", "(c)"]), [2]],
    ["in with an empty list", (films) => films.in("id", []), []],
    ["notIn", (films) => films.notIn("id", [1, 2, 3]), [4, 5, 6]],
    ["contains of an array", (films) => films.contains("tags", ["samurai", "village"]), [3]],
    ["contains of JSON", (films) => films.contains("data", { cast: { size: 37 } }), [1]],
    ["contains of a range", (films) => films.contains("shown", "[1931-06-01,1931-06-30)"), [2]],
    ["containedBy of an array", (films) => films.containedBy("marks", [7, 8, 9, 10]), [1, 3, 5, 6]],
    ["containedBy of JSON", (films) => films.containedBy("data", { lang: "de", cast: { size: 21 }, parts: [] }), [2]],
    ["containedBy of a range", (films) => films.containedBy("shown", "[1927-01-01,1930-01-01)"), [1]],
    ["rangeGt", (films) => films.rangeGt("shown", "[1930-01-01,1931-01-01)"), [2, 3]],
    ["rangeGte", (films) => films.rangeGte("shown", "[1931-05-11,1931-05-12)"), [2, 3]],
    ["rangeLt", (films) => films.rangeLt("shown", "[1931-01-01,1932-01-01)"), [1]],
    ["rangeLte", (films) => films.rangeLte("shown", "[1931-01-01,1931-08-01)"), [1, 2]],
    ["rangeAdjacent", (films) => films.rangeAdjacent("shown", "[1927-05-13,1930-01-01)"), [1]],
    ["overlaps of an array", (films) => films.overlaps("tags", ["crime", "paris"]), [2, 6]],
    ["overlaps of a range", (films) => films.overlaps("shown", "[1927-01-01,1931-06-01)"), [1, 2]],
    ["textSearch", (films) => films.textSearch("words", "seven & samurai"), [3]],
    ["textSearch in a text column", (films) => films.textSearch("title", "samurai"), [3]],
    ["textSearch, plain", (films) => films.textSearch("words", "seven samurai", { type: "plain" }), [3]],
    ["textSearch, phrase", (films) => films.textSearch("words", "samurai seven", { type: "phrase" }), []],
    [
      "textSearch, websearch",
      (films) => films.textSearch("words", "seven or sanjuro", { type: "websearch", config: "english" }),
      [3, 5],
    ],
    ["match", (films) => films.match({ director_id: 3, year: 1962 }), [5]],
    ["not", (films) => films.not("id", "in", "(1,2,3)"), [4, 5, 6]],
    ["or", (films) => films.or("id.eq.1,and(year.eq.1962,title.like.S*)"), [1, 5]],
    ["or with quotes", (films) => films.or('title.eq."Cléo from 5 to 7",title.in.("M","x, y")'), [2, 6]],
    ["filter", (films) => films.filter("data->cast->>size", "in", "(37,21)"), [1, 2]],
    ["filter with not", (films) => films.filter("title", "not.like", "%o"), [1, 2, 3, 6]],
    ["several filters", (films) => films.gt("id", 1).lt("id", 4).eq("director_id", 3), [3]],
  ])("%s selects the matching rows", async (_name, filter, expected) => {
    const rows = await dataOf(filter(cinema().from("films").select("id").order("id")));
    expect(rows.map(({ id }: { id: number }) => id)).toEqual(expected);
  });

  test("or on a relation selects the matching rows", async () => {
    const studios = cinema().from("studios").select("name, films!inner(title)").order("id");
    expect(await dataOf(studios.or("year.eq.1927,title.eq.Sanjuro", { referencedTable: "films" }))).toEqual([
      { name: "UFA", films: [{ title: "Metropolis" }] },
      { name: "Toho", films: [{ title: "Sanjuro" }] },
    ]);
  });
});

describe("the modifier", () => {
  test("order, limit or range with referencedTable applies to a relation", async () => {
    const toho = () => cinema().from("studios").select("films(id)").eq("id", 2);
    const filmsOf = async (request: any) => (await dataOf(request.single())).films.map(({ id }: { id: number }) => id);
    expect(await filmsOf(toho().order("year", { referencedTable: "films", ascending: false }))).toEqual([5, 4, 3]);
    expect(
      await filmsOf(toho().order("id", { referencedTable: "films" }).limit(1, { referencedTable: "films" })),
    ).toEqual([3]);
    expect(
      await filmsOf(toho().order("id", { referencedTable: "films" }).range(1, 2, { referencedTable: "films" })),
    ).toEqual([4, 5]);
  });

  test("single returns the only row, and an error for no row or several", async () => {
    const films = () => cinema().from("films").select("id");
    expect(await dataOf(films().eq("id", 1).single())).toEqual({ id: 1 });
    expect(await films().eq("id", 99).single()).toMatchObject({
      data: null,
      status: 406,
      error: { code: "PGRST116", details: "The result contains 0 rows" },
    });
    expect(await films().single()).toMatchObject({ status: 406, error: { details: "The result contains 6 rows" } });
  });

  test("maybeSingle returns the only row or null, and an error for several", async () => {
    const films = () => cinema().from("films").select("id");
    expect(await dataOf(films().eq("id", 1).maybeSingle())).toEqual({ id: 1 });
    expect(await films().eq("id", 99).maybeSingle()).toMatchObject({ data: null, error: null, status: 200 });
    expect(await failureOf(films().maybeSingle())).toEqual([406, "PGRST116"]);
  });

  test("csv returns CSV", async () => {
    expect(await dataOf(cinema().from("prizes").select("id, name").order("id").csv())).toBe(
      'id,name\n1,"Silver Lion"\n2,"Golden Palm"',
    );
  });

  test("geojson is 406, because it requires PostGIS", async () => {
    expect(await failureOf(cinema().from("prizes").select().geojson())).toEqual([406, "PGRST107"]);
  });

  test("stripNulls omits nulls", async () => {
    expect(await dataOf(cinema().from("films").select("id, gross").in("id", [1, 2]).order("id").stripNulls())).toEqual([
      { id: 1, gross: 75000 },
      { id: 2 },
    ]);
    expect(await dataOf(cinema().from("films").select("id, gross").eq("id", 2).single().stripNulls())).toEqual({
      id: 2,
    });
  });

  test("explain returns the plan as text or as JSON", async () => {
    const films = () => cinema().from("films").select("id").eq("id", 1);
    expect(await dataOf(films().explain({ analyze: true }))).toMatch(/Execution Time: /);
    expect(
      await dataOf(films().explain({ format: "json", verbose: true, settings: true, buffers: true })),
    ).toMatchObject([{ Plan: { "Node Type": "Aggregate" } }]);
  });

  test("rollback undoes the writes of a request", async () => {
    expect(await dataOf(cinema().from("tags").insert({ name: "undone" }).rollback().select())).toEqual([
      { name: "undone" },
    ]);
    expect(await dataOf(cinema().from("tags").delete().eq("name", "red").rollback().select())).toEqual([
      { name: "red" },
    ]);
    expect(await dataOf(cinema().from("tags").select().in("name", ["red", "undone"]))).toEqual([{ name: "red" }]);
  });

  test("maxAffected refuses a write or a call with more rows", async () => {
    const renamed = (request: any, rows: number) => request.update({ parity: "same" }).lte("n", 3).maxAffected(rows);
    expect(await failureOf(renamed(cinema().from("numbers"), 2))).toEqual([400, "PGRST124"]);
    expect(await dataOf(cinema().from("numbers").select("n").eq("parity", "same"))).toEqual([]);
    expect(await renamed(cinema().from("numbers"), 3)).toMatchObject({ status: 204, error: null });
    await sql("update cinema.numbers set parity = case n % 2 when 0 then 'even' else 'odd' end");
    const called: any = cinema().rpc("some_numbers", { upto: 9 });
    expect(await failureOf(called.maxAffected(3))).toEqual([400, "PGRST124"]);
  });

  test("abortSignal ends the request", async () => {
    const request = content().schema("cinema").from("films").select().abortSignal(AbortSignal.abort());
    expect(await request).toMatchObject({ status: 0, error: { message: expect.stringContaining("AbortError") } });
  });

  test("schema selects another schema, and a schema that is not served is refused", async () => {
    expect(await dataOf(content().schema("archive").from("films").select("title").eq("id", 2))).toEqual([
      { title: "Lost" },
    ]);
    expect(await dataOf(content().schema("archive").rpc("where_am_i"))).toContain("archive");
    expect(await failureOf(content().schema("vault").from("reels").select())).toEqual([406, "PGRST106"]);
    expect(await failureOf(content().from("films").select())).toEqual([404, "PGRST205"]);
  });

  test("getOpenApiSpec describes the schema", async () => {
    const { data, error } = await cinema().getOpenApiSpec();
    expect(error).toBeNull();
    expect(Object.keys((data as any).paths)).toEqual(expect.arrayContaining(["/films", "/rpc/add_them"]));
  });
});
