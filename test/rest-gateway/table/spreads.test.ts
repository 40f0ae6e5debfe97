import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

const { rows, rest, failure } = useLibrary();

describe("the columns of one row stand among those outside", () => {
  test("null where there is no row", async () => {
    expect(await rows("books?select=id,...covers(colour)&order=id")).toEqual([
      { id: 1, colour: "green" },
      { id: 2, colour: "blue" },
      { id: 3, colour: null },
      { id: 4, colour: "black" },
      { id: 5, colour: null },
    ]);
  });

  test("with aliases, casts and paths", async () => {
    expect(
      await rows("loans?select=id,...books(name:title,facts->print->>city,price::int,long_title)&id=eq.1"),
    ).toEqual([
      { id: 1, name: "Notes on the Engine", city: "London", price: 13, long_title: "Notes on the Engine (66)" },
    ]);
  });

  test("all of them", async () => {
    expect(await rows("books?select=id,...covers(*)&id=in.(1,3)&order=id")).toEqual([
      { id: 1, book_id: 1, colour: "green" },
      { id: 3, book_id: null, colour: null },
    ]);
  });

  test("where they are in select", async () => {
    expect((await rest("books?select=...covers(colour),id&id=eq.1")).text).toBe('[{"colour":"green","id":1}]');
  });

  test("through several levels", async () => {
    expect(
      await rows(
        "covers?select=colour,...books(title,...authors!author_id(name,...countries(country:name)))&book_id=eq.2",
      ),
    ).toEqual([{ colour: "blue", title: "Twenty Thousand Leagues", name: "Jules Verne", country: "France" }]);
  });

  test("and relations of it as objects and arrays", async () => {
    expect(
      await rows(
        "covers?select=colour,...books(genres(name),authors!author_id(name))&book_id=eq.2&books.genres.order=name",
      ),
    ).toEqual([
      { colour: "blue", genres: [{ name: "Adventure" }, { name: "Novel" }], authors: { name: "Jules Verne" } },
    ]);
  });

  test("filtered, with and without !inner", async () => {
    expect(await rows("books?select=id,...covers(colour)&covers.colour=eq.blue&id=lt.3&order=id")).toEqual([
      { id: 1, colour: null },
      { id: 2, colour: "blue" },
    ]);
    expect(await rows("books?select=id,...covers!inner(colour)&covers.colour=like.b*&order=id")).toEqual([
      { id: 2, colour: "blue" },
      { id: 4, colour: "black" },
    ]);
    expect(await rows("books?select=id,...covers(colour)&covers=is.null&order=id")).toEqual([
      { id: 3, colour: null },
      { id: 5, colour: null },
    ]);
  });

  test("ordered by", async () => {
    expect(await rows("books?select=id,...covers(colour)&order=covers(colour)&limit=2")).toEqual([
      { id: 4, colour: "black" },
      { id: 2, colour: "blue" },
    ]);
  });

  test("of a relation that is embedded", async () => {
    expect(await rows("books?select=id,book_genres(weight,...genres(name))&id=eq.2&book_genres.order=weight")).toEqual([
      {
        id: 2,
        book_genres: [
          { weight: 3, name: "Novel" },
          { weight: 9, name: "Adventure" },
        ],
      },
    ]);
  });

  test("nothing of it, where it only filters", async () => {
    expect(await rows("books?select=id,...covers!inner()&covers.colour=eq.blue")).toEqual([{ id: 2 }]);
  });
});

describe("of many rows each column is an array", () => {
  test("an empty one where there are none", async () => {
    expect(
      await rows("authors?select=name,...books!author_id(id,titles:title)&id=gt.1&order=id&books.order=id"),
    ).toEqual([
      { name: "Jules Verne", id: [2, 3], titles: ["Twenty Thousand Leagues", "Around the World, in Eighty Days"] },
      { name: "Mary Shelley", id: [4, 5], titles: ["Frankenstein", "The Last Man"] },
      { name: "Anonymous", id: [], titles: [] },
    ]);
  });

  test("in the order, and as many, as is said", async () => {
    const select = "authors?select=...books!author_id(id,pages)&id=eq.3";
    expect(await rows(`${select}&books.order=id.desc`)).toEqual([{ id: [5, 4], pages: [null, 280] }]);
    expect(await rows(`${select}&books.order=id.desc&books.limit=1`)).toEqual([{ id: [5], pages: [null] }]);
    expect(await rows(`${select}&books.pages=not.is.null`)).toEqual([{ id: [4], pages: [280] }]);
  });

  test("through junctions and functions", async () => {
    expect(await rows("books?select=id,...genres(genres:name)&id=eq.2&genres.order=name")).toEqual([
      { id: 2, genres: ["Adventure", "Novel"] },
    ]);
    expect(await rows("authors?select=id,...fellow_books(books:id)&id=eq.2")).toEqual([{ id: 2, books: [2, 3] }]);
  });

  test("of any type", async () => {
    expect(await rows("authors?select=...books!author_id(tags,notes,facts->sizes)&id=eq.1")).toEqual([
      { tags: [["math", "machine"]], notes: [{ seen: true }], sizes: [[10, 20, 30]] },
    ]);
    expect(await rows("books?select=...book_genres(*)&id=eq.2&book_genres.order=weight")).toEqual([
      { book_id: [2, 2], genre_id: [1, 2], weight: [3, 9] },
    ]);
  });

  test("what one of them refers to is spread into arrays of the same length", async () => {
    expect(await rows("authors?select=...books!author_id(id,...covers(colour))&id=eq.2&books.order=id")).toEqual([
      { id: [2, 3], colour: ["blue", null] },
    ]);
  });

  test("many of many are arrays of arrays", async () => {
    expect(await rows("authors?select=...books!author_id(id,...genres(genre:name))&id=eq.3&books.order=id")).toEqual([
      { id: [4, 5], genre: [["Novel"], []] },
    ]);
  });

  test("relations of them are arrays of objects", async () => {
    expect(await rows("authors?select=...books!author_id(id,covers(colour))&id=eq.2&books.order=id")).toEqual([
      { id: [2, 3], covers: [{ colour: "blue" }, null] },
    ]);
  });

  test("within one that is spread, many of them are arrays", async () => {
    expect(
      await rows("loans?select=id,...books(title,...genres(genres:name))&id=eq.2&books.genres.order=name"),
    ).toEqual([{ id: 2, title: "Twenty Thousand Leagues", genres: ["Adventure", "Novel"] }]);
  });

  test("rows without a match are left out by !inner alone", async () => {
    expect(await rows("authors?select=id,...books!author_id(books:id)&books.id=gt.3&order=id&id=gt.1")).toEqual([
      { id: 2, books: [] },
      { id: 3, books: expect.arrayContaining([4, 5]) },
      { id: 4, books: [] },
    ]);
    expect(await rows("authors?select=id,...books!author_id!inner(books:id)&books.id=eq.5")).toEqual([
      { id: 3, books: [5] },
    ]);
  });
});

test("as CSV the columns are named as in JSON", async () => {
  const { text } = await rest("books?select=id,...covers(tone:colour),...authors!author_id(name)&id=eq.1", {
    headers: { accept: "text/csv" },
  });
  expect(text).toBe('id,tone,name\n1,green,"Ada Byron"');
});

test.each([
  ["books?select=...nothing(id)", 400, "PGRST200"],
  ["books?select=...authors(id)", 300, "PGRST201"],
  ["books?select=...covers(nope)", 400, "42703"],
  ["books?select=...id", 400, "PGRST100"],
  ["authors?select=id,...books!author_id(pages.sum())", 400, "PGRST127"],
])("%s is refused", async (path, ...problem) => expect(await failure(path)).toEqual(problem));
