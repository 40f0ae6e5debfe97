import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

/** A domain with casts for its form in JSON and in filters. */
const COLOURS = `
  set search_path = library, public;
  create domain colour as int;
  create function colour_to_json(colour) returns json immutable language sql return to_json('#' || lpad(to_hex($1), 6, '0'));
  create function colour_from_text(text) returns colour immutable language sql
    return ('x' || lpad(substr($1, 2), 8, '0'))::bit(32)::int;
  create cast (colour as json) with function colour_to_json(colour) as implicit;
  create cast (text as colour) with function colour_from_text(text) as implicit;
  create table paints (id int primary key, book_id int references books on delete cascade, tint colour);
  insert into paints values (1, 1, 255), (2, 1, 65280), (3, 2, null);
  grant select on paints to anon;
  grant execute on function colour_to_json, colour_from_text to anon;
  reset search_path;`;

const { rows, rest, failure } = useLibrary({}, COLOURS);

// Compared as text, because the order of keys and duplicate keys matter.
test.each([
  ["select=id,title", '[{"id":1,"title":"Notes on the Engine"}]'],
  ["select=title,id", '[{"title":"Notes on the Engine","id":1}]'],
  ["select=name:title", '[{"name":"Notes on the Engine"}]'],
  ["select=id,again:id", '[{"id":1,"again":1}]'],
  ["select=id,id", '[{"id":1,"id":1}]'],
  ["select=id,title&select=pages", '[{"id":1,"title":"Notes on the Engine"}]'],
  ['select="id"', '[{"id":1}]'],
  ['select="the id":id', '[{"the id":1}]'],
  ["select=id::text", '[{"id":"1"}]'],
  ["select=price::int", '[{"price":13}]'],
  ["select=price::numeric", '[{"price":12.50}]'],
  ["select=rounded:price::double precision", '[{"rounded":12.5}]'],
  ["select=tags::_varchar", '[{"tags":["math","machine"]}]'],
  ["select=tags::varchar[]", '[{"tags":["math","machine"]}]'],
  ["select=tags::text", '[{"tags":"{math,machine}"}]'],
  ["select=shelf::text", '[{"shelf":"science"}]'],
])("books?id=eq.1&%s returns the selected columns", async (query, text) => {
  expect((await rest(`books?id=eq.1&${query}`)).text).toBe(text);
});

test.each(["books?id=eq.1", "books?id=eq.1&select=", "books?id=eq.1&select=*"])(
  "%s returns every column",
  async (path) => {
    expect(await rows(path)).toEqual([
      {
        id: 1,
        title: "Notes on the Engine",
        author_id: 1,
        translator_id: null,
        shelf: "science",
        pages: 66,
        price: 12.5,
        tags: ["math", "machine"],
        lent: "[2024-01-01,2024-02-01)",
        facts: { isbn: "A-1", sizes: [10, 20, 30], print: { city: "London", year: 1843 } },
        notes: { seen: true },
        words: "'engin':4 'note':1",
        is_rare: true,
      },
    ]);
  },
);

test("every column can be combined with others", async () => {
  expect(await rows("covers?select=*,tone:colour&book_id=eq.1")).toEqual([
    { book_id: 1, colour: "green", tone: "green" },
  ]);
});

test.each([
  ["facts->>isbn", { isbn: "A-1" }],
  ["facts->print", { print: { city: "London", year: 1843 } }],
  ["facts->print->>city", { city: "London" }],
  ["facts->print->year", { year: 1843 }],
  ["facts->print->>year", { year: "1843" }],
  ["facts->print->>year::int", { year: 1843 }],
  ["town:facts->print->>city", { town: "London" }],
  ["facts->sizes->0", { sizes: 10 }],
  ["facts->sizes->>-1", { sizes: "30" }],
  ["facts->sizes->-9", { sizes: null }],
  ["facts->nothing->here", { here: null }],
  ["notes->seen", { seen: true }],
  ["tags->0", { tags: "math" }],
  ["tags->>-1", { tags: "machine" }],
])("books?select=%s is named by its last key: %j", async (select, row) => {
  expect(await rows(`books?id=eq.1&select=${select}`)).toEqual([row]);
});

test("fields of a composite type have paths like JSON", async () => {
  expect(await rows("authors?id=eq.1&select=home->>city,s:home->street,home")).toEqual([
    { city: "London", s: "St James's Square", home: { street: "St James's Square", city: "London" } },
  ]);
});

describe("a computed field", () => {
  test("is returned if it is selected", async () => {
    expect(await rows("books?id=eq.1&select=id,long_title,print")).toEqual([
      { id: 1, long_title: "Notes on the Engine (66)", print: { city: "London", year: 1843 } },
    ]);
    expect((await rows("books?id=eq.1"))[0]).not.toHaveProperty("long_title");
  });

  test("has an alias, a cast and paths", async () => {
    expect(await rows("books?id=eq.1&select=full:long_title,long_title::varchar,print->>city")).toEqual([
      { full: "Notes on the Engine (66)", long_title: "Notes on the Engine (66)", city: "London" },
    ]);
  });
});

test("columns whose names need quotes can be selected", async () => {
  expect(await rows('odd names?select="the id","a,b",dots:"c.d","über (x)",select,"or"&the id=eq.1')).toEqual([
    { "the id": 1, "a,b": "comma", dots: "dot", "über (x)": "brackets", select: "word", or: "either" },
  ]);
});

describe("a domain with casts", () => {
  test("is returned by its cast to json, alone and with all columns", async () => {
    expect(await rows("paints?select=tint&order=id")).toEqual([
      { tint: "#0000ff" },
      { tint: "#00ff00" },
      { tint: null },
    ]);
    expect(await rows("paints?id=eq.1")).toEqual([{ id: 1, book_id: 1, tint: "#0000ff" }]);
    expect(await rows("paints?id=eq.1&select=shade:tint")).toEqual([{ shade: "#0000ff" }]);
  });

  test("is returned the same way within relations", async () => {
    expect(await rows("books?id=eq.1&select=paints(tint)&paints.order=id")).toEqual([
      { paints: [{ tint: "#0000ff" }, { tint: "#00ff00" }] },
    ]);
    expect(await rows("books?id=eq.1&select=...paints(tint)&paints.order=id")).toEqual([
      { tint: ["#0000ff", "#00ff00"] },
    ]);
  });

  test("is filtered by its cast from text", async () => {
    expect(await rows("paints?select=id&tint=eq.%2300ff00")).toEqual([{ id: 2 }]);
    expect(await rows("paints?select=id&tint=in.(%2300ff00,%230000ff)&order=id")).toEqual([{ id: 1 }, { id: 2 }]);
    expect(await rows("paints?select=id&or=(tint.eq.%2300ff00,tint.is.null)&order=id")).toEqual([{ id: 2 }, { id: 3 }]);
  });
});

test.each([
  ["select=id::nonsense", "42704"],
  ["select=id::_nonsense", "42704"],
  ["select=id::_", "42704"],
  ["select=id::[]", "42704"],
  ["select=id::text)", "PGRST100"],
  ["select=id::", "PGRST100"],
  ["select=nope", "42703"],
  ["select=id,", "PGRST100"],
  ["select=(id)", "PGRST100"],
  ["select=id)", "PGRST100"],
  ["select=a:b:id", "PGRST100"],
  ["select=facts->>", "PGRST100"],
  ["select=title.median()", "PGRST100"],
  ["select=title::int", "22P02"],
  ["select=id::text; drop table books", "PGRST100"],
])("books?%s is refused with %s", async (query, code) => {
  expect(await failure(`books?${query}`)).toEqual([400, code]);
});
