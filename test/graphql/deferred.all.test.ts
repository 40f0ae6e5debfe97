import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { connect } from "../support/graphql-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

let service: TestService;
const start = async (options = {}) => {
  service = await startTestService({}, { ...database, drop: async () => {} }, undefined, undefined, options);
};
beforeEach(() => async () => service.stop());

/** The state of the schema in /health. */
const schema = async () => (await service.health()).details.graphql.schema;

test("the schema is built without a request, after the service is ready", async () => {
  await start({ buildsGraphQL: true });
  await expect.poll(schema, POLL).toBe("current");
});

test("if the schema is not built at the start, the first requests wait until the schema is built, over HTTP and WebSocket", async () => {
  await start();
  expect(await schema()).toBe("not built yet");
  const client = connect(service, { as: "ada" });
  const answers = await Promise.all([
    service.gql("{ user(id: 2) { name } }"),
    service.gql("{ user(id: 1) { name } }"),
    client.run("{ me { name } }"),
  ]);
  expect(answers.map(({ data }) => data)).toEqual([
    { user: { name: "Bob Kahn" } },
    { user: { name: "Ada Lovelace" } },
    { me: { name: "Ada Lovelace" } },
  ]);
  expect(await schema()).toBe("current");
});

test("while the database rejects connections, the first requests get 503, and later ones try again", async () => {
  await start();
  const login = `${database.name}_data`;
  await database.owner.query(`alter role ${login} connection limit 0`);
  await database.owner.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", [login]);
  const { status, errors } = await service.gql("{ __typename }");
  expect({ status, errors }).toEqual({
    status: 503,
    errors: [{ message: "GraphQL is not available: try again", extensions: { code: "INTERNAL_ERROR" } }],
  });
  await database.owner.query(`alter role ${login} connection limit -1`);
  expect((await service.gql("{ __typename }")).data).toEqual({ __typename: "Query" });
});
