import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

/** A function that overrides the foreign key from authors to countries, and functions in another schema. */
const FUNCTIONS = `
  create function library.countries(library.authors) returns setof library.countries stable rows 1 language sql
  begin atomic; select c.* from library.countries c where c.code = coalesce($1.country_code, 'US'); end;
  grant execute on function library.countries to anon;
  create materialized view library.fat_books as select id, title, author_id from library.books where pages > 260;
  grant select on library.fat_books to anon;`;

/** A view that shows the column of a key twice. */
const TWINS = `
  create view library.twins as select id, author_id, author_id as writer from library.books;
  grant select on library.twins to anon;`;

/** A schema of views, over tables that are not served. */
const DESK = `
  create schema desk;
  create view desk.authors as select * from library.authors;
  create view desk.books as select id, title, author_id, pages from library.books;
  create view desk.volumes as select id, title from library.books;
  create view desk.staff as select * from library.staff;
  create view desk.loans as select * from library.loans;
  grant usage on schema desk to anon;
  grant select on all tables in schema desk to anon;
  create schema floor;
  create view floor.staff as select * from library.staff;
  create view floor.clerks as
    select clerk.id, clerk.name, clerk.boss_id, boss.boss_id as head_id
    from library.staff as clerk join library.staff as boss on boss.id = clerk.boss_id;
  grant usage on schema floor to anon;
  grant select on all tables in schema floor to anon;`;

const { rows, failure } = useLibrary({}, `${FUNCTIONS}${TWINS}`);

describe("a view inherits the foreign keys of its tables", () => {
  test("for a to-one relation", async () => {
    expect(await rows("novels?select=id,authors(name)&id=eq.4")).toEqual([
      { id: 4, authors: { name: "Mary Shelley" } },
    ]);
    expect(await rows("novels?select=id,covers(colour)&order=id&id=lt.4")).toEqual([
      { id: 2, covers: { colour: "blue" } },
      { id: 3, covers: null },
    ]);
  });

  test("for a to-many relation", async () => {
    expect(await rows("authors?select=name,novels(title)&id=in.(1,3)&order=id&novels.order=id")).toEqual([
      { name: "Ada Byron", novels: [] },
      { name: "Mary Shelley", novels: [{ title: "Frankenstein" }, { title: "The Last Man" }] },
    ]);
  });

  test("for a junction", async () => {
    expect(await rows("novels?select=id,genres(name)&id=eq.2&genres.order=id")).toEqual([
      { id: 2, genres: [{ name: "Novel" }, { name: "Adventure" }] },
    ]);
    expect(await rows("genres?select=name,novels(id)&id=eq.2&novels.order=id")).toEqual([
      { name: "Adventure", novels: [{ id: 2 }, { id: 3 }] },
    ]);
  });

  test("between two views", async () => {
    expect(await rows("writers?select=name,novels(id)&id=eq.2&novels.order=id")).toEqual([
      { name: "Jules Verne", novels: [{ id: 2 }, { id: 3 }] },
    ]);
    expect(await rows("novels?select=id,writers(name)&id=eq.5")).toEqual([
      { id: 5, writers: { name: "Mary Shelley" } },
    ]);
  });

  test("under the column names of a view of a view", async () => {
    expect(await rows("short_novels?select=name,authors(name)&order=id")).toEqual([
      { name: "Around the World, in Eighty Days", authors: { name: "Jules Verne" } },
      { name: "Frankenstein", authors: { name: "Mary Shelley" } },
    ]);
    expect(await rows("writers?select=name,short_novels(name)&id=eq.3")).toEqual([
      { name: "Mary Shelley", short_novels: [{ name: "Frankenstein" }] },
    ]);
  });

  test("even if it is materialized", async () => {
    expect(await rows("fat_books?select=id,authors(name)&order=id")).toEqual([
      { id: 2, authors: { name: "Jules Verne" } },
      { id: 4, authors: { name: "Mary Shelley" } },
    ]);
  });

  test("but a hint with the name of a key or its column selects the table and not a view", async () => {
    expect(await rows("books?select=id,author_id(born)&id=eq.1")).toEqual([
      { id: 1, author_id: { born: "1815-12-10" } },
    ]);
    expect(await rows("books?select=id,books_author_id_fkey(born)&id=eq.1")).toEqual([
      { id: 1, books_author_id_fkey: { born: "1815-12-10" } },
    ]);
  });

  test("even if there are several keys", async () => {
    expect(await failure("writers?select=name,books(title)")).toEqual([300, "PGRST201"]);
    expect(await rows("writers?select=name,books!translator_id(id)&id=eq.1&books.order=id")).toEqual([
      { name: "Ada Byron", books: [{ id: 2 }, { id: 3 }] },
    ]);
  });
});

describe("the name of a key or its column selects", () => {
  test("for each column of a view that shows the key, the table", async () => {
    expect(await rows("twins?select=writer(name),author_id(born)&id=eq.4")).toEqual([
      { writer: { name: "Mary Shelley" }, author_id: { born: "1797-08-30" } },
    ]);
  });

  describe("if only views are served,", () => {
    const { rows, rest, failure } = useLibrary({ DB_SCHEMAS: "desk, floor" }, DESK);
    const FLOOR = { headers: { "accept-profile": "floor" } };

    test("the view of the table", async () => {
      for (const key of ["author_id", "books_author_id_fkey"])
        expect(await rows(`books?select=id,${key}(name)&id=eq.4`)).toEqual([
          { id: 4, [key]: { name: "Mary Shelley" } },
        ]);
      expect(await rows("authors?select=books_author_id_fkey(id)&id=eq.1")).toEqual([
        { books_author_id_fkey: [{ id: 1 }] },
      ]);
    });

    test("the row of the same view", async () => {
      expect(await rows("staff?select=name,boss_id(name)&id=eq.2")).toEqual([
        { name: "Clerk", boss_id: { name: "Head" } },
      ]);
      expect(await rows("clerks?select=name,boss_id(name),head_id(name)&order=id", FLOOR)).toEqual([
        { name: "Clerk", boss_id: null, head_id: null },
        { name: "Porter", boss_id: null, head_id: null },
        { name: "Trainee", boss_id: { name: "Clerk" }, head_id: null },
      ]);
    });

    test("the column, if another view shows the key twice", async () => {
      const { status, json } = await rest("clerks?select=name,staff(name)", FLOOR);
      expect(status).toBe(300);
      expect(json.hint).toContain("'staff!boss_id', 'staff!head_id'");
      expect(await rows("clerks?select=name,staff!head_id(name)&id=eq.4", FLOOR)).toEqual([
        { name: "Trainee", staff: { name: "Head" } },
      ]);
    });

    test("the rows that refer to a column", async () => {
      expect(await rows("staff?select=name,id(day)&id=eq.3")).toEqual([
        { name: "Porter", id: [{ day: "2024-05-03" }] },
      ]);
    });

    test("nothing, if there are two views of the table", async () => {
      expect(await failure("loans?select=book_id(title)")).toEqual([300, "PGRST201"]);
      expect(await failure("books?select=id,pages(id)")).toEqual([400, "PGRST200"]);
    });
  });
});

describe("a function from a row to rows is a relation", () => {
  test("to many rows", async () => {
    expect(await rows("authors?select=name,fellow_books(id)&order=id&id=gt.2")).toEqual([
      { name: "Mary Shelley", fellow_books: [{ id: 4 }, { id: 5 }] },
      { name: "Anonymous", fellow_books: [] },
    ]);
  });

  test("to one row, if it is declared with ROWS 1", async () => {
    expect(await rows("authors?select=name,first_book(id)&order=id&id=gt.2")).toEqual([
      { name: "Mary Shelley", first_book: { id: 4 } },
      { name: "Anonymous", first_book: null },
    ]);
  });

  test("with its own relations, filters, order and limit", async () => {
    expect(
      await rows(
        "authors?select=name,works:fellow_books(id,covers(colour))&id=eq.2&works.id=gt.1&works.order=id.desc&works.limit=1",
      ),
    ).toEqual([{ name: "Jules Verne", works: [{ id: 3, covers: null }] }]);
  });

  test("for inner joins and null filters", async () => {
    expect(await rows("authors?select=id,fellow_books!inner()&fellow_books.shelf=eq.science")).toEqual([{ id: 1 }]);
    expect(await rows("authors?select=id,first_book()&first_book=is.null")).toEqual([{ id: 4 }]);
  });

  test("for ordering", async () => {
    expect(await rows("authors?select=id,first_book(title)&order=first_book(title).nullsfirst&id=neq.3")).toEqual([
      { id: 4, first_book: null },
      { id: 1, first_book: { title: "Notes on the Engine" } },
      { id: 2, first_book: { title: "Twenty Thousand Leagues" } },
    ]);
  });

  test("that hides a foreign key to a table with its name", async () => {
    expect(await rows("authors?select=name,countries(code)&id=in.(1,4)&order=id")).toEqual([
      { name: "Ada Byron", countries: { code: "GB" } },
      { name: "Anonymous", countries: { code: "US" } },
    ]);
  });

  test("within another relation", async () => {
    expect(await rows("books?select=id,authors!author_id(first_book(id))&id=eq.5")).toEqual([
      { id: 5, authors: { first_book: { id: 4 } } },
    ]);
  });

  test("only for the rows of its argument's table", async () => {
    expect(await failure("writers?select=name,fellow_books(id)")).toEqual([400, "PGRST200"]);
  });
});

test("the rows that a function returns have the relations of their table", async () => {
  expect(await rows("rpc/books_by?writer=2&select=id,covers(colour),genres(name),author_id(name)&id=eq.3")).toEqual([
    { id: 3, covers: null, genres: [{ name: "Adventure" }], author_id: { name: "Jules Verne" } },
  ]);
});
