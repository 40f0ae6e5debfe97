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
  ["../rest-gateway/openapi/tables/shop.sql", "shop"],
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
