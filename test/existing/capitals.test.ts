import { expect, inject, onTestFinished, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { adviseCommand } from "../../parts/advisor/advise.ts";
import { createTestDatabase } from "../support/database.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { healthOf, startTestService } from "../support/service.ts";

const JWT_SECRET = "the secret of the application, for HS256";

/** An application whose roles, schema and table have capitals, spaces and quotes in their names. */
async function createShop() {
  const database = await createTestDatabase(inject("clusterUrl"), "template1");
  const [login, anonymous] = [`${database.name}_Authenticator`, `${database.name} "Anon"`];
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
  const [api, anon] = [quoted(login), quoted(anonymous)];
  await database.owner.query(`
    create role ${api} login noinherit replication password 'secret';
    create role ${anon};
    grant ${anon} to ${api};
    alter role ${api} set pgrst.db_max_rows = '2';
    create schema "Shop";
    grant usage on schema "Shop" to ${anon};
    create table "Shop"."Order Lines" ("Id" int primary key, "Sold At" timestamptz);
    insert into "Shop"."Order Lines" values (1), (2), (3);
    grant select on "Shop"."Order Lines" to ${anon};
    create publication content_changes for table "Shop"."Order Lines"`);
  const url = new URL(database.url);
  Object.assign(url, { username: encodeURIComponent(login), password: "secret" });
  onTestFinished(async () => {
    await database.owner.query(`drop owned by ${api}, ${anon} cascade; drop role ${api}, ${anon}`);
    await database.drop();
  });
  const settings = {
    DATABASE_URL: url.href,
    MIGRATE: "off",
    DB_ANON_ROLE: anonymous,
    DB_SCHEMAS: "Shop",
    API_KEY_REQUIRED: "off",
    JWT_SECRET,
  };
  return { database: { ...database, drop: async () => {} }, settings };
}

test("a database whose roles, schemas and tables have capitals is served, with its settings, changes and advice", async () => {
  const { database, settings } = await createShop();
  const { url, service, gql, stop } = await startTestService({ ...settings, ADVISOR: "on" }, database);
  onTestFinished(() => stop());
  const lines = `${url}/rest/v1/Order%20Lines?select=Id`;
  // Two: the setting of the login role applies.
  expect(await (await fetch(lines)).json()).toEqual([{ Id: 1 }, { Id: 2 }]);
  expect((await gql("{ orderLines { edges { node { soldAt } } } }")).errors).toBeUndefined();
  await expect
    .poll(async () => (await healthOf(service)).details)
    .toMatchObject({
      changes: { publication: { name: "content_changes", tables: 1 } },
      advisor: { findings: expect.any(Array) },
    });
  const stream = new EventStreamClient(lines);
  await stream.take(1, "snapshot");
  await database.owner.query(`insert into "Shop"."Order Lines" values (4)`);
  expect((await stream.take(1, "INSERT"))[0]!.data.new).toEqual({ Id: 4 });
});

test("npx content-service advise checks it", async () => {
  const { settings } = await createShop();
  const { stdout, stderr } = await outcomeOf(adviseCommand([], settings));
  expect(stderr).toBe("the database has errors\n");
  expect(stdout).toContain('error: table "Shop"."Order Lines"');
});
