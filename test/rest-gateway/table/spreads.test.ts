import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

const { rows, rest, failure } = useLibrary();

describe("a spread to-one relation adds its columns to the outer row", () => {
  test("with null values if there is no related row", async () => {
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

  test("with all its columns for *", async () => {
    expect(await rows("books?select=id,...covers(*)&id=in.(1,3)&order=id")).toEqual([
      { id: 1, book_id: 1, colour: "green" },
      { id: 3, book_id: null, colour: null },
    ]);
  });

  test("in the order of the select", async () => {
    expect((await rest("books?select=...covers(colour),id&id=eq.1")).text).toBe('[{"colour":"green","id":1}]');
  });

  test("through several levels", async () => {
    expect(
      await rows(
        "covers?select=colour,...books(title,...authors!author_id(name,...countries(country:name)))&book_id=eq.2",
      ),
    ).toEqual([{ colour: "blue", title: "Twenty Thousand Leagues", name: "Jules Verne", country: "France" }]);
  });

  test("with its relations as objects and arrays", async () => {
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

  test("and may order the rows", async () => {
    expect(await rows("books?select=id,...covers(colour)&order=covers(colour)&limit=2")).toEqual([
      { id: 4, colour: "black" },
      { id: 2, colour: "blue" },
    ]);
  });

  test("under their names in the select too", async () => {
    const ordered = [
      { id: 4, tone: "black" },
      { id: 2, tone: "blue" },
    ];
    expect(await rows("books?select=id,...covers(tone:colour)&order=covers(tone)&limit=2")).toEqual(ordered);
    expect(await rows("books?select=id,...covers(tone:colour)&order=tone&limit=2")).toEqual(ordered);
    expect(await rows("books?select=id,...covers(tone:colour::text)&order=covers(tone)&limit=2")).toEqual(ordered);
    expect(await rows("books?select=id,...covers(*)&order=colour&limit=1")).toEqual([
      { id: 4, book_id: 4, colour: "black" },
    ]);
    expect(
      await rows("covers?select=colour,...books(title,...authors!author_id(name))&order=books(name).desc&limit=1"),
    ).toEqual([{ colour: "black", title: "Frankenstein", name: "Mary Shelley" }]);
  });

  test("within an embedded relation", async () => {
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

  test("without columns if it only filters", async () => {
    expect(await rows("books?select=id,...covers!inner()&covers.colour=eq.blue")).toEqual([{ id: 2 }]);
  });
});

describe("a spread to-many relation adds an array for each column,", () => {
  test("which is empty without related rows", async () => {
    expect(
      await rows("authors?select=name,...books!author_id(id,titles:title)&id=gt.1&order=id&books.order=id"),
    ).toEqual([
      { name: "Jules Verne", id: [2, 3], titles: ["Twenty Thousand Leagues", "Around the World, in Eighty Days"] },
      { name: "Mary Shelley", id: [4, 5], titles: ["Frankenstein", "The Last Man"] },
      { name: "Anonymous", id: [], titles: [] },
    ]);
  });

  test("with its order and limit", async () => {
    const select = "authors?select=...books!author_id(id,pages)&id=eq.3";
    expect(await rows(`${select}&books.order=id.desc`)).toEqual([{ id: [5, 4], pages: [null, 280] }]);
    expect(await rows(`${select}&books.order=id.desc&books.limit=1`)).toEqual([{ id: [5], pages: [null] }]);
    expect(await rows(`${select}&books.pages=not.is.null`)).toEqual([{ id: [4], pages: [280] }]);
  });

  test("for junctions and functions too", async () => {
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

  test("with arrays of the same length for a nested to-one spread", async () => {
    expect(await rows("authors?select=...books!author_id(id,...covers(colour))&id=eq.2&books.order=id")).toEqual([
      { id: [2, 3], colour: ["blue", null] },
    ]);
  });

  test("with arrays of arrays for a nested to-many spread", async () => {
    expect(await rows("authors?select=...books!author_id(id,...genres(genre:name))&id=eq.3&books.order=id")).toEqual([
      { id: [4, 5], genre: [["Novel"], []] },
    ]);
  });

  test("with arrays of objects for its relations", async () => {
    expect(await rows("authors?select=...books!author_id(id,covers(colour))&id=eq.2&books.order=id")).toEqual([
      { id: [2, 3], covers: [{ colour: "blue" }, null] },
    ]);
  });

  test("within a spread to-one relation too", async () => {
    expect(
      await rows("loans?select=id,...books(title,...genres(genres:name))&id=eq.2&books.genres.order=name"),
    ).toEqual([{ id: 2, title: "Twenty Thousand Leagues", genres: ["Adventure", "Novel"] }]);
  });

  test("and excludes rows without a match only with !inner", async () => {
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

test("CSV has the same column names as JSON", async () => {
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
