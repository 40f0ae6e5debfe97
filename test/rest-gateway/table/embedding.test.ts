import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

/** Two relationships between films and people through one table, a junction from people to people, and a one-to-one key. */
const CREDITS = `
  set search_path = library;
  create table people (id int primary key, name text not null);
  create table films (id int primary key, name text not null);
  create table credits (
    film_id int references films on delete cascade,
    actor_id int constraint credits_actor references people on delete cascade,
    writer_id int constraint credits_writer references people on delete cascade,
    primary key (film_id, actor_id, writer_id)
  );
  create table friends (
    one_id int constraint friends_one references people on delete cascade,
    other_id int constraint friends_other references people on delete cascade,
    primary key (one_id, other_id)
  );
  insert into people values (1, 'Ann'), (2, 'Ben'), (3, 'Cid');
  insert into films values (1, 'Film');
  insert into credits values (1, 1, 2), (1, 3, 2);
  insert into friends values (1, 2), (1, 3);
  create table guests (id int primary key, name text not null);
  create table badges (id int primary key references guests on delete cascade, colour text not null);
  insert into guests values (1, 'Eve');
  insert into badges values (1, 'red');
  grant select on people, films, credits, friends, guests, badges to anon;
  reset search_path;`;

const { rows, rest, failure } = useLibrary({}, CREDITS);

describe("a to-one relation", () => {
  test("is an object", async () => {
    expect(await rows("loans?select=id,books(title)&id=eq.1")).toEqual([
      { id: 1, books: { title: "Notes on the Engine" } },
    ]);
  });

  test("is null without a related row", async () => {
    expect(await rows("loans?select=id,staff(name)&order=id")).toEqual([
      { id: 1, staff: { name: "Clerk" } },
      { id: 2, staff: { name: "Clerk" } },
      { id: 3, staff: { name: "Porter" } },
      { id: 4, staff: null },
    ]);
  });

  test("is also an object in the other direction if the key is unique", async () => {
    expect(await rows("covers?select=colour,books(title)&book_id=eq.2")).toEqual([
      { colour: "blue", books: { title: "Twenty Thousand Leagues" } },
    ]);
    expect(await rows("books?select=id,covers(colour)&id=in.(2,3)&order=id")).toEqual([
      { id: 2, covers: { colour: "blue" } },
      { id: 3, covers: null },
    ]);
  });
});

describe("a to-many relation", () => {
  test("is an array, empty without related rows", async () => {
    expect(await rows("books?select=id,editions(number,year)&id=in.(1,2)&order=id&editions.order=number")).toEqual([
      { id: 1, editions: [] },
      {
        id: 2,
        editions: [
          { number: 1, year: 1870 },
          { number: 2, year: 1871 },
        ],
      },
    ]);
  });

  test("may have a key of two columns", async () => {
    expect(await rows("copies?select=id,editions(year)&order=id")).toEqual([
      { id: 1, editions: { year: 1870 } },
      { id: 2, editions: { year: 1870 } },
      { id: 3, editions: { year: 1871 } },
      { id: 4, editions: { year: 1818 } },
    ]);
    expect(await rows("editions?select=year,copies(id)&order=year&copies.order=id")).toEqual([
      { year: 1818, copies: [{ id: 4 }] },
      { year: 1870, copies: [{ id: 1 }, { id: 2 }] },
      { year: 1871, copies: [{ id: 3 }] },
    ]);
  });
});

describe("a many-to-many relation", () => {
  test("embeds the rows behind the junction, in both directions", async () => {
    expect(await rows("books?select=id,genres(name)&id=in.(2,5)&order=id&genres.order=name")).toEqual([
      { id: 2, genres: [{ name: "Adventure" }, { name: "Novel" }] },
      { id: 5, genres: [] },
    ]);
    expect(await rows("genres?select=name,books(id)&order=name&books.order=id")).toEqual([
      { name: "Adventure", books: [{ id: 2 }, { id: 3 }] },
      { name: "Essay", books: [{ id: 1 }] },
      { name: "Novel", books: [{ id: 2 }, { id: 4 }] },
    ]);
  });

  test("returns the columns of the junction if the junction is named", async () => {
    expect(await rows("books?select=id,book_genres(weight,genres(name))&id=eq.4")).toEqual([
      { id: 4, book_genres: [{ weight: 7, genres: { name: "Novel" } }] },
    ]);
  });
});

test("relations are embedded three levels deep", async () => {
  expect(
    await rows(
      "countries?select=name,authors(name,books!author_id(title,covers(colour)))&code=eq.FR&authors.books.order=id",
    ),
  ).toEqual([
    {
      name: "France",
      authors: [
        {
          name: "Jules Verne",
          books: [
            { title: "Twenty Thousand Leagues", covers: { colour: "blue" } },
            { title: "Around the World, in Eighty Days", covers: null },
          ],
        },
      ],
    },
  ]);
});

test("partitioned tables have relations", async () => {
  expect(await rows("books?select=id,loans(id,day)&id=in.(1,2)&order=id&loans.order=id")).toEqual([
    { id: 1, loans: [{ id: 1, day: "2023-05-01" }] },
    {
      id: 2,
      loans: [
        { id: 2, day: "2024-05-02" },
        { id: 3, day: "2024-05-03" },
      ],
    },
  ]);
});

describe("a table with a foreign key to itself", () => {
  test("embeds by its name the rows that refer to a row", async () => {
    expect(await rows("staff?select=name,staff(name)&id=in.(1,4)&order=id&staff.order=id")).toEqual([
      { name: "Head", staff: [{ name: "Clerk" }, { name: "Porter" }] },
      { name: "Trainee", staff: [] },
    ]);
    expect(await rows("staff?select=name,reports:staff!boss_id(name)&id=eq.2")).toEqual([
      { name: "Clerk", reports: [{ name: "Trainee" }] },
    ]);
  });

  test.each(["boss_id", "staff_boss_id_fkey"])("embeds by %s the row that a row refers to", async (key) => {
    expect(await rows(`staff?select=name,boss:${key}(name)&id=in.(1,2)&order=id`)).toEqual([
      { name: "Head", boss: null },
      { name: "Clerk", boss: { name: "Head" } },
    ]);
  });

  test("embeds both at the same time, on several levels", async () => {
    expect(await rows("staff?select=name,boss:boss_id(name,boss:boss_id(name)),staff(name)&id=eq.4")).toEqual([
      { name: "Trainee", boss: { name: "Clerk", boss: { name: "Head" } }, staff: [] },
    ]);
  });
});

describe("a hint selects one of several relationships:", () => {
  test.each([
    ["by the key", "authors!books_translator_id_fkey", "authors"],
    ["by its column", "authors!translator_id", "authors"],
    ["by the key in place of the table", "books_translator_id_fkey", "books_translator_id_fkey"],
    ["by its column in place of the table", "translator_id", "translator_id"],
  ])("%s", async (_, relation, key) => {
    expect(await rows(`books?select=id,${relation}(name)&id=eq.2`)).toEqual([{ id: 2, [key]: { name: "Ada Byron" } }]);
  });

  test("in the opposite direction too", async () => {
    expect(
      await rows(
        "authors?select=wrote:books!author_id(id),translated:books!books_translator_id_fkey(id)&id=eq.1&translated.order=id",
      ),
    ).toEqual([{ wrote: [{ id: 1 }], translated: [{ id: 2 }, { id: 3 }] }]);
  });

  test("by the name of the junction", async () => {
    expect(await rows("books?select=id,genres!book_genres(name)&id=eq.1")).toEqual([
      { id: 1, genres: [{ name: "Essay" }] },
    ]);
  });

  test("by the key of a junction with two keys to the same table", async () => {
    expect(
      await rows("films?select=actors:people!credits_actor(name),writers:people!credits_writer(name)&actors.order=id"),
    ).toEqual([{ actors: [{ name: "Ann" }, { name: "Cid" }], writers: [{ name: "Ben" }, { name: "Ben" }] }]);
  });

  test("by the key of a junction from a table to itself", async () => {
    expect(await rows("people?select=name,people!friends_other(name)&id=eq.1&people.order=id")).toEqual([
      { name: "Ann", people: [{ name: "Ben" }, { name: "Cid" }] },
    ]);
    expect(await rows("people?select=name,people!friends_one(name)&id=eq.2")).toEqual([
      { name: "Ben", people: [{ name: "Ann" }] },
    ]);
  });

  test("together with a join type and an alias, in any order", async () => {
    for (const hints of ["!translator_id!inner", "!inner!translator_id"])
      expect(await rows(`books?select=id,by:authors${hints}(name)&order=id`)).toEqual([
        { id: 2, by: { name: "Ada Byron" } },
        { id: 3, by: { name: "Ada Byron" } },
      ]);
  });
});

describe("the name of a column selects", () => {
  test.each<[string, string, object[]]>([
    ["the row that it refers to", "loans?select=staff_id(name)&id=eq.1", [{ staff_id: { name: "Clerk" } }]],
    [
      "that row next to the column",
      "loans?select=staff_id,who:staff_id(name)&id=eq.1",
      [{ staff_id: 2, who: { name: "Clerk" } }],
    ],
    ["the row of a one-to-one key", "badges?select=id(name),colour", [{ id: { name: "Eve" }, colour: "red" }]],
    ["the one row that refers to it", "guests?select=name,id(colour)", [{ name: "Eve", id: { colour: "red" } }]],
    [
      "the rows that refer to it, but not those of the same table",
      "staff?select=name,id(day)&id=eq.3",
      [{ name: "Porter", id: [{ day: "2024-05-03" }] }],
    ],
  ])("%s", async (_, path, found) => expect(await rows(path)).toEqual(found));

  test("nothing, if several keys refer to it", async () => {
    expect(await failure("books?select=id(*)")).toEqual([300, "PGRST201"]);
  });
});

describe("a relation without columns", () => {
  test.each<[string, object[]]>([
    ["books?select=id,authors!author_id()&id=eq.1", [{ id: 1 }]],
    ["books?select=id,authors!author_id(countries())&id=eq.1", [{ id: 1 }]],
    ["books?select=id,authors!author_id(countries(authors()))&id=eq.1", [{ id: 1 }]],
    ["books?select=id,genres(book_genres(),books())&id=eq.1", [{ id: 1 }]],
    ["books?select=id,...authors!author_id(countries())&id=eq.1", [{ id: 1 }]],
    ["books?select=id,authors!author_id(name,countries())&id=eq.1", [{ id: 1, authors: { name: "Ada Byron" } }]],
    ["authors?select=id,countries!inner(authors!inner())&countries.authors.id=eq.2", [{ id: 2 }]],
  ])("only filters: %s", async (path, found) => expect(await rows(path)).toEqual(found));
});

describe("several relationships without a hint", () => {
  test("are 300 with the list of relationships", async () => {
    const { status, json } = await rest("books?select=id,authors(name)");
    expect(status).toBe(300);
    expect(json).toEqual({
      code: "PGRST201",
      message: "Could not embed because more than one relationship was found for 'books' and 'authors'",
      details: [
        {
          cardinality: "many-to-one",
          embedding: "books with authors",
          relationship: "books_author_id_fkey using books(author_id) and authors(id)",
        },
        {
          cardinality: "many-to-one",
          embedding: "books with authors",
          relationship: "books_translator_id_fkey using books(translator_id) and authors(id)",
        },
      ],
      hint: "Try changing 'authors' to one of the following: 'authors!books_author_id_fkey', 'authors!books_translator_id_fkey'. Find the desired relationship in the 'details' key.",
    });
  });

  test("are 300 for junctions, too", async () => {
    const { status, json } = await rest("films?select=people(name)");
    expect(status).toBe(300);
    expect(json.details[0]).toEqual({
      cardinality: "many-to-many",
      embedding: "films with people",
      relationship: "credits using credits_film_id_fkey(film_id) and credits_actor(actor_id)",
    });
    expect(json.hint).toContain("'people!credits_actor', 'people!credits_writer'");
  });
});

describe("an unknown relationship", () => {
  test("is 400 with a suggestion", async () => {
    expect((await rest("books?select=id,genre(name)")).json).toEqual({
      code: "PGRST200",
      message: "Could not find a relationship between 'books' and 'genre' in the schema cache",
      details:
        "Searched for a foreign key relationship between 'books' and 'genre' in the schema 'library', but no matches were found.",
      hint: "Perhaps you meant 'genres' instead of 'genre'.",
    });
    const unknown = (await rest("books?select=id,authors!unknown(name)")).json;
    expect(unknown.hint).toMatch(/^'books' has relationships with .*authors/);
    expect(unknown.details).toBe(
      "Searched for a foreign key relationship between 'books' and 'authors' using the hint 'unknown' in the schema 'library', but no matches were found.",
    );
  });

  test.each([
    "books?select=countries(name)", // no direct relationship
    "copies?select=books(title)", // only by another column
    "books?select=loans_2024(id)", // a partition has no relationships
    "shelves?select=books(title)", // no foreign key
    "people?select=people(name)", // only with a hint
    "books?select=nothing(id)",
    'books?select=authors!"inner"(name)', // a hint
  ])("is 400 for %s", async (path) => expect(await failure(path)).toEqual([400, "PGRST200"]));
});

test.each([
  ["books?select=covers(", "PGRST100"],
  ["books?select=covers(colour", "PGRST100"],
  ["books?select=covers!(colour)", "PGRST100"],
  ["books?select=covers!inner!left(colour)", "PGRST100"],
  ["books?select=covers(nope)", "42703"],
])("%s is refused with %s", async (path, code) => expect(await failure(path)).toEqual([400, code]));
