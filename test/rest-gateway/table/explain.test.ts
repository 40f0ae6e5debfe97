import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

/** The planner reads small tables sequentially unless sequential scans are disabled. */
const INDEXES = `
  create index books_isbn on library.books ((facts ->> 'isbn'));
  create index books_words on library.books using gin (to_tsvector('english', title));
  do $$ begin
    execute format('alter role anon in database %I set enable_seqscan = off', current_database());
  end $$;`;

const { rest } = useLibrary({ DB_PLAN: "on" }, INDEXES);

/** A node of the JSON of EXPLAIN. */
type Node = { readonly Plans?: readonly Node[]; readonly [field: string]: unknown };

const withBelow = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(withBelow)];

/** All nodes of the plan of a request. */
async function nodesOf(path: string, prefer = ""): Promise<Node[]> {
  const accept = "application/vnd.pgrst.plan+json; options=analyze|verbose";
  const { status, json, text } = await rest(path, { headers: { accept }, prefer });
  if (status !== 200) throw new Error(text);
  return withBelow(json[0].Plan);
}

/** The number of times that a table was read. */
const readsOf = (nodes: readonly Node[], table: string) =>
  nodes.filter((node) => node["Relation Name"] === table).reduce((sum, node) => sum + Number(node["Actual Loops"]), 0);

const kindsOf = (nodes: readonly Node[]) => nodes.map((node) => `${node["Join Type"] ?? ""} ${node["Node Type"]}`);

describe("relations are read only for the returned rows", () => {
  test("when a column of the outer rows orders them", async () => {
    const nodes = await nodesOf("books?select=id,covers(colour)&order=pages&limit=2");
    expect(readsOf(nodes, "covers")).toBe(2);
    const [above] = nodes.filter((node) => node.Plans?.some((each) => each["Parent Relationship"] === "SubPlan"));
    const below = withBelow(above!).map((node) => node["Node Type"]);
    expect(below).toContain("Sort");
  });

  test("of a to-many relation too", async () => {
    const nodes = await nodesOf("authors?select=name,books!author_id(title)&order=born&limit=2");
    expect(readsOf(nodes, "books")).toBe(2);
  });

  test("on every level of relations", async () => {
    // One author, Mary Shelley, and one of her two books.
    const nodes = await nodesOf(
      "authors?select=name,books!author_id(title,covers(colour))&order=born&limit=1&books.order=price&books.limit=1",
    );
    expect([readsOf(nodes, "authors"), readsOf(nodes, "books"), readsOf(nodes, "covers")]).toEqual([1, 1, 1]);
  });

  test("and not for the rows that are only counted", async () => {
    const nodes = await nodesOf("books?select=id,covers(colour)&order=pages&limit=1", "count=exact");
    expect([readsOf(nodes, "books"), readsOf(nodes, "covers")]).toEqual([2, 1]);
  });
});

describe("a relation that only filters becomes a join", () => {
  test("which is a semi-join with !inner", async () => {
    expect(kindsOf(await nodesOf("books?select=id,covers!inner()"))).toContainEqual(
      expect.stringMatching(/^Semi|^Inner/),
    );
  });

  test("which is an anti-join with is.null", async () => {
    expect(kindsOf(await nodesOf("books?select=id,covers()&covers=is.null"))).toContainEqual(
      expect.stringMatching(/^Anti/),
    );
  });
});

test.each([
  ["books?id=eq.2", "books_pkey"],
  ["books?id=in.(2,3)", "books_pkey"],
  ["books?facts->>isbn=eq.B-2", "books_isbn"],
  ["books?title=fts(english).engines", "books_words"],
  ["authors?name=eq.Anonymous", "authors_name_key"],
])("the request %s uses the index %s", async (path, index) => {
  const nodes = await nodesOf(path);
  expect(nodes.map((node) => node["Index Name"])).toContain(index);
});

test("a computed field with a simple body is inlined", async () => {
  const nodes = await nodesOf("authors?select=fellow_books(title)&limit=1");
  expect(nodes.map((node) => node["Node Type"])).not.toContain("Function Scan");
});
