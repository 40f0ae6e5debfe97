import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";

const TABLES = "../rest-gateway/table/";

test.each([
  [`${TABLES}cinema.sql`, "cinema, archive"],
  [`${TABLES}library.sql`, "library"],
  [`${TABLES}fuzz.sql`, "fuzz"],
  [`${TABLES}security.sql`, "public"],
  ["../parts/openapi/tables/shop.sql", "shop"],
])("the GraphQL schema of %s is built without an error", async (file, schemas) => {
  const database = await createTestDatabase();
  await database.owner.query(readFileSync(new URL(file, import.meta.url), "utf8"));
  const { gql, health, stop } = await startTestService({ DB_SCHEMAS: schemas, API_KEY_REQUIRED: "off" }, database);
  await gql("{ __typename }");
  const { schema } = (await health()).details.graphql;
  await stop();
  expect(schema).toBe("current");
});

test("a table whose name has no plural has other names for many rows", async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    create table staff (id int primary key, name text not null);
    insert into staff values (1, 'Head'), (2, 'Clerk');
    grant select, insert, update, delete on staff to anon`);
  const { gql, stop } = await startTestService({}, database);
  const read = await gql("{ staff(id: 1) { name } allStaff { totalCount edges { node { id } } } }");
  const write = await gql(`mutation {
    createStaff(input: { id: 3, name: "Porter" }) { id }
    createManyStaff(input: [{ id: 4, name: "Trainee" }, { id: 5, name: "Guest" }]) { success }
    updateManyStaff(limit: 1, filter: { id: { equalTo: "5" } }, input: { name: "Visitor" }) { success }
    deleteManyStaff(limit: 1, filter: { id: { equalTo: "5" } }) { success }
  }`);
  await stop();
  expect(read.data).toEqual({
    staff: { name: "Head" },
    allStaff: { totalCount: 2, edges: [{ node: { id: "1" } }, { node: { id: "2" } }] },
  });
  expect(write).toMatchObject({
    data: {
      createStaff: { id: "3" },
      createManyStaff: { success: true },
      updateManyStaff: { success: true },
      deleteManyStaff: { success: true },
    },
  });
});

test.each([
  ["", ["reasons"]],
  [
    `create table regions (id int primary key, name text);
     create table people (id int primary key, region_id int references regions);
     create table region_history (
       person_id int references people, since date, region_id int references regions, primary key (person_id, since, region_id)
     );
     alter table orders add person_id int references people, add region_id int references regions;`,
    ["reasons"],
  ],
])("a view that shows the key of its table twice has each relationship once, %#", async (more, lists) => {
  const database = await createTestDatabase();
  await database.owner.query(`
    create table orders (id int primary key, name text);
    create table reasons (id int primary key, name text);
    create table order_reasons (order_id int references orders, reason_id int references reasons, primary key (order_id, reason_id));
    ${more}
    create view o as select id as nr, * from orders;
    insert into orders values (1, 'a');
    insert into reasons values (7, 'b');
    insert into order_reasons values (1, 7);
    grant select on all tables in schema public to anon`);
  const { gql, health, stop } = await startTestService({}, database);
  const { data } = await gql(`{ __type(name: "O") { fields { name } } os { edges { node { nr reasons { name } } } } }`);
  const { schema, omissions } = (await health()).details.graphql;
  await stop();
  expect({ schema, omissions }).toEqual({ schema: "current" });
  expect(data.os).toEqual({ edges: [{ node: { nr: "1", reasons: [{ name: "b" }] } }] });
  expect(data.__type.fields.filter(({ name }: any) => /^reasons(?!Connection)/.test(name))).toEqual(
    lists.map((name) => ({ name })),
  );
});
