import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { moduleCommand } from "../../cli/module.ts";
import { USER_ID_TYPES } from "../../config/modules.ts";
import { hashCheaply } from "../support/cluster.ts";
import { startTestService } from "../support/service.ts";
import { type ForeignServer, ROLES, SERVERS, startForeignServer } from "./foreign-server.ts";
import { PASSWORD, showSignIn } from "./foreign-users.ts";

const SETTINGS = { MIGRATE: "modules", MODULES: "auth,tasks,channels", GRAPHQL_DOCUMENTS: "any" };

describe.each(SERVERS)("beside the tables of another application on PostgreSQL $version", (version) => {
  let server: ForeignServer;
  beforeAll(async () => {
    server = await startForeignServer(undefined, version);
  });
  afterAll(() => server?.cluster.remove());

  test.each(USER_ID_TYPES)("users with %s ids sign in, and the schemas of the application stay byte for byte", (type) =>
    showSignIn(server, type),
  );

  test("without a table of users, accounts have new ids", async () => {
    const database = await server.makeDatabase("shop_none", "create table public.things (id integer primary key)");
    const before = await server.dump(database.name);
    const kept = { ...database, drop: async () => {} };
    const service = await startTestService(SETTINGS, kept, undefined, undefined, { definition: NO_APPLICATION });
    const register = "select auth_api.register($1, null, $2)::text as id";
    const fields = { name: "Ada", email: "ada@example.com" };
    const { rows } = await database.owner.query(register, [fields, await hashCheaply(PASSWORD)]);
    expect(rows[0].id).toMatch(/^[0-9a-f]{8}-/);
    const body = JSON.stringify({ username: "ada@example.com", password: PASSWORD });
    const headers = { "content-type": "application/json" };
    expect((await fetch(`${service.url}/auth/login`, { method: "POST", headers, body })).status).toBe(200);
    await service.stop();

    // The roles that a superuser has made stay, and the logins of the service go.
    const environment = { DATABASE_URL: database.url, JWT_SECRET: "a secret of thirty-two bytes or more", ...SETTINGS };
    const removed = await moduleCommand(["remove", "caller", "auth", "tasks", "channels", "--yes"], environment);
    expect(removed).toBe("Removed: caller auth tasks channels. The next start installs what MODULES names.\n");
    expect(await server.dump(database.name)).toBe(before);
    const { rows: roles } = await database.owner.query(
      "select rolname from pg_roles where rolname = any ($1) or rolname like 'shop\\_none\\_%'",
      [ROLES],
    );
    expect(roles).toHaveLength(ROLES.length);
    await database.drop();
  });
});
