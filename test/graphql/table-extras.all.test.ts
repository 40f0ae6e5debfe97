import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { DEMO } from "../support/demo.ts";
import { startTestService, type TestService } from "../support/service.ts";

const { GRAPHQL_EXTRAS: _extras, ...settings } = DEMO.config.settings!;
const WITHOUT_EXTRAS = { ...DEMO, config: { ...DEMO.config, settings } };

const TABLES = `
  create table public.parks (id bigint primary key, name text not null unique);
  create table public.visits (
    id bigint primary key, park_id bigint references public.parks, guest text not null, made timestamptz not null unique
  );
  create index on public.visits (park_id);
  create table public.rides (like public.visits including all, foreign key (park_id) references public.parks);
  comment on table public.rides is e'@behavior +aggregates +bulk +changes\\nA ride.';
  insert into public.parks values (1, 'Efteling');
  insert into public.visits values (1, 1, 'Ada', '2026-01-01T00:00Z');
  insert into public.rides table public.visits;
  grant select, insert, update, delete on public.parks, public.visits, public.rides to anon`;

let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(TABLES);
  service = await startTestService({}, database, undefined, undefined, { definition: WITHOUT_EXTRAS });
});
afterAll(() => service.stop());

const typesOf = async (table: RegExp) => {
  const { data } = await service.gql("{ __schema { types { name } } }");
  return data.__schema.types.flatMap(({ name }: any) => (table.test(name) ? [name] : [])).sort();
};

test("a table has the types of its rows, lists, filters, orders and writes", async () => {
  expect(await typesOf(/Visit/)).toEqual([
    ...["CreateVisitInput", "ParkToManyVisitFilter", "UpdateVisitInput"],
    ...["Visit", "VisitConnection", "VisitEdge", "VisitFilter", "VisitOrderBy"],
  ]);
});

test("a table with the smart tag @behavior +aggregates +bulk +changes has these as well", async () => {
  const response = await service.gql(`{
    rides { aggregates { count max { made } } groupedAggregates(groupBy: [GUEST]) { count } }
    parks(orderBy: [RIDES__COUNT_DESC, RIDES__MAX_MADE_ASC]) { totalCount }
  }`);
  expect(response.data).toEqual({
    rides: {
      aggregates: { count: 1, max: { made: "2026-01-01T00:00:00.000Z" } },
      groupedAggregates: [{ count: 1 }],
    },
    parks: { totalCount: 1 },
  });
  expect(await typesOf(/^(ChangedRide|ChangedRideFilter|OldRide|RidesResult|RideUniqueKey)$/)).toHaveLength(5);
});

test.each([
  ["{ visits { aggregates { count } } }", "`visits` does not ask for it. Give it the smart tag @behavior +aggregates"],
  ["{ visits { groupedAggregates { count } } }", "@behavior +aggregates, or set GRAPHQL_EXTRAS=aggregates."],
  ["mutation { createVisits(input: []) { count } }", "@behavior +bulk, or set GRAPHQL_EXTRAS=bulk."],
  ["mutation { updateVisits(limit: 1) { count } }", "@behavior +bulk, or set GRAPHQL_EXTRAS=bulk."],
  ["mutation { deleteVisits(limit: 1) { count } }", "@behavior +bulk, or set GRAPHQL_EXTRAS=bulk."],
  ["mutation { upsertVisit(input: {}) { count } }", "@behavior +bulk, or set GRAPHQL_EXTRAS=bulk."],
  ["subscription { onVisitChanged { operation } }", "@behavior +changes, or set GRAPHQL_EXTRAS=changes."],
])("the error for %s says how the table gets it", async (query, reason) => {
  const response = await service.gql(query);
  expect(response.errors!.map(({ message }: any) => message)).toContainEqual(expect.stringContaining(reason));
});
