import { afterAll, beforeAll, expect, test } from "vitest";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    {},
    undefined,
    `
    create table public.animals (id int primary key, name text);
    create table public.dogs (primary key (id)) inherits (public.animals);
    create table public.tags (id int primary key, animal_id int references public.animals, chip_of int unique references public.animals);
    create table public.old_tags () inherits (public.tags);
    create view public.seen_tags as select id, animal_id from public.tags;
    create table public.guesses (id int primary key, animal_id int);
    comment on table public.guesses is '@foreignKey (animal_id) references animals (id)';
    create index on public.tags (animal_id);
    insert into public.animals values (1, 'cat'), (2, 'cow');
    insert into public.dogs values (1, 'rex'), (3, 'fido');
    insert into public.tags values (10, 1, 2), (11, 2, 1);
    insert into public.old_tags values (20, 1, 2), (21, 3, null);
    insert into public.guesses values (30, 3);
    grant select, insert, update, delete on public.animals, public.dogs, public.tags, public.old_tags, public.seen_tags, public.guesses
      to trackit_user;`,
  );
});
afterAll(() => trackit?.stop());

const rest = async (path: string, sent: object = {}) => (await trackit.rest(path, { as: 1, ...sent })).json;
const gql = async (query: string) => {
  const { data, errors } = await trackit.gql(query, { as: 1 });
  return errors ?? data;
};

test("a table has the rows of the tables that inherit from it, and all that have a key are found and changed by it", async () => {
  expect(await rest("animals?select=name&order=id,name")).toEqual(
    ["cat", "rex", "cow", "fido"].map((name) => ({ name })),
  );
  expect(await rest("animals?id=eq.1&select=name&order=name")).toEqual([{ name: "cat" }, { name: "rex" }]);
  const sent = { method: "PATCH", body: { id: 1 }, headers: { prefer: "return=representation" } };
  expect(await rest("animals?id=eq.1&select=name&order=name", sent)).toEqual([{ name: "cat" }, { name: "rex" }]);
});

const CAT = { name: "cat" };
const COW = { name: "cow" };

test.each([
  [
    "tags?select=id,animals!tags_animal_id_fkey(name)&order=id",
    [
      { id: 10, animals: CAT },
      { id: 11, animals: COW },
      { id: 20, animals: CAT },
      { id: 21, animals: null },
    ],
  ],
  [
    "tags?select=id,...animals!tags_animal_id_fkey(name)&order=id",
    [
      { id: 10, ...CAT },
      { id: 11, ...COW },
      { id: 20, ...CAT },
      { id: 21, name: null },
    ],
  ],
  ["tags?select=id,animals!tags_animal_id_fkey!inner()&animals.name=eq.rex", []],
  ["animals?select=name,tags!tags_chip_of_fkey(id)&id=eq.2", [{ name: "cow", tags: { id: 10 } }]],
])("a foreign key leads to the row of the table itself: %s", async (path, rows) => {
  expect(await rest(path)).toEqual(rows);
});

/** In a selection that Grafast executes, and in one that is one statement. */
const lists = (field: string, selection: string) => [
  `{ rows: ${field}(orderBy: ID_ASC) { edges { node { ${selection} } } } }`,
  `{ rows: ${field}(orderBy: ID_ASC) { edges { node { id } } edges @include(if: true) { node { ${selection} } } again: edges { cursor } } }`,
];

test.each([
  [
    "tags",
    "id animal { name }",
    [
      ["10", CAT],
      ["11", COW],
      ["20", CAT],
      ["21", null],
    ],
  ],
  [
    "seenTags",
    "id animal { name }",
    [
      ["10", CAT],
      ["11", COW],
      ["20", CAT],
      ["21", null],
    ],
  ],
  ["guesses", "id animal { name }", [["30", { name: "fido" }]]],
] as const)("in GraphQL, too: %s { %s }", async (field, selection, rows) => {
  for (const query of lists(field, selection)) {
    const { edges } = (await gql(query)).rows;
    expect(edges.map(({ node }: any) => [node.id, node.animal])).toEqual(rows);
  }
});

test("a to-one relationship of a table that others inherit from has one row, in lists and in filters", async () => {
  for (const query of lists("animals", "name tagByChipOf { id }")) {
    const { edges } = (await gql(query)).rows;
    // Rows of one key are in any order.
    expect(edges.map(({ node }: any) => [node.name, node.tagByChipOf?.id ?? null]).sort()).toEqual([
      ["cat", "11"],
      ["cow", "10"],
      ["fido", null],
      ["rex", "11"],
    ]);
  }
  expect(await gql(`{ tags(filter: { animal: { name: { equalTo: "rex" } } }) { totalCount } }`)).toEqual({
    tags: { totalCount: 0 },
  });
});

test("a key in GraphQL finds a row, and pages have every row", async () => {
  expect(await gql("{ animal(id: 3) { name } again: animal(id: 1) { id } }")).toEqual({
    animal: { name: "fido" },
    again: { id: "1" },
  });
  const names: string[] = [];
  for (let after: string | null = null; names.length < 5; ) {
    const { animals }: any = await gql(
      `{ animals(first: 1, after: ${JSON.stringify(after)}) { edges { cursor node { name } } } }`,
    );
    if (animals.edges.length === 0) break;
    names.push(animals.edges[0].node.name);
    after = animals.edges[0].cursor;
  }
  expect(names.sort()).toEqual(["cat", "cow", "fido", "rex"]);
});
