import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

const { rows, rest, failure, sql } = useLibrary();

const idsOf = (found: { id: number }[]) => found.map(({ id }) => id);

describe("the parameters of an embedded relation", () => {
  test("filter its rows, but not the outer rows", async () => {
    expect(await rows("authors?select=id,books!author_id(id)&books.pages=gt.260&order=id")).toEqual([
      { id: 1, books: [] },
      { id: 2, books: [{ id: 2 }] },
      { id: 3, books: [{ id: 4 }] },
      { id: 4, books: [] },
    ]);
    expect(await rows("books?select=id,covers(colour)&covers.colour=eq.blue&id=in.(1,2)&order=id")).toEqual([
      { id: 1, covers: null },
      { id: 2, covers: { colour: "blue" } },
    ]);
  });

  test("may be several conditions and logic trees", async () => {
    const select = "authors?select=id,books!author_id(id)&order=id&books.order=id&id=in.(2,3)";
    expect(await rows(`${select}&books.or=(id.eq.2,pages.is.null)`)).toEqual([
      { id: 2, books: [{ id: 2 }] },
      { id: 3, books: [{ id: 5 }] },
    ]);
    expect(await rows(`${select}&books.not.and=(id.gt.2,id.lt.5)&books.facts->>isbn=not.is.null`)).toEqual([
      { id: 2, books: [{ id: 2 }] },
      { id: 3, books: [] },
    ]);
  });

  test("order and limit the rows for each outer row", async () => {
    expect(
      await rows("authors?select=id,books!author_id(id)&books.order=id.desc&books.limit=1&order=id&id=lt.4"),
    ).toEqual([
      { id: 1, books: [{ id: 1 }] },
      { id: 2, books: [{ id: 3 }] },
      { id: 3, books: [{ id: 5 }] },
    ]);
    expect(await rows("authors?select=id,books!author_id(id)&books.order=id&books.offset=1&id=eq.2")).toEqual([
      { id: 2, books: [{ id: 3 }] },
    ]);
    expect(await rows("authors?select=id,books!author_id(id)&books.limit=0&id=eq.2")).toEqual([{ id: 2, books: [] }]);
  });

  test("work at any depth", async () => {
    expect(
      await rows(
        "authors?select=id,books!author_id(id,genres(name))&id=eq.2&books.order=id&books.genres.order=name&books.genres.limit=1",
      ),
    ).toEqual([
      {
        id: 2,
        books: [
          { id: 2, genres: [{ name: "Adventure" }] },
          { id: 3, genres: [{ name: "Adventure" }] },
        ],
      },
    ]);
    expect(
      await rows(
        "authors?select=id,books!author_id(id,genres(name))&id=eq.3&books.order=id&books.genres.or=(id.eq.1,id.eq.2)",
      ),
    ).toEqual([
      {
        id: 3,
        books: [
          { id: 4, genres: [{ name: "Novel" }] },
          { id: 5, genres: [] },
        ],
      },
    ]);
  });

  test.each([
    "books?covers.colour=eq.blue",
    "books?select=id&covers.select=eq.1",
    "books?select=id,covers(colour)&cover.colour=eq.blue",
    "books?select=id,covers(colour)&covers.books.id=eq.1",
    "books?select=id,covers(colour)&genres.limit=1",
    "books?select=id,covers(colour)&genres.order=name",
    "books?select=id,covers(colour)&genres.or=(id.eq.1,id.eq.2)",
  ])("%s is refused, because the relation is not embedded", async (path) => {
    expect(await failure(path)).toEqual([400, "PGRST108"]);
  });

  test.each([
    ["books?select=id,covers(colour)&covers.nope=eq.1", 400, "42703"],
    ["books?select=id,covers(colour)&covers.limit=x", 400, "PGRST100"],
    ["books?select=id,covers(colour)&covers.limit=-1", 416, "PGRST103"],
    ["books?select=id,covers(colour)&covers.order=nope", 400, "42703"],
  ])("%s is refused", async (path, ...problem) => expect(await failure(path)).toEqual(problem));
});

describe("!inner", () => {
  test("excludes rows without a match", async () => {
    expect(idsOf(await rows("books?select=id,covers!inner(colour)&order=id"))).toEqual([1, 2, 4]);
    expect(idsOf(await rows("books?select=id,covers!left(colour)&order=id"))).toEqual([1, 2, 3, 4, 5]);
    expect(await rows("books?select=id,genres!inner(name)&genres.name=eq.Novel&order=id")).toEqual([
      { id: 2, genres: [{ name: "Novel" }] },
      { id: 4, genres: [{ name: "Novel" }] },
    ]);
  });

  test("works for a relation that is not returned", async () => {
    expect(await rows("books?select=id,genres!inner()&genres.name=eq.Novel&order=id")).toEqual([{ id: 2 }, { id: 4 }]);
  });

  test("works on several levels", async () => {
    expect(
      await rows("authors?select=id,books!author_id!inner(id,genres!inner(name))&books.genres.name=eq.Novel&order=id"),
    ).toEqual([
      { id: 2, books: [{ id: 2, genres: [{ name: "Novel" }] }] },
      { id: 3, books: [{ id: 4, genres: [{ name: "Novel" }] }] },
    ]);
  });

  test("on an inner level excludes only rows of that level", async () => {
    expect(
      await rows("authors?select=id,books!author_id(id,genres!inner(name))&books.genres.name=eq.Novel&order=id"),
    ).toEqual([
      { id: 1, books: [] },
      { id: 2, books: [{ id: 2, genres: [{ name: "Novel" }] }] },
      { id: 3, books: [{ id: 4, genres: [{ name: "Novel" }] }] },
      { id: 4, books: [] },
    ]);
  });

  test("matches only the rows within limit and offset", async () => {
    expect(idsOf(await rows("books?select=id,genres!inner()&genres.offset=1"))).toEqual([2]);
    expect(await rows("books?select=id,genres!inner()&genres.limit=0")).toEqual([]);
    expect(idsOf(await rows("books?select=id,genres!inner()&genres.limit=1&order=id"))).toEqual([1, 2, 3, 4]);
  });

  test("applies to the count", async () => {
    const { headers } = await rest("books?select=id,genres!inner()&genres.name=eq.Novel&limit=1", {
      prefer: "count=exact",
    });
    expect(headers.get("content-range")).toBe("0-0/2");
  });
});

describe("a null filter on a relation", () => {
  test.each([
    ["covers()&covers=is.null", [3, 5]],
    ["covers()&covers=not.is.null", [1, 2, 4]],
    ["covers()&covers=is.not_null", [1, 2, 4]],
    ["genres()&genres=is.null", [5]],
    ["genres()&genres=not.is.null&genres.name=eq.Adventure", [2, 3]],
    ["genres()&genres=is.null&genres.name=eq.Adventure", [1, 4, 5]],
    ["cover:covers()&cover=is.null", [3, 5]],
    ["covers(),genres()&or=(covers.is.null,genres.is.null)", [3, 5]],
    ["covers(),genres()&genres.name=eq.Novel&or=(covers.is.null,genres.not.is.null)", [2, 3, 4, 5]],
    ["covers()&or=(covers.is.null,and(covers.not.is.null,pages.lt.100))", [1, 3, 5]],
    ["covers()&not.or=(covers.is.null,id.eq.1)", [2, 4]],
    // Filters of the relation apply within it, and not in the logic tree of the books.
    ["authors!author_id()&authors.name=like.J*&or=(authors.not.is.null,pages.is.null)", [2, 3, 5]],
  ])("of books?select=id,%s filters the books", async (query, ids) => {
    expect(await rows(`books?select=id,${query}&order=id`)).toEqual(ids.map((id) => ({ id })));
  });

  test("does not change the embedded relation", async () => {
    expect(await rows("books?select=id,covers(colour)&covers=not.is.null&order=id&limit=1")).toEqual([
      { id: 1, covers: { colour: "green" } },
    ]);
  });

  test("works within relations", async () => {
    expect(
      await rows("authors?select=id,books!author_id(id,covers())&books.covers=is.null&id=in.(2,3)&order=id"),
    ).toEqual([
      { id: 2, books: [{ id: 3 }] },
      { id: 3, books: [{ id: 5 }] },
    ]);
  });

  test("is the only filter on a whole relation", async () => {
    expect(await failure("books?select=id,covers()&covers=eq.1")).toEqual([400, "PGRST120"]);
    expect(await failure("books?select=id,covers()&covers=is.true")).toEqual([400, "PGRST120"]);
    expect(await failure("books?select=id,covers()&or=(covers.eq.1,id.eq.1)")).toEqual([400, "PGRST120"]);
  });

  test("is a filter on the column if there is one with the name of the relation", async () => {
    await sql(`create table library.states (id int primary key, name text);
      create table library.orders (id int primary key, state int, constraint state foreign key (state) references library.states);
      insert into library.states values (1, 'new'), (2, 'sent');
      insert into library.orders values (1, 1), (2, 2), (3, null);
      grant select on library.states, library.orders to anon; notify pgrst`);
    await expect.poll(async () => (await rest("orders?select=id,state(name)&order=id")).status).toBe(200);
    expect(await rows("orders?select=id,state(name)&state=eq.2")).toEqual([{ id: 2, state: { name: "sent" } }]);
    expect(await rows("orders?select=id,state(name)&state=is.null")).toEqual([{ id: 3, state: null }]);
    expect(await rows("orders?select=id,state(name)&or=(state.eq.1,id.eq.3)&order=id")).toHaveLength(2);
  });

  test("requires the relation to be embedded", async () => {
    expect(await failure("books?select=id&covers=is.null")).toEqual([400, "42703"]);
  });
});

describe("an alias", () => {
  test("distinguishes two embeds of one relation", async () => {
    expect(
      await rows(
        "authors?select=id,thin:books!author_id(id),thick:books!author_id(id)&thin.pages=lt.260&thick.pages=gt.260&id=eq.2",
      ),
    ).toEqual([{ id: 2, thin: [{ id: 3 }], thick: [{ id: 2 }] }]);
  });

  test("is the name of the relation in parameters, at any depth", async () => {
    const { json, headers } = await rest(
      "authors?select=id,b:books!author_id(id,g:genres(name))&id=eq.2&b.order=id&b.g.order=name&b.g.limit=1",
    );
    expect(json).toEqual([
      {
        id: 2,
        b: [
          { id: 2, g: [{ name: "Adventure" }] },
          { id: 3, g: [{ name: "Adventure" }] },
        ],
      },
    ]);
    expect(headers.get("warning")).toBeNull();
  });

  test("is the name of the relation in order and null filters", async () => {
    expect(idsOf(await rows("books?select=id,c:covers(colour)&order=c(colour)&c=not.is.null"))).toEqual([4, 2, 1]);
    expect(await failure("books?select=id,c:covers(colour)&order=covers(colour)")).toEqual([400, "PGRST108"]);
    expect(await failure("books?select=id,c:covers(colour)&covers=is.null")).toEqual([400, "42703"]);
  });
});

describe("in a parameter, the name of a relation instead of its alias, which is the older syntax,", () => {
  test("works with a warning", async () => {
    const { status, json, headers } = await rest("authors?select=id,b:books!author_id(id)&books.id=gt.2&id=eq.2");
    expect([status, json]).toEqual([200, [{ id: 2, b: [{ id: 3 }] }]]);
    expect(headers.get("warning")).toBe(
      '299 content-service "Embedded resource was referenced by relation name even though it has an alias. ' +
        "This is deprecated and will stop working in a future release. " +
        'Update `books` to `b` in query string filters, orders or limits."',
    );
  });

  test("may be combined with the alias on every level", async () => {
    const { json, headers } = await rest(
      "authors?select=id,b:books!author_id(id,g:genres(name))&id=eq.2&b.id=gt.1&books.id=lt.3&books.genres.order=name&b.g.limit=1",
    );
    expect(json).toEqual([{ id: 2, b: [{ id: 2, g: [{ name: "Adventure" }] }] }]);
    expect(headers.get("warning")).toContain("Update `books` to `b`, `genres` to `g` in");
  });

  test("refers to the first of several relations", async () => {
    expect(
      await rows("authors?select=id,a:books!author_id(id),t:books!translator_id(id)&books.id=lt.2&id=eq.1&t.order=id"),
    ).toEqual([{ id: 1, a: [{ id: 1 }], t: [{ id: 2 }, { id: 3 }] }]);
  });

  test("refers to the relation with that key, if there is one", async () => {
    const { json, headers } = await rest(
      "books?select=id,covers:genres(name),genres:covers(colour)&genres.colour=eq.red&covers.id=eq.1&id=eq.2",
    );
    expect(json).toEqual([{ id: 2, covers: [{ name: "Novel" }], genres: null }]);
    expect(headers.get("warning")).toBeNull();
  });

  test("is percent-encoded in the warning if a header cannot contain it", async () => {
    const { headers } = await rest('books?select=id,"ü\\"":covers(colour)&covers.colour=eq.red&id=eq.1');
    expect(headers.get("warning")).toContain("Update `covers` to `%C3%BC%22` in");
  });
});
