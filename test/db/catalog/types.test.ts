import { expect, test } from "vitest";
import { useCatalog } from "../../support/catalog.ts";

const paints = useCatalog(
  `
  create schema paints;
  create schema extras;
  create schema hidden;
  create type paints.shade as enum ('dark', 'light');
  create type extras.shade as enum ('other');
  create type paints."Odd Type" as (a int);
  create type paints.text as enum ('not the text of Postgres');
  create type extras.span as range (subtype = int);
  create type hidden.secret as enum ('x');
  create table paints.pots (id int);

  create domain paints.color as int;
  create domain paints.plain as int;
  create function paints.json(paints.color) returns json language sql immutable as 'select to_json($1::int::text)';
  create function paints.color(json) returns paints.color language sql immutable as 'select 1::paints.color';
  create function extras."odd color"(text) returns paints.color language sql immutable as 'select 1::paints.color';
  create function paints.assigned(paints.plain) returns json language sql immutable as 'select to_json($1)';
  create cast (paints.color as json) with function paints.json(paints.color) as implicit;
  create cast (json as paints.color) with function paints.color(json) as implicit;
  create cast (text as paints.color) with function extras."odd color"(text) as implicit;
  create cast (paints.plain as json) with function paints.assigned(paints.plain) as assignment;
  create table paints.walls (id int, color paints.color, plain paints.plain, colors paints.color[]);
  create view paints.seen as select color from paints.walls;`,
  { schemas: ["paints"], extraSearchPath: ["extras"] },
);

test.each([
  ["int4", "integer"],
  ["int", "int"],
  ["double precision", "double precision"],
  ["timestamp with time zone", "timestamp with time zone"],
  ["timestamptz", "timestamp with time zone"],
  ["numeric", "numeric"],
  ["varchar", "character varying"],
  ["char", "char"],
  ["jsonb", "jsonb"],
  ["int4range", "int4range"],
  ["text", "text"],
  ["pg_catalog.text", "text"],
  ["paints.text", "paints.text"],
  ["shade", "paints.shade"],
  ["extras.shade", "extras.shade"],
  ["span", "extras.span"],
  ["Odd Type", 'paints."Odd Type"'],
  ["color", "paints.color"],
])("a cast to %s means %s", (name, text) => expect(paints().catalog.types.get(name)).toBe(text));

test.each([
  "anyelement",
  "record",
  "void",
  "cstring",
  "internal",
  "pots",
  "paints.pots",
  "pg_class",
  "secret",
  "nothing",
])("a cast to %s is not available", (name) => expect(paints().catalog.types.has(name)).toBe(false));

test("every available type can be cast to", async () => {
  const { catalog, database } = paints();
  const casts = [...new Set(catalog.types.values())].map((text) => `null::${text}`);
  await database.owner.query(`select ${casts.join(", ")}`);
});

test("a column of a domain has the functions of its implicit casts, in tables and views", () => {
  const casts = {
    toJson: '"paints"."json"',
    fromText: '"extras"."odd color"',
    fromJson: '"paints"."color"',
  };
  const { columns } = paints().table("paints.walls");
  expect(columns.get("color")!.casts).toEqual(casts);
  expect(paints().table("paints.seen").columns.get("color")!.casts).toEqual(casts);
  expect([...columns.values()].filter((column) => column.casts).map(({ name }) => name)).toEqual(["color"]);
});

test("PostGIS is not installed here", () => expect(paints().catalog.postgis).toBeNull());
