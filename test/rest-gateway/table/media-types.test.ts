import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

const TEXTS = `
  create table library.texts (id int primary key, text text);
  insert into library.texts values
    (1, 'plain'), (2, 'two words'), (3, 'a,b'), (4, 'say "x"'), (5, e'two\\nlines'), (6, ''), (7, null),
    (8, 'C:\\dir'), (9, 'größe 🙂'), (10, '(x)');
  grant select on library.texts to anon;`;

const { rest, failure } = useLibrary({ DB_PLAN: "on" }, TEXTS);

const get = (path: string, accept: string) => rest(path, { headers: { accept } });

/** `[200, "text/csv; charset=utf-8"]` */
async function typeOf(accept: string, path = "books?select=id&limit=1") {
  const { status, headers } = await get(path, accept);
  return [status, headers.get("content-type")];
}

describe("Accept", () => {
  const JSON_TYPE = "application/json; charset=utf-8";
  const CSV = "text/csv; charset=utf-8";

  test.each([
    ["application/json", JSON_TYPE],
    ["application/json; charset=utf-8", JSON_TYPE],
    ["*/*", JSON_TYPE],
    ["application/*", JSON_TYPE],
    ["text/csv", CSV],
    ["TEXT/CSV", CSV],
    ["text/html, application/json", JSON_TYPE],
    ["text/html, */*", JSON_TYPE],
    ["text/csv, application/json", CSV],
    ["application/json, text/csv", JSON_TYPE],
    ["application/json;q=0.5, text/csv", CSV],
    ["application/json;q=0.9, text/csv;q=0.5", JSON_TYPE],
    ["*/*, text/csv", CSV],
    ["application/json;q=0, text/csv;q=0.1", CSV],
    ["undefined, application/json", JSON_TYPE],
    ["application/json; $$ x=y $$", JSON_TYPE],
    ["text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", JSON_TYPE],
    ["text/csv;q=.5, application/json;q=.6", JSON_TYPE],
    ["", JSON_TYPE],
    ["application/vnd.pgrst.array+json", JSON_TYPE],
    [
      "application/vnd.pgrst.array+json;nulls=stripped",
      "application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8",
    ],
    ["application/vnd.pgrst.object+json", "application/vnd.pgrst.object+json; charset=utf-8"],
    ["application/vnd.pgrst.object", "application/vnd.pgrst.object+json; charset=utf-8"],
  ])("%s returns %s", async (accept, type) => expect(await typeOf(accept)).toEqual([200, type]));

  test.each([
    "text/html",
    "application/octet-stream",
    "application/xml",
    "image/*",
    "undefined",
    "null, *",
    "application/geo+json", // PostGIS is not installed
    'application/vnd.pgrst.plan+json; for="image/png"',
  ])("%s is 406", async (accept) => {
    const { status, json } = await get("books", accept);
    expect([status, json.code]).toEqual([406, "PGRST107"]);
  });

  test("of an unavailable type is 406, and the message names the type", async () => {
    expect((await get("books", "text/html, image/png")).json).toEqual({
      code: "PGRST107",
      message: "None of these media types are available: text/html, image/png",
      details: null,
      hint: null,
    });
  });
});

test("JSON is returned as Postgres writes it, with a line for each row", async () => {
  expect((await get("genres?order=id", "application/json")).text).toBe(
    '[{"id":1,"name":"Novel"}, \n {"id":2,"name":"Adventure"}, \n {"id":3,"name":"Essay"}]',
  );
  expect((await get("genres?id=eq.9", "application/json")).text).toBe("[]");
});

describe("text/csv", () => {
  const csv = async (path: string) => (await get(path, "text/csv")).text;

  test("has a header line, and quotes where they are needed", async () => {
    expect(await csv("texts?order=id")).toBe(
      [
        "id,text",
        "1,plain",
        '2,"two words"',
        '3,"a,b"',
        '4,"say ""x"""',
        '5,"two\nlines"',
        '6,""',
        "7,",
        '8,"C:\\dir"',
        '9,"größe 🙂"',
        '10,"(x)"',
      ].join("\n"),
    );
  });

  test("contains values of all types in the text format of Postgres", async () => {
    expect(await csv("books?select=is_rare,price,tags,facts->print,covers(colour)&id=eq.1")).toBe(
      'is_rare,price,tags,print,covers\nt,12.50,"{math,machine}","{""city"": ""London"", ""year"": 1843}","{""colour"":""green""}"',
    );
  });

  test("quotes names too", async () => {
    expect(await csv('odd names?select="a,b",x:"c.d","\\"q\\"":"or"&the id=eq.1')).toBe(
      '"a,b",x,"""q"""\ncomma,dot,either',
    );
  });

  test("is only the header line without rows, and has an empty line for a single null", async () => {
    expect(await csv("texts?id=eq.99")).toBe("id,text");
    expect(await csv("texts?select=text&id=in.(6,7)&order=id")).toBe('text\n""\n');
  });
});

describe("application/vnd.pgrst.object+json", () => {
  const one = "application/vnd.pgrst.object+json";

  test("returns an object instead of an array", async () => {
    const { text, headers } = await get("genres?id=eq.1", one);
    expect(text).toBe('{"id":1,"name":"Novel"}');
    expect(headers.get("content-range")).toBe("0-0/*");
  });

  test.each([
    ["genres?id=eq.9", 0],
    ["genres", 3],
  ])("is 406 for %s with %i rows", async (path, count) => {
    const { status, json } = await get(path, one);
    expect(status).toBe(406);
    expect(json).toEqual({
      code: "PGRST116",
      message: "Cannot coerce the result to a single JSON object",
      details: `The result contains ${count} rows`,
      hint: null,
    });
  });

  test("applies to HEAD too", async () => {
    const { status, text } = await rest("genres", { method: "HEAD", headers: { accept: one } });
    expect([status, text]).toEqual([406, ""]);
  });
});

test("nulls=stripped omits nulls on every level", async () => {
  const path = "books?select=id,pages,notes,authors!author_id(name),covers(colour)&id=eq.5";
  const text = '{"id":5,"authors":{"name":"Mary Shelley"}}';
  expect((await get(path, "application/vnd.pgrst.array+json;nulls=stripped")).text).toBe(`[${text}]`);
  expect((await get(path, "application/vnd.pgrst.object+json;nulls=stripped")).text).toBe(text);
});

describe("application/vnd.pgrst.plan", () => {
  test("returns the query plan as text or as JSON", async () => {
    const text = await get("books?limit=1", "application/vnd.pgrst.plan");
    expect(text.headers.get("content-type")).toBe(
      'application/vnd.pgrst.plan+text; for="application/json"; charset=utf-8',
    );
    expect(text.text).toMatch(/^Aggregate {2}\(cost=/);
    const json = await get("books?limit=1", "application/vnd.pgrst.plan+json");
    expect(json.headers.get("content-type")).toBe(
      'application/vnd.pgrst.plan+json; for="application/json"; charset=utf-8',
    );
    expect(json.json[0].Plan).toMatchObject({ "Node Type": "Aggregate" });
  });

  test("accepts the options of EXPLAIN and ignores others", async () => {
    const { json, headers } = await get(
      "books?limit=1",
      "application/vnd.pgrst.plan+json; options=verbose|analyze|buffers|nonsense",
    );
    expect(headers.get("content-type")).toBe(
      'application/vnd.pgrst.plan+json; for="application/json"; options=analyze|buffers|verbose; charset=utf-8',
    );
    expect(json[0].Plan).toMatchObject({ "Actual Loops": 1, "Shared Read Blocks": 0, Output: expect.any(Array) });
  });

  test("returns the plan for another media type", async () => {
    const { json, headers } = await get("books", 'application/vnd.pgrst.plan+json; for="text/csv"; options=verbose');
    expect(headers.get("content-type")).toBe(
      'application/vnd.pgrst.plan+json; for="text/csv"; options=verbose; charset=utf-8',
    );
    expect(json[0].Plan.Output[0]).toContain("string_agg");
    expect(await typeOf('application/vnd.pgrst.plan; for="application/vnd.pgrst.object;nulls=stripped"')).toEqual([
      200,
      'application/vnd.pgrst.plan+text; for="application/vnd.pgrst.object+json;nulls=stripped"; charset=utf-8',
    ]);
  });

  test("is refused if the request is refused", async () => {
    expect(await failure("books?nope=eq.1", { headers: { accept: "application/vnd.pgrst.plan+json" } })).toEqual([
      400,
      "42703",
    ]);
  });

  describe("when it is disabled, which is the default,", () => {
    const { rest } = useLibrary();

    test("is 406", async () => {
      const { status, json } = await rest("books", { headers: { accept: "application/vnd.pgrst.plan+json" } });
      expect([status, json.code]).toEqual([406, "PGRST107"]);
    });
  });
});
