import { describe, expect, test } from "vitest";
import type { RestSent } from "../../support/rest-client.ts";
import { useLibrary } from "./library.ts";

/** The planner's statistics say 100 words, and half of them were deleted. One of three plots has no word. */
const WORDS = `
  create table library.words (id int primary key) with (autovacuum_enabled = false);
  insert into library.words select generate_series(1, 100);
  analyze library.words;
  delete from library.words where id > 50;
  create table library.plots (id int primary key, word_id int references library.words) with (autovacuum_enabled = false);
  insert into library.plots values (1, 1), (2, 2), (3, null);
  analyze library.plots;
  grant select on library.words, library.plots to anon;`;

const { rest, failure } = useLibrary({}, WORDS);

/** `[206, "0-1/5"]` */
async function counted(path: string, prefer: string, method = "GET") {
  const { status, headers } = await rest(path, { prefer, method });
  return [status, headers.get("content-range")];
}

/** `[200, "0-1/*", [1, 2]]` */
async function page(query: string, sent: RestSent = {}) {
  const { status, headers, json } = await rest(`books?select=id&order=id&${query}`, sent);
  return [status, headers.get("content-range"), json.map(({ id }: { id: number }) => id)];
}

describe("limit and offset", () => {
  test.each([
    ["", "0-4/*", [1, 2, 3, 4, 5]],
    ["limit=2", "0-1/*", [1, 2]],
    ["limit=2&offset=1", "1-2/*", [2, 3]],
    ["offset=3", "3-4/*", [4, 5]],
    ["limit=9&offset=4", "4-4/*", [5]],
    ["limit=0", "*/*", []],
    ["offset=9", "*/*", []],
    ["offset=-1&limit=1", "0-0/*", [1]],
    ["limit=2&limit=1", "0-0/*", [1]],
    ["id=eq.9", "*/*", []],
  ])("?%s return the range %s", async (query, range, ids) => expect(await page(query)).toEqual([200, range, ids]));

  test.each([
    ["limit=-1", 416, "PGRST103"],
    ["limit=x", 400, "PGRST100"],
    ["limit=", 400, "PGRST100"],
    ["limit=1.5", 400, "PGRST100"],
    ["offset=99999999999999999999", 400, "PGRST100"],
  ])("?%s are refused", async (query, ...problem) => expect(await failure(`books?${query}`)).toEqual(problem));
});

describe("the Range header", () => {
  test.each([
    ["0-1", "", "0-1/*", [1, 2]],
    ["3-", "", "3-4/*", [4, 5]],
    ["2-2", "", "2-2/*", [3]],
    ["items=1-2", "", "1-2/*", [2, 3]],
    ["0-9", "", "0-4/*", [1, 2, 3, 4, 5]],
    ["1-3", "limit=2", "1-1/*", [2]],
    ["2-9", "limit=3&offset=1", "2-3/*", [3, 4]],
    ["0-3", "limit=0", "*/*", []],
  ])("%s with ?%s returns the range %s", async (range, query, contentRange, ids) => {
    expect(await page(query, { headers: { range } })).toEqual([200, contentRange, ids]);
  });

  test("has the unit items, and other units are ignored", async () => {
    expect(await page("", { headers: { range: "0-0", "range-unit": "items" } })).toEqual([200, "0-0/*", [1]]);
    const all = [200, "0-4/*", [1, 2, 3, 4, 5]];
    expect(await page("", { headers: { range: "0-0", "range-unit": "bytes" } })).toEqual(all);
    expect(await page("", { headers: { range: "bytes=0-0" } })).toEqual(all);
    expect(await page("", { headers: { range: "all of them" } })).toEqual(all);
  });

  test("applies only to GET", async () => {
    const { status, headers } = await rest("books", { method: "HEAD", headers: { range: "0-0" } });
    expect([status, headers.get("content-range")]).toEqual([200, "0-4/*"]);
  });

  test("is 416 if it ends before it begins, or has no rows in common with limit and offset", async () => {
    expect((await rest("books", { headers: { range: "3-1" } })).json).toEqual({
      code: "PGRST103",
      message: "Requested range not satisfiable",
      details: "The lower boundary must be lower than or equal to the upper boundary in the Range header.",
      hint: null,
    });
    expect(await failure("books?offset=4", { headers: { range: "0-1" } })).toEqual([416, "PGRST103"]);
    expect(await failure("books?offset=1", { headers: { range: "0-0" } })).toEqual([416, "PGRST103"]);
  });
});

describe("count=exact", () => {
  test.each([
    ["", 200, "0-4/5"],
    ["limit=2", 206, "0-1/5"],
    ["limit=2&offset=3", 206, "3-4/5"],
    ["limit=0", 206, "*/5"],
    ["offset=5", 206, "*/5"],
    ["id=gt.2&limit=1", 206, "0-0/3"],
    ["id=gt.3", 200, "0-1/2"],
    ["id=eq.9", 200, "*/0"],
  ])("with ?%s returns the status %i and the range %s", async (query, status, range) => {
    expect(await counted(`books?${query}`, "count=exact")).toEqual([status, range]);
  });

  test("works with the Range header", async () => {
    expect(await page("", { prefer: "count=exact", headers: { range: "1-3" } })).toEqual([206, "1-3/5", [2, 3, 4]]);
  });

  test("counts groups, not rows", async () => {
    expect(await counted("books?select=shelf,count()", "count=exact")).toEqual([200, "0-1/2"]);
  });

  test("with an offset beyond the total is 416 with the total", async () => {
    const { status, headers, json } = await rest("books?offset=6", { prefer: "count=exact" });
    expect([status, headers.get("content-range")]).toEqual([416, "*/5"]);
    expect(json).toEqual({
      code: "PGRST103",
      message: "Requested range not satisfiable",
      details: "An offset of 6 was requested, but there are only 5 rows.",
      hint: null,
    });
  });

  test("is the same for HEAD as for GET", async () => {
    expect(await counted("books?limit=2", "count=exact", "HEAD")).toEqual([206, "0-1/5"]);
  });
});

describe("the preference for a count", () => {
  test.each([
    ["count=exact", "0-0/50"],
    ["count=planned", "0-0/100"], // the planner's estimate
    ["count=estimated", "0-0/50"], // exact up to DB_MAX_ROWS
    ["count=exact, count=planned", "0-0/50"], // the first preference applies
  ])("%s returns the range %s", async (prefer, range) => {
    expect(await counted("words?limit=1", prefer)).toEqual([206, range]);
  });

  test("is ignored if it is unknown, or refused with handling=strict", async () => {
    expect(await counted("words?limit=1", "count=guessed")).toEqual([200, "0-0/*"]);
    expect(await failure("words", { prefer: "count=guessed, handling=strict" })).toEqual([400, "PGRST122"]);
  });
});

describe("without DB_MAX_ROWS", () => {
  const { rest } = useLibrary({ DB_MAX_ROWS: "0" }, WORDS);

  test.each([
    ["words?select=id&limit=1", 206, "0-0/100"],
    ["words?select=id", 206, "0-49/100"],
    ["words?select=id&id=lte.0", 206, "*/1"],
    ["plots?select=id,words()&words=not.is.null", 206, "0-1/3"],
    ["plots?select=id,words!inner(id)", 206, "0-1/3"],
    ["plots?select=id,words()&words=is.null", 200, "0-0/1"],
    ["plots?select=id,words!inner(id)&words.id=lt.0", 206, "*/1"],
  ])("count=estimated is the larger of the estimate and the exact count: GET /%s is %i with %s", async (...given) => {
    const [path, ...found] = given;
    const { status, headers } = await rest(path, { prefer: "count=estimated" });
    expect([status, headers.get("content-range")]).toEqual(found);
  });
});

describe("DB_MAX_ROWS", () => {
  const { rows, rest } = useLibrary({ DB_MAX_ROWS: "2" }, WORDS);

  test("limits a list", async () => {
    expect(await rows("books?select=id&order=id")).toEqual([{ id: 1 }, { id: 2 }]);
    expect(await rows("books?select=id&order=id&limit=5")).toEqual([{ id: 1 }, { id: 2 }]);
    expect(await rows("books?select=id&order=id&limit=5&offset=4")).toEqual([{ id: 5 }]);
    expect(await rows("books?select=id&order=id&limit=1")).toEqual([{ id: 1 }]);
    expect(await rows("rpc/books_by?writer=2&select=id")).toEqual([{ id: 2 }, { id: 3 }]);
  });

  test("limits lists on every level", async () => {
    expect(
      await rows("countries?select=code,authors(id,loans:books!author_id(id,loans(id)))&code=eq.GB&authors.order=id"),
    ).toEqual([
      {
        code: "GB",
        authors: [
          { id: 1, loans: [{ id: 1, loans: [{ id: 1 }] }] },
          {
            id: 3,
            loans: [
              { id: 4, loans: [{ id: 4 }] },
              { id: 5, loans: [] },
            ],
          },
        ],
      },
    ]);
    expect(await rows("staff?select=...loans(loan:id)&id=eq.2&loans.order=id")).toEqual([{ loan: [1, 2] }]);
    expect(await rows("genres?select=books(id)&id=eq.1&books.limit=5&books.order=id")).toEqual([
      { books: [{ id: 2 }, { id: 4 }] },
    ]);
  });

  test("does not limit the total count", async () => {
    const { status, headers } = await rest("books?order=id", { prefer: "count=exact" });
    expect([status, headers.get("content-range")]).toEqual([206, "0-1/5"]);
  });

  test("is the count above which count=estimated uses the planner's estimate", async () => {
    const rangeOf = async (query: string) =>
      (await rest(`words?${query}`, { prefer: "count=estimated" })).headers.get("content-range");
    expect(await rangeOf("")).toBe("0-1/100");
    expect(await rangeOf("id=lte.2")).toBe("0-1/2");
    expect(await rangeOf("id=eq.99")).toBe("*/0");
  });

  test("does not limit the rows of an aggregate", async () => {
    expect(await rows("books?select=count()")).toEqual([{ count: 5 }]);
  });
});
