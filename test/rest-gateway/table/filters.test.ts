import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

/** Texts with the characters that lists reserve. */
const LABELS = `
  create table library.labels (id int primary key, name text, tags text[]);
  insert into library.labels values
    (1, 'x,y', '{"a,b"}'), (2, 'say "hi"', '{a,b}'), (3, 'c:\\dir', '{"q\\"q","e\\\\f"}'), (4, '1.5', '{"",null}'), (5, '{x}', '{"{a}","(b)"}'),
    (6, '(x)', '{null}'), (7, '', '{}'), (8, 'null', '{"null"}');
  grant select on library.labels to anon;`;

const { rows, rest, failure } = useLibrary({}, LABELS);

/** The ids of the books that a query returns. */
const found = async (query: string): Promise<number[]> =>
  (await rows(`books?select=id&order=id&${query}`)).map(({ id }: { id: number }) => id);

type Found = [query: string, ids: number[]];

test.each<Found>([
  ["id=eq.2", [2]],
  ["id=neq.2", [1, 3, 4, 5]],
  ["pages=gt.250", [2, 4]],
  ["pages=gte.250", [2, 3, 4]],
  ["pages=lt.250", [1]],
  ["pages=lte.250", [1, 3]],
  ["price=eq.7", [3]],
  ["shelf=eq.science", [1]],
  ["title=eq.Frankenstein", [4]],
  ["title=eq.frankenstein", []],
  ["title=eq.", []],
  ["pages=isdistinct.66", [2, 3, 4, 5]],
  ["pages=not.isdistinct.66", [1]],
])("?%s compares: %j", async (query, ids) => expect(await found(query)).toEqual(ids));

test.each<Found>([
  ["title=like.*the*", [1, 3]],
  ["title=like.%25the%25", [1, 3]],
  ["title=like.%the%", [1, 3]], // not followed by two hexadecimal digits
  ["title=ilike.*THE*", [1, 3, 5]],
  ["title=like.The*", [5]],
  ["title=match.^F", [4]],
  ["title=match.^f", []],
  ["title=match.F.*n$", [4]], // only like and ilike have `*`
  ["title=imatch.^f", [4]],
])("?%s matches patterns: %j", async (query, ids) => expect(await found(query)).toEqual(ids));

test.each<Found>([
  ["id=in.(1,3)", [1, 3]],
  ["id=in.(1,3)", [1, 3]],
  ["title=in. ( Frankenstein,x)", [4]],
  ["title=in.(a=b,Frankenstein)", [4]],
  ["&x&&id=in.(2)&", [2]],
  ["shelf=in.(science,poetry)", [1]],
  ['title=in.("Around the World, in Eighty Days",Frankenstein)', [3, 4]],
  ["title=in.(Around the World)", []],
  ["id=in.()", []],
  ["id=not.in.()", [1, 2, 3, 4, 5]],
  ["id=not.in.(1,2)", [3, 4, 5]],
])("?%s searches a list: %j", async (query, ids) => expect(await found(query)).toEqual(ids));

test.each<Found>([
  ["pages=is.null", [5]],
  ["pages=is.not_null", [1, 2, 3, 4]],
  ["pages=not.is.null", [1, 2, 3, 4]],
  ["is_rare=is.true", [1]],
  ["is_rare=is.false", [2, 3]],
  ["is_rare=is.unknown", [4, 5]],
  ["is_rare=is.TRUE", [1]],
  ["is_rare=not.is.true", [2, 3, 4, 5]],
])("?%s tests for null and booleans: %j", async (query, ids) => expect(await found(query)).toEqual(ids));

test.each<Found>([
  ["title=like(any).{*Engine,*Man}", [1, 5]],
  ["title=ilike(all).{*the*,*world*}", [3]],
  ["title=not.like(any).{*Engine,*Man}", [2, 3, 4]],
  ["title=match(any).{^A,^F}", [3, 4]],
  ["title=imatch(any).{^a,^f}", [3, 4]],
  ["id=eq(any).{1,2}", [1, 2]],
  ["id=gt(all).{1,2}", [3, 4, 5]],
  ["id=gte(any).{4,9}", [4, 5]],
  ["id=lt(any).{2,3}", [1, 2]],
  ["id=lte(all).{2,3}", [1, 2]],
  ['title=eq(any).{"Around the World, in Eighty Days"}', [3]],
])("?%s compares with any or all: %j", async (query, ids) => expect(await found(query)).toEqual(ids));

test.each<Found>([
  [String.raw`name=in.("x,y","say \"hi\"","c:\\dir")`, [1, 2, 3]],
  [String.raw`name=not.in.("x,y","say \"hi\"","c:\\dir")`, [4, 5, 6, 7, 8]],
  ['name=in.("1.5",x)', [4]],
  ["name=in.(1.5,x)", [4]],
  ['name=in.("{x}","(x)","")', [5, 6, 7]],
  ["name=in.({x})", [5]],
  ['name=in.(say "hi","1.5"x)', [2]],
  ["name=in.(null)", [8]],
  [String.raw`name=eq.c:\dir`, [3]],
  ['name=eq.say "hi"', [2]],
  ["name=eq.", [7]],
  [String.raw`name=eq(any).{"x,y","say \"hi\"","c:\\dir"}`, [1, 2, 3]],
  ['name=eq(any).{"{x}",(x),""}', [5, 6, 7]],
  [String.raw`name=like(any).{"x,*","c:\\\\*"}`, [1, 3]],
  [String.raw`name=like.c:\\*`, [3]],
  [String.raw`name=ilike(all).{"*\"HI\"*","SAY*"}`, [2]],
  ['name=like(any).{"{*}","(*)"}', [5, 6]],
  ['tags=cs.{"a,b"}', [1]],
  ["tags=cs.{a,b}", [2]],
  [String.raw`tags=cs.{"q\"q","e\\f"}`, [3]],
  ['tags=cs.{"{a}"}', [5]],
  ["tags=cs.{(b)}", [5]],
  ['tags=cs.{""}', [4]],
  ['tags=cs.{"null"}', [8]],
  ['tags=ov.{"",b}', [2, 4]],
  ['tags=ov.{"a,b","{a}"}', [1, 5]],
  ['tags=cd.{a,b,"a,b"}', [1, 2, 7]],
  ['tags=eq.{"",null}', [4]],
  [String.raw`tags->>0=in.("a,b","q\"q")`, [1, 3]],
  [String.raw`or=(name.in.("x,y","say \"hi\""),tags.cs.{"q\"q"})`, [1, 2, 3]],
  [String.raw`or=(name.eq."c:\\dir",name.eq."{x}",tags.ov.{"a,b",b})`, [1, 2, 3, 5]],
  [String.raw`not.and=(name.not.in.("x,y"),tags.not.cs.{"e\\f"})`, [1, 3]],
])("?%s reads quotes, commas, braces and backslashes: %j", async (query, ids) => {
  const [name = "", ...value] = query.split("=");
  const found = await rows(`labels?select=id&order=id&${name}=${encodeURIComponent(value.join("="))}`);
  expect(found.map(({ id }: { id: number }) => id)).toEqual(ids);
});

test.each<Found>([
  ["words=fts(english).engines", [1]],
  ["words=fts(english).notes%26engine", [1]],
  ["words=plfts(english).the engine", [1]],
  ["words=phfts(english).thousand leagues", [2]],
  ["words=phfts(english).leagues thousand", []],
  ["words=wfts(english).world or leagues", [2, 3]],
  ["words=wfts(english).last -man", []],
  ["words=not.fts(english).engine", [2, 3, 4, 5]],
  ["title=fts(english).engines", [1]],
  ["title=wfts.frankenstein", [4]],
  ["facts=fts.London", [1]],
])("?%s searches text and tsvector columns: %j", async (query, ids) => expect(await found(query)).toEqual(ids));

test.each<Found>([
  ["tags=cs.{machine}", [1, 2]],
  ["tags=cd.{machine,sea,travel}", [2, 3, 5]],
  ["tags=ov.{sea,travel}", [2, 3]],
  ["tags=eq.{travel}", [3]],
  ['facts=cs.{"isbn":"B-2"}', [2]],
  ["lent=cs.[2024-02-10,2024-02-11)", [2]],
  ["lent=cd.[2024-01-01,2024-03-01)", [1, 2]],
  ["lent=ov.[2024-02-15,2024-03-20)", [2, 4]],
  ["lent=sl.[2024-02-15,2024-03-20)", [1]],
  ["lent=sr.[2024-01-01,2024-01-15)", [2, 4]],
  ["lent=nxr.[2024-01-01,2024-02-01)", [1]],
  ["lent=nxl.[2024-02-01,2024-03-01)", [2, 4]],
  ["lent=adj.[2024-02-01,2024-03-01)", [1]],
])("?%s compares arrays, ranges and JSON: %j", async (query, ids) => expect(await found(query)).toEqual(ids));

test.each<Found>([
  ["facts->>isbn=eq.B-2", [2]],
  ['facts->isbn=eq."B-2"', [2]],
  ["facts->print->>city=eq.Paris", [2, 3]],
  ["facts->print->year=gt.1850", [2, 3]],
  ["facts->sizes->0=eq.10", [1]],
  ["facts->sizes->>-1=eq.30", [1]],
  ["facts->sizes->-1=eq.40", [2]],
  ["facts->>isbn=is.null", [4, 5]],
  ["facts->isbn=is.null", [5]], // JSON null is not SQL null
  ["notes->>seen=eq.true", [1]],
  ['facts->"print"->>"city"=in.(London,Rome)', [1]],
  ["tags->>0=eq.math", [1]],
  ["tags->>-1=eq.machine", [1, 2]],
  ["print->>city=eq.Paris", [2, 3]],
  ["long_title=eq.Frankenstein (280)", [4]],
  ["long_title=like.*(250)", [3]],
])("?%s filters by JSON paths, arrays and computed fields: %j", async (query, ids) =>
  expect(await found(query)).toEqual(ids),
);

test("a field of a composite type has a path like JSON", async () => {
  expect(await rows("authors?select=id&home->>city=eq.London")).toEqual([{ id: 1 }]);
  expect(await rows("authors?select=id&home->>city=is.null&order=id")).toEqual([{ id: 3 }, { id: 4 }]);
});

test.each<Found>([
  ["pages=gt.100&pages=lt.300", [3, 4]],
  ["pages=gt.100&shelf=eq.fiction&title=like.F*", [4]],
  ["or=(id.eq.1,id.eq.3)", [1, 3]],
  ["and=(id.gt.1,id.lt.4)", [2, 3]],
  ["not.or=(id.eq.1,id.eq.3)", [2, 4, 5]],
  ["not.and=(id.gt.1,id.lt.4)", [1, 4, 5]],
  ["or=(id.eq.1,and(shelf.eq.fiction,pages.not.is.null,not.or(id.eq.2,id.eq.4)))", [1, 3]],
  ["or=(id.not.gt.1,not.id.lt.5)", [1, 5]],
  ["or=(not.id.not.gt.4,id.eq.1)", [1, 5]],
  ["or= ( and (id.eq.1) , id.in.(3) , pages.is.NULL )", [1, 3, 5]],
  ["or=(title.eq.{x,id.eq.1)", [1]], // no array without the closing brace
  ['or=(title.eq."Around the World, in Eighty Days",id.in.(1,2))', [1, 2, 3]],
  ["or=(title.like(any).{*Engine,*Man},id.eq.3)", [1, 3, 5]],
  ["or=(facts->>isbn.eq.B-2,facts->sizes->0.eq.10)", [1, 2]],
  ["or=(tags.cs.{sea,machine},tags.ov.{travel,x})", [2, 3]],
  ["or=(title.fts(english).engines,long_title.like.*280*)", [1, 4]],
  ['or=(lent.sl."[2024-02-15,2024-03-20)",id.eq.5)', [1, 5]],
  ["and=(id.gt.1)&or=(id.eq.2,id.eq.3)&id=lt.3", [2]],
])("?%s combines conditions with and and or: %j", async (query, ids) => expect(await found(query)).toEqual(ids));

test.each([
  ['"a,b"=eq.comma', 1],
  ['"c.d"=eq.dot', 1],
  ['"über (x)"=eq.brackets', 1],
  ["%22%C3%BCber+%28x%29%22=eq.brackets", 1],
  ['"select"=eq.word', 1],
  ['"or"=eq.either', 1],
  ['"and"=eq.8', 2],
  ['or=("a,b".eq."a,b","c.d".eq.nothing)', 2],
  ['or=("c.d".eq."c.d")', 2],
  ["or=(or.eq.either,and.eq.9)", 1],
  ["the id=eq.2", 2],
])("?%s filters by a column whose name needs quotes", async (query, id) => {
  expect(await rows(`odd names?select="the id"&${query}`)).toEqual([{ "the id": id }]);
});

test("a value is never SQL", async () => {
  expect(await found("title=eq.' or true --")).toEqual([]);
  expect(await found("or=(title.eq.' or true --,id.eq.1)")).toEqual([1]);
  expect(await found("facts->>' or true --=eq.x")).toEqual([]);
});

describe("an invalid filter", () => {
  test.each([
    ["id=foo.2", "PGRST100"],
    ["id=eq", "PGRST100"],
    ["id=", "PGRST100"],
    ["id=2", "PGRST100"],
    ["id=is.maybe", "PGRST100"],
    ["id=in.1,2", "PGRST100"],
    ["id=in.(1,2", "PGRST100"],
    ["id=neq(any).{1}", "PGRST100"],
    ["id=eq(some).{1}", "PGRST100"],
    ["or=id.eq.1", "PGRST100"],
    ["or=()", "PGRST100"],
    ["or=(not.eq.1)", "42703"], // a column
    ["order->a=eq.1", "42703"],
    ["or=(id.eq.1", "PGRST100"],
    ["or=(id.eq.1))", "PGRST100"],
    ["or=(id.zz.1)", "PGRST100"],
    ["title=eq.%00", "PGRST100"],
    ["title=eq.%ff", "PGRST100"],
    ["id=eq.x", "22P02"],
    ["id=eq.", "22P02"],
    ["id=in.(1,x)", "22P02"],
    ["id=eq(any).1", "22P02"],
    ["id=eq.99999999999999", "22003"],
    ["shelf=eq.kitchen", "22P02"],
    ["is_rare=eq.maybe", "22P02"],
    ["lent=ov.[2024", "22P02"],
    ["nope=eq.1", "42703"],
    ["title->>x->y=eq.1", "42883"],
    ["title=match.(", "2201B"],
    ["words=fts.a b", "42601"],
    ["words=fts(klingon).a", "42704"],
  ])("?%s is refused with %s", async (query, expected) => {
    const [status, code] = await failure(`books?${query}`);
    expect([status, code]).toEqual([expected === "42883" ? 404 : 400, expected]);
  });

  test("with an operator that the type does not have is 404, as for an unknown function", async () => {
    expect(await failure("books?title=cs.{a}")).toEqual([404, "42883"]);
    expect(await failure("books?id=like.1*")).toEqual([404, "42883"]);
  });

  test("returns an error with the position and a suggestion", async () => {
    expect((await rest("books?id=foo.2")).json).toEqual({
      code: "PGRST100",
      message: "failed to parse filter (foo.2)",
      details: 'at character 1: expected "not" or an operator (eq, gt, ...), found "f"',
      hint: '"foo" is not an operator, such as eq, neq, gt, gte, lt, lte, like, ilike, in or is. To compare with the whole value, write id=eq.foo.2',
    });
    expect((await rest("books?shelf=science")).json.hint).toBe(
      '"shelf" was read as a filter. Perhaps you meant shelf=eq.science',
    );
    expect((await rest("books?id=in.1,2")).json).toMatchObject({
      details: 'at character 4: expected "(", found "1"',
      hint: null,
    });
    expect((await rest("books?titles=eq.x")).json).toEqual({
      code: "42703",
      message: "column books.titles does not exist",
      details: null,
      hint: "Perhaps you meant the column 'title'.",
    });
    expect((await rest("book")).json).toEqual({
      code: "PGRST205",
      message: "Could not find the table 'library.book' in the schema cache",
      details: null,
      hint: "Perhaps you meant the table 'library.books'",
    });
  });
});
