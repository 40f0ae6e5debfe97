import pg from "pg";
import { makeSchema as makeWhole } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { lexicographicSortSchema, printSchema } from "postgraphile/graphql";
import { PostGraphileAmberPreset } from "postgraphile/presets/amber";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeSchema } from "../../graphql/schema/make-schema.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

/** Types that turn out to have no members when others use them already. */
const DATABASE = `
  create schema parks;
  create table parks.parks (id int primary key, name text, parent int references parks.parks);
  create table parks.rides (id int primary key, park int references parks.parks, words tsvector);
  create view parks.searches as select words from parks.rides;
  create table parks.hidden (id int primary key);
  comment on column parks.hidden.id is '@behavior -*';
  create type parks.inner_most as (words tsvector);
  create type parks.inner as (innermost parks.inner_most);
  create type parks.outer as ("inner" parks.inner, next parks.inner_most);
  create function parks.outers() returns setof parks.outer language sql stable as 'select null::parks.outer limit 0';
  create function parks.inners() returns setof parks.inner language sql stable as 'select null::parks.inner limit 0';
  create function parks.length(park parks.parks) returns int language sql stable as 'select length(park.name)';
  create function parks.weight(of parks.inner_most) returns int language sql stable as 'select 1';
  create type parks.nothing as enum ();
  create function parks.nothings() returns setof parks.nothing language sql stable as 'select null::parks.nothing limit 0'`;

let database: TestDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.owner.query(DATABASE);
  pool = new pg.Pool({ connectionString: database.url });
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const preset = (more: GraphileConfig.Preset = {}): GraphileConfig.Preset => ({
  extends: [PostGraphileAmberPreset, more],
  pgServices: [makePgService({ pool, schemas: ["parks"], pubsub: false })],
});

/** The schema as text, or the error. */
async function built(make: typeof makeSchema, more?: GraphileConfig.Preset): Promise<string> {
  try {
    return printSchema(lexicographicSortSchema((await make(preset(more))).schema));
  } catch (error) {
    return String(error);
  }
}

const throwing = (hook: string, isOf: (context: any) => boolean): GraphileConfig.Plugin => ({
  name: "ThrowingPlugin",
  schema: {
    hooks: {
      [hook](spec: object, _build: unknown, context: any) {
        if (isOf(context)) throw new Error("on purpose");
        return spec;
      },
    },
  },
});

describe("a schema that is built in slices is the one that PostGraphile builds in one turn", () => {
  test.each<[string, GraphileConfig.Preset | undefined]>([
    ["with types that have no members", undefined],
    ["without mutations", { disablePlugins: ["MutationPlugin"] }],
    ["without subscriptions", { disablePlugins: ["SubscriptionPlugin"] }],
    ["with other names of the roots", { plugins: [renamedRoots()] }],
    [
      "if the type of a table throws",
      { plugins: [throwing("GraphQLObjectType_fields", ({ Self }) => Self.name === "Ride")] },
    ],
    [
      "if a field of a root throws",
      { plugins: [throwing("GraphQLObjectType_fields_field", ({ scope }) => scope.fieldName === "allParks")] },
    ],
    ["if a root throws", { plugins: [throwing("GraphQLObjectType_fields", ({ Self }) => Self.name === "Query")] }],
  ])("%s", async (_name, more) => {
    const sliced = await built(makeSchema, more);
    expect(sliced).toBe(await built(makeWhole, more));
  });

  test("four times at once", async () => {
    const texts = await Promise.all(Array.from({ length: 4 }, () => built(makeSchema)));
    expect(new Set(texts)).toEqual(new Set([await built(makeWhole)]));
  });
});

function renamedRoots(): GraphileConfig.Plugin {
  return {
    name: "RenamedRootsPlugin",
    inflection: { replace: { builtin: (previous, _preset, name) => `My${previous!(name)}` } },
  };
}
