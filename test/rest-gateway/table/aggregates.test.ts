import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

/** A table with a column called count. */
const TALLIES = `
  create table library.tallies (id int primary key, count int);
  insert into library.tallies values (1, 7), (2, 8);
  grant select on library.tallies to anon;`;

const { rows, rest, failure, sql } = useLibrary({}, TALLIES);

test.each([
  ["count()", { count: 5 }],
  ["count", { count: 5 }],
  ["n:count()", { n: 5 }],
  ["pages.count()", { count: 4 }],
  ["pages.sum()", { sum: 996 }],
  ["pages.avg()", { avg: 249 }],
  ["pages.min(),most:pages.max()", { min: 66, most: 400 }],
  ["title.min()", { min: "Around the World, in Eighty Days" }],
  ["total:price.sum()", { total: 40.49 }],
  ["price::int.sum()", { sum: 41 }],
  ["price.sum()::int", { sum: 40 }],
  ["total:price::int.sum()::text", { total: "41" }],
  ["pages::text.max()", { max: "66" }],
  ["facts->print->>year::int.max()", { max: 1872 }],
  ["facts->sizes->0::int.sum()", { sum: 50 }],
  ["long_title.max()", { max: "Twenty Thousand Leagues (400)" }],
])("GET /books?select=%s returns the one row %j", async (select, row) => {
  expect(await rows(`books?select=${select}`)).toEqual([row]);
});

test("count names a column called count, and count() is the number of rows", async () => {
  expect(await rows("tallies?select=count&order=id")).toEqual([{ count: 7 }, { count: 8 }]);
  expect(await rows("tallies?select=count()")).toEqual([{ count: 2 }]);
  expect(await rows("tallies?select=count()::text")).toEqual([{ count: "2" }]);
  expect(await rows("tallies?select=count.sum()")).toEqual([{ sum: 15 }]);
});

test("filters apply before aggregates", async () => {
  expect(await rows("books?select=count(),pages.sum()&shelf=eq.fiction&pages=not.is.null")).toEqual([
    { count: 3, sum: 930 },
  ]);
  expect(await rows("books?select=count(),pages.sum()&id=eq.99")).toEqual([{ count: 0, sum: null }]);
});

describe("an aggregate groups the rows by the other columns of the select", () => {
  test.each<[string, object[]]>([
    [
      "shelf,count()",
      [
        { shelf: "fiction", count: 4 },
        { shelf: "science", count: 1 },
      ],
    ],
    [
      "kind:shelf,pages.sum()",
      [
        { kind: "fiction", sum: 930 },
        { kind: "science", sum: 66 },
      ],
    ],
    [
      "facts->print->>city,count()",
      [
        { city: "London", count: 1 },
        { city: "Paris", count: 2 },
        { city: null, count: 2 },
      ],
    ],
    [
      "notes,count()",
      [
        { notes: null, count: 3 },
        { notes: { seen: false }, count: 1 },
        { notes: { seen: true }, count: 1 },
      ],
    ],
    [
      "covers(colour),count()",
      [
        { covers: { colour: "black" }, count: 1 },
        { covers: { colour: "blue" }, count: 1 },
        { covers: { colour: "green" }, count: 1 },
        { covers: null, count: 2 },
      ],
    ],
    [
      "genres(name),count()",
      [
        { genres: [], count: 1 },
        { genres: [{ name: "Adventure" }], count: 1 },
        { genres: [{ name: "Essay" }], count: 1 },
        { genres: [{ name: "Novel" }, { name: "Adventure" }], count: 1 },
        { genres: [{ name: "Novel" }], count: 1 },
      ],
    ],
  ])("for select=%s", async (select, groups) => {
    const found = await rows(`books?select=${select}`);
    expect(found).toHaveLength(groups.length);
    expect(found).toEqual(expect.arrayContaining(groups));
  });

  test("for all columns, of any type", async () => {
    expect(await rows("books?select=*,count()&id=eq.1")).toEqual([
      expect.objectContaining({ id: 1, notes: { seen: true }, count: 1 }),
    ]);
  });
});

describe("an embedded relation without columns filters the groups, and is none", () => {
  const cities = (...counts: readonly (readonly [string | null, number])[]) =>
    counts.map(([city, count]) => ({ city, count }));
  test.each<[string, object[]]>([
    [
      "books?select=city:facts->print->>city,id.count(),covers!inner()&order=facts->print->>city",
      cities(["London", 1], ["Paris", 1], [null, 1]),
    ],
    [
      "books?select=city:facts->print->>city,count(),covers!inner()&covers.colour=neq.green&order=city.desc",
      cities([null, 1], ["Paris", 1]),
    ],
    [
      "books?select=city:facts->print->>city,count(),covers()&covers=is.null&order=city",
      cities(["Paris", 1], [null, 1]),
    ],
    [
      "books?select=city:facts->print->>city,count(),...covers!inner()&order=city.nullsfirst",
      cities([null, 1], ["London", 1], ["Paris", 1]),
    ],
    [
      "books?select=city:facts->print->>city,count(),genres!inner()&genres.name=eq.Adventure&order=city",
      cities(["Paris", 2]),
    ],
    [
      "books?select=city:facts->print->>city,count(),authors!author_id!inner(countries!inner())&authors.countries.code=eq.FR",
      cities(["Paris", 2]),
    ],
    [
      "authors?select=country:country_code,n:count(),books!author_id!inner(covers!inner())&books.covers.colour=eq.blue",
      [{ country: "FR", n: 1 }],
    ],
    [
      "genres?select=name,books(city:facts->print->>city,pages.sum(),covers!inner())&books.order=city&order=id&id=lt.3",
      [
        {
          name: "Novel",
          books: [
            { city: "Paris", sum: 400 },
            { city: null, sum: 280 },
          ],
        },
        { name: "Adventure", books: [{ city: "Paris", sum: 400 }] },
      ],
    ],
  ])("GET /%s", async (path, groups) => expect(await rows(path)).toEqual(groups));
});

describe("of a column, a part of JSON or a computed field", () => {
  const AGGREGATES = ["count", "sum", "avg", "min", "max"] as const;
  const FIELDS: readonly (readonly [field: string, sql: string])[] = [
    ["pages", "b.pages"],
    ["price", "b.price"],
    ["title", "b.title"],
    ["shelf", "b.shelf"],
    ["tags", "b.tags"],
    ["lent", "b.lent"],
    ["words", "b.words"],
    ["is_rare", "b.is_rare"],
    ["facts", "b.facts"],
    ["notes", "b.notes"],
    ["pages::text", "b.pages::text"],
    ["facts->print", "b.facts -> 'print'"],
    ["facts->print->>city", "b.facts -> 'print' ->> 'city'"],
    ["facts->print->>year::int", "(b.facts -> 'print' ->> 'year')::int"],
    ["facts->print->year", "b.facts -> 'print' -> 'year'"],
    ["facts->sizes->0", "b.facts -> 'sizes' -> 0"],
    ["facts->sizes->>-1::numeric", "(b.facts -> 'sizes' ->> -1)::numeric"],
    ["notes->>seen", "b.notes ->> 'seen'"],
    ["tags->>0", "b.tags[1]"],
    ["long_title", "library.long_title(b)"],
    ["print->>city", "library.print(b) ->> 'city'"],
  ];

  test.each(AGGREGATES)("%s() is that of Postgres, or its error", async (aggregate) => {
    const found: unknown[] = [];
    const expected: unknown[] = [];
    for (const [field, expression] of FIELDS) {
      const { status, json } = await rest(`books?select=value:${field}.${aggregate}()`);
      found.push([field, status === 200 ? json : json.code]);
      const value = sql(`select to_json(${aggregate}(${expression})) as value from library.books as b`);
      expected.push([field, await value.catch(({ code }) => code)]);
    }
    expect(found).toEqual(expected);
  });

  test.each(AGGREGATES)("%s() in an embedded relation, too", async (aggregate) => {
    const found: unknown[] = [];
    const expected: unknown[] = [];
    for (const [field, expression] of FIELDS) {
      const { status, json } = await rest(`authors?select=books!author_id(value:${field}.${aggregate}())&order=id`);
      found.push([field, status === 200 ? json.flatMap(({ books }: any) => books) : json.code]);
      const value = sql(`select to_json(${aggregate}(${expression})) as value
        from library.authors as a left join library.books as b on b.author_id = a.id group by a.id order by a.id`);
      expected.push([field, await value.catch(({ code }) => code)]);
    }
    expect(found).toEqual(expected);
  });

  // PostgreSQL groups by no json; it is compared as text.
  test.each(FIELDS)("%s is a group, and orders the groups", async (field, expression) => {
    const comparable = field === "notes" ? `(${expression})::text` : expression;
    const groups = await sql(
      `select (array_agg(to_json(${expression})))[1] as value, count(*)::int from library.books as b group by ${comparable} order by ${comparable}`,
    );
    const found = await rows(`books?select=value:${field},count()`);
    expect(found).toHaveLength(groups.length);
    expect(found).toEqual(expect.arrayContaining(groups));
    if (field !== "notes") {
      expect(await rows(`books?select=value:${field},count()&order=value`)).toEqual(groups);
      if (!field.includes("::"))
        expect(await rows(`books?select=value:${field},count()&order=${field}`)).toEqual(groups);
    }
  });
});

describe("in an embedded relation,", () => {
  test("each outer row has separate aggregates", async () => {
    expect(await rows("authors?select=name,books!author_id(count(),pages.sum())&order=id")).toEqual([
      { name: "Ada Byron", books: [{ count: 1, sum: 66 }] },
      { name: "Jules Verne", books: [{ count: 2, sum: 650 }] },
      { name: "Mary Shelley", books: [{ count: 2, sum: 280 }] },
      { name: "Anonymous", books: [{ count: 0, sum: null }] },
    ]);
  });

  test("count without brackets counts rows", async () => {
    expect(await rows("authors?select=name,books!author_id(count)&id=eq.2")).toEqual([
      { name: "Jules Verne", books: [{ count: 2 }] },
    ]);
  });

  test("groups, filters and order work", async () => {
    expect(
      await rows("genres?select=name,books(shelf,pages.max())&books.pages=gt.100&books.order=max.desc&order=id"),
    ).toEqual([
      { name: "Novel", books: [{ shelf: "fiction", max: 400 }] },
      { name: "Adventure", books: [{ shelf: "fiction", max: 400 }] },
      { name: "Essay", books: [] },
    ]);
  });
});

describe("aggregates in a spread relation range over the outer rows", () => {
  test.each<[string, object[]]>([
    [
      "shelf,...covers(colour.count())",
      [
        { shelf: "fiction", count: 2 },
        { shelf: "science", count: 1 },
      ],
    ],
    [
      "shelf,...covers(n:count())",
      [
        { shelf: "fiction", n: 2 },
        { shelf: "science", n: 1 },
      ],
    ],
    [
      "...authors!author_id(name),pages.sum()",
      [
        { name: "Ada Byron", sum: 66 },
        { name: "Jules Verne", sum: 650 },
        { name: "Mary Shelley", sum: 280 },
      ],
    ],
    [
      "shelf,...authors!author_id(first:born.min(),last:born.max()::text)",
      [
        { shelf: "fiction", first: "1797-08-30", last: "1828-02-08" },
        { shelf: "science", first: "1815-12-10", last: "1815-12-10" },
      ],
    ],
    [
      "shelf,...authors!author_id(...countries(code.count()))",
      [
        { shelf: "fiction", count: 4 },
        { shelf: "science", count: 1 },
      ],
    ],
    [
      "...authors!author_id(...countries(code,n:code.count()))",
      [
        { code: "FR", n: 2 },
        { code: "GB", n: 3 },
      ],
    ],
    [
      "...authors!author_id(countries(name)),count()",
      [
        { countries: { name: "France" }, count: 2 },
        { countries: { name: "United Kingdom" }, count: 3 },
      ],
    ],
  ])("for select=%s", async (select, groups) => {
    const found = await rows(`books?select=${select}`);
    expect(found).toHaveLength(groups.length);
    expect(found).toEqual(expect.arrayContaining(groups));
  });

  test.each<[string, object[]]>([
    [
      // Books have an id too.
      "...covers(id:book_id,n:count())&order=id.desc&shelf=eq.fiction",
      [
        { id: null, n: 0 },
        { id: 4, n: 1 },
        { id: 2, n: 1 },
      ],
    ],
    [
      "...authors!author_id(id,count())&order=id.desc&limit=2",
      [
        { id: 3, count: 2 },
        { id: 2, count: 2 },
      ],
    ],
    [
      "pages.sum(),...authors!author_id(name)&order=authors(name)",
      [
        { sum: 66, name: "Ada Byron" },
        { sum: 650, name: "Jules Verne" },
        { sum: 280, name: "Mary Shelley" },
      ],
    ],
    [
      "pages.sum(),...authors!author_id(writer:name)&order=authors(name).desc&limit=1",
      [{ sum: 280, writer: "Mary Shelley" }],
    ],
    [
      "pages.sum(),...authors!author_id(writer:name)&order=authors(writer).desc&limit=1",
      [{ sum: 280, writer: "Mary Shelley" }],
    ],
    [
      "...authors!author_id(country_code,n:count())&order=authors(n).desc",
      [
        { country_code: "GB", n: 3 },
        { country_code: "FR", n: 2 },
      ],
    ],
    [
      "pages.sum(),...authors!author_id(first:born.min(),...countries(country:name))&order=authors(country)",
      [
        { sum: 650, first: "1828-02-08", country: "France" },
        { sum: 346, first: "1797-08-30", country: "United Kingdom" },
      ],
    ],
    [
      "...covers(colour),...authors!author_id(name),count()&order=authors(name),covers(colour).nullsfirst&id=gt.2",
      [
        { colour: null, name: "Jules Verne", count: 1 },
        { colour: null, name: "Mary Shelley", count: 1 },
        { colour: "black", name: "Mary Shelley", count: 1 },
      ],
    ],
    [
      "count(),...authors!author_id(*)&order=born&limit=1",
      [{ count: 2, id: 3, name: "Mary Shelley", country_code: "GB", born: "1797-08-30", home: null }],
    ],
  ])("and the spread columns order the groups for select=%s", async (select, groups) => {
    expect(await rows(`books?select=${select}`)).toEqual(groups);
  });

  test("within an embedded relation too", async () => {
    expect(
      await rows(
        "genres?select=name,books(pages.max(),...authors!author_id(id,n:count()))&books.order=id.desc&id=eq.1",
      ),
    ).toEqual([
      {
        name: "Novel",
        books: [
          { max: 280, id: 3, n: 1 },
          { max: 400, id: 2, n: 1 },
        ],
      },
    ]);
  });

  test("but are refused in a to-many relation", async () => {
    expect(await failure("authors?select=name,...books!author_id(count())")).toEqual([400, "PGRST127"]);
    expect(await failure("authors?select=name,...books!author_id(title,...covers(colour.max()))")).toEqual([
      400,
      "PGRST127",
    ]);
  });
});

test("groups cannot be ordered by a column that is neither a group nor an aggregate", async () => {
  expect(await failure("books?select=shelf,count()&order=id")).toEqual([400, "42803"]);
  expect(await failure("books?select=...authors!author_id(name),count()&order=authors(born)")).toEqual([400, "42803"]);
  expect(await failure("books?select=...covers(),shelf,count()&order=covers(colour)")).toEqual([400, "42803"]);
});

test("groups are ordered by the entries of the select, even if the table has a column with the same name", async () => {
  expect(await rows("books?select=pages::text,count()&order=pages.desc&pages=gt.60&limit=2")).toEqual([
    { pages: "66", count: 1 },
    { pages: "400", count: 1 },
  ]);
  expect(await rows("books?select=shelf,pages:pages.sum()&order=pages")).toEqual([
    { shelf: "science", pages: 66 },
    { shelf: "fiction", pages: 930 },
  ]);
});

test("sum() of a type without a sum is 404, like any function that does not exist", async () => {
  expect(await failure("books?select=title.sum()")).toEqual([404, "42883"]);
});

describe("when DB_AGGREGATES is off", () => {
  const { rows, failure } = useLibrary({ DB_AGGREGATES: "off" });

  test.each(["count()", "count", "shelf,pages.sum()", "authors!author_id(id.max())", "...authors!author_id(id.max())"])(
    "books?select=%s is refused",
    async (select) => expect(await failure(`books?select=${select}`)).toEqual([400, "PGRST123"]),
  );

  test("other requests are served", async () => {
    expect(await rows("books?select=id&id=eq.1")).toEqual([{ id: 1 }]);
  });
});
