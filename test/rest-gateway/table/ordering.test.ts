import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

const { rows, rest, failure } = useLibrary();

const idsOf = (found: { id: number }[]) => found.map(({ id }) => id);

test.each([
  ["pages", [1, 3, 4, 2, 5]],
  ["pages.asc", [1, 3, 4, 2, 5]],
  ["pages.desc", [5, 2, 4, 3, 1]],
  ["pages.nullsfirst", [5, 1, 3, 4, 2]],
  ["pages.desc.nullslast", [2, 4, 3, 1, 5]],
  ["author_id.desc,id.desc", [5, 4, 3, 2, 1]],
  ["shelf,price.desc.nullslast", [4, 2, 3, 5, 1]], // an enum has the order of its labels
  ["is_rare.desc.nullslast,id", [1, 2, 3, 4, 5]],
  ["facts->>isbn.desc.nullslast,id", [3, 2, 1, 4, 5]],
  ["facts->print->year.desc.nullslast,id.desc", [3, 2, 1, 5, 4]],
  ["facts->sizes->>-1,id", [1, 2, 3, 4, 5]],
  ["tags->>0.nullsfirst", [5, 1, 4, 2, 3]],
  ["long_title", [3, 4, 1, 5, 2]],
  ["print->>city.desc.nullslast,id.desc", [3, 2, 1, 5, 4]],
  ['"id".desc', [5, 4, 3, 2, 1]],
  [" is_rare.nullsfirst , id.desc ", [5, 4, 3, 2, 1]],
] as [string, number[]][])("books?order=%s returns the ids %j", async (order, ids) => {
  expect(idsOf(await rows(`books?select=id&order=${order}`))).toEqual(ids);
});

test("the first of two order parameters applies", async () => {
  expect(idsOf(await rows("books?select=id&order=id.desc&order=id"))).toEqual([5, 4, 3, 2, 1]);
});

test("rows are ordered by a column that is not selected, and by a field of a composite type", async () => {
  expect(idsOf(await rows("authors?select=id&order=home->>city.desc.nullslast,born"))).toEqual([1, 2, 3, 4]);
});

test("rows are ordered by columns whose names need quotes", async () => {
  expect(await rows('odd names?select="the id"&order="c.d".nullsfirst')).toEqual([{ "the id": 2 }, { "the id": 1 }]);
  expect(await rows("odd names?select=the id&order=and.desc")).toEqual([{ "the id": 2 }, { "the id": 1 }]);
});

describe("rows are ordered by a column of a to-one relation", () => {
  test.each([
    ["covers(colour)", "covers(colour)", [4, 2, 1, 3, 5]],
    ["covers(colour)", "covers(colour).desc.nullslast,id.desc", [1, 2, 4, 5, 3]],
    ["covers()", "covers(colour).nullsfirst,id", [3, 5, 4, 2, 1]],
    ["c:covers(colour)", "c(colour),id", [4, 2, 1, 3, 5]],
    ["authors!author_id(name)", "authors(name).desc,id", [4, 5, 2, 3, 1]],
    ["authors!author_id(name)", "authors(home->>city).desc.nullslast,id", [1, 2, 3, 4, 5]],
    ["...covers(colour)", "covers(colour),id", [4, 2, 1, 3, 5]],
  ] as [string, string, number[]][])("as select=id,%s&order=%s returns the ids %j", async (select, order, ids) => {
    expect(idsOf(await rows(`books?select=id,${select}&order=${order}`))).toEqual(ids);
  });

  test("to which its filters apply first", async () => {
    expect(idsOf(await rows("books?select=id,covers(colour)&covers.colour=neq.black&order=covers(colour),id"))).toEqual(
      [2, 1, 3, 4, 5],
    );
  });

  test("within relations", async () => {
    expect(
      await rows("authors?select=id,books!author_id(id,covers())&books.order=covers(colour).nullsfirst&id=eq.2"),
    ).toEqual([{ id: 2, books: [{ id: 3 }, { id: 2 }] }]);
  });

  test("and ordering by a to-many relation is refused", async () => {
    expect((await rest("books?select=id,genres(name)&order=genres(name)")).json).toEqual({
      code: "PGRST118",
      message: "A related order on 'genres' is not possible",
      details: "'books' and 'genres' do not form a many-to-one or one-to-one relationship",
      hint: null,
    });
    expect(await failure("books?select=id&order=covers(colour)")).toEqual([400, "PGRST108"]);
  });
});

describe("rows are ordered by a name of the select list:", () => {
  test("an aggregate", async () => {
    expect(await rows("books?select=shelf,count()&order=count")).toEqual([
      { shelf: "science", count: 1 },
      { shelf: "fiction", count: 4 },
    ]);
    expect(await rows("books?select=author_id,most:pages.max()&order=most.desc.nullslast")).toEqual([
      { author_id: 2, most: 400 },
      { author_id: 3, most: 280 },
      { author_id: 1, most: 66 },
    ]);
  });

  test("an alias, a cast, a path", async () => {
    expect(await rows("books?select=town:facts->print->>city,count()&order=count.desc,town.nullsfirst")).toEqual([
      { town: null, count: 2 },
      { town: "Paris", count: 2 },
      { town: "London", count: 1 },
    ]);
    expect(await rows("books?select=text:id::text&order=text.desc&limit=2")).toEqual([{ text: "5" }, { text: "4" }]);
    expect(await rows("books?select=city:print->>city&order=city&limit=1")).toEqual([{ city: "London" }]);
  });

  test("a spread column, or an aggregate of it", async () => {
    expect(await rows("books?select=id,...covers(tone:colour)&order=tone.desc.nullslast&limit=1")).toEqual([
      { id: 1, tone: "green" },
    ]);
    expect(await rows("books?select=shelf,...covers(n:colour.count())&order=n")).toEqual([
      { shelf: "science", n: 1 },
      { shelf: "fiction", n: 2 },
    ]);
  });

  test("a name within a relation, and one of a function's rows", async () => {
    expect(await rows("genres?select=name,books(author_id,count())&books.order=count,author_id.desc&id=eq.1")).toEqual([
      {
        name: "Novel",
        books: [
          { author_id: 3, count: 1 },
          { author_id: 2, count: 1 },
        ],
      },
    ]);
    expect(await rows("rpc/books_by?writer=2&select=n:id&order=n.desc")).toEqual([{ n: 3 }, { n: 2 }]);
  });

  test("a name that is not the name of a column", async () => {
    // pages is the column and not the alias in the select
    expect(await rows("books?select=id,pages:price&order=pages.desc.nullslast&limit=1")).toEqual([
      { id: 2, pages: 9.99 },
    ]);
  });

  test.each(["n->x", "covers", "nope"])("and ordering by %s is refused", async (order) => {
    expect(await failure(`books?select=n:id,covers(colour)&order=${order}`)).toEqual([400, "42703"]);
  });
});

test.each([
  ["order=", "PGRST100"],
  ["order=id,", "PGRST100"],
  ["order=id.down", "PGRST100"],
  ["order=id.desc.asc", "PGRST100"],
  ["order=id.nullslast.desc", "PGRST100"],
  ["order=covers(colour", "PGRST100"],
  ["order=nope", "42703"],
  ["order=id;drop table books", "PGRST100"],
])("?%s is refused with %s", async (query, code) => expect(await failure(`books?${query}`)).toEqual([400, code]));

test("ordering by a type without an order is 404, like any operator that does not exist", async () => {
  expect(await failure("books?order=notes")).toEqual([404, "42883"]);
});
