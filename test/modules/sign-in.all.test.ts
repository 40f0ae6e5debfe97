import { afterAll, beforeAll, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { startTestService } from "../support/service.ts";
import { EMBEDDED, type ForeignServer, startForeignServer } from "./foreign-server.ts";
import { ID_FORMS, PASSWORD, showSignIn, startBeside } from "./foreign-users.ts";

let server: ForeignServer;
beforeAll(async () => {
  server = await startForeignServer(undefined, EMBEDDED);
});
afterAll(() => server?.cluster.remove());

// Other types of ids: foreign-database.release.test.ts.
test("users with uuid ids sign in with the settings and statements of docs/existing-database.md, and the schemas of the application stay byte for byte", () =>
  showSignIn(server, "uuid"));

test("users who may not read their own row register all the same", async () => {
  const { send } = await startBeside(server, "hidden", "uuid");
  const registered = await send("POST /auth/register", {
    body: { name: "Ada", email: "ada@example.com", password: PASSWORD },
  });
  expect([registered.status, registered.json]).toMatchObject([
    201,
    { user: { id: expect.stringMatching(ID_FORMS.uuid) } },
  ]);
  expect(Object.keys(registered.json.user)).toEqual(["id"]);
  const bob = { password: PASSWORD };
  const created = await send("POST /users", { body: { ...bob, name: "Bob", email: "bob@example.com" } });
  expect([created.status, created.text]).toEqual([201, ""]);
  expect((await send("POST /auth/login", { body: { ...bob, username: "bob@example.com" } })).status).toBe(200);
});

test("the type of ids is chosen once", async () => {
  const database = await server.makeDatabase("shop_twice", "");
  const start = (type: string) =>
    startTestService({ MIGRATE: "modules", MODULES: "auth", AUTH_USER_ID: type }, database, undefined, undefined, {
      definition: NO_APPLICATION,
    });
  await (await start("text")).service.stop();
  await expect(start("uuid")).rejects.toThrow(
    "AUTH_USER_ID is uuid, but the ids of users in this database are text: the type was chosen at installation.",
  );
  await database.drop();
});
