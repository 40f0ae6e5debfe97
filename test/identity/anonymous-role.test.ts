import { beforeAll, expect, test } from "vitest";
import { provisionLogins } from "../../db/cluster/provision.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { sendTo } from "../support/resource-client.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

let database: TestDatabase;
let service: TestService;
let role: string;
beforeAll(async () => {
  database = await createTestDatabase();
  role = `${database.name}_visitor`;
  // The statements of a DBA who uses another anonymous role; the login exists after the first start.
  await provisionLogins(database.owner, database.url, JWT_SECRET);
  await database.owner.query(`
    create role ${role};
    grant ${role} to ${database.name}_data;
    create function public.who() returns text volatile language sql return current_user;
    grant usage on schema public to ${role};
    grant execute on function public.who() to ${role}`);
  service = await startTestService(
    { DB_ANON_ROLE: role, taskAnonymousRetention: 3600, TASK_CONCURRENCY: "2", GRAPHQL_DOCUMENTS: "none" },
    { ...database, drop: async () => {} },
  );
  return async () => {
    await service.stop();
    await database.owner.query(`drop owned by ${role}; drop role ${role}`);
    await database.drop();
  };
});

const rows = async (text: string, ...values: unknown[]) => (await database.owner.query(text, values)).rows;

test("an anonymous caller has tasks, whatever the name of the anonymous role", async () => {
  const apikey = service.service.tokens.issueKey("anon");
  const accepted = await sendTo(service.url, "POST /rest/v1/rpc/who", {
    headers: { apikey },
    prefer: "respond-async",
    body: {},
  });
  expect([accepted.status, accepted.text]).toEqual([202, expect.stringContaining("pending")]);
  const task = async () => (await sendTo(service.url, accepted.headers.get("location")!, {})).json;
  await expect.poll(async () => (await task()).status).toBe("succeeded");
  expect((await task()).result).toBe(role);
  const { status } = await sendTo(service.url, `POST ${accepted.headers.get("location")}/cancel`, {
    headers: { apikey },
  });
  expect(status).toBe(409);
});

test("the anonymous role has the rights of anon on tasks, and no other rights of anon", async () => {
  const [granted] = await rows(
    `select array_agg(oid::regprocedure::text order by 1) filter (where has_function_privilege('anon', oid, 'execute')) as anon,
       array_agg(oid::regprocedure::text order by 1) filter (where has_function_privilege($1, oid, 'execute')) as role
     from pg_proc where pronamespace = 'tasks'::regnamespace`,
    role,
  );
  expect(granted.anon).toContain("tasks.find(uuid)");
  expect(granted.role).toEqual(granted.anon);
  const schemas = await rows(
    `select nspname as name from pg_namespace
     where has_schema_privilege($1, oid, 'usage') and nspname !~ '^(pg_|information_schema)' order by 1`,
    role,
  );
  expect(schemas.map(({ name }) => name)).toEqual(["public", "tasks"]);
  const tables = await rows(
    "select oid::regclass from pg_class where relkind = 'r' and relnamespace <> 'pg_catalog'::regnamespace and relnamespace <> 'information_schema'::regnamespace and has_any_column_privilege($1, oid, 'select')",
    role,
  );
  expect(tables).toEqual([]);
});

test("an anonymous role that does not exist, or that the login may not become, is named in the error", async () => {
  const start = (name: string) => startTestService({ DB_ANON_ROLE: name }, { ...database, drop: async () => {} });
  await expect(start("no_such_role")).rejects.toThrow('the role "no_such_role" of DB_ANON_ROLE does not exist');
  await expect(start("pg_monitor")).rejects.toThrow(
    `the login "${database.name}_data" may not become "pg_monitor": grant it that role, or set DB_ANON_ROLE`,
  );
  expect(await rows("select has_schema_privilege('pg_monitor', 'tasks', 'usage') as granted")).toEqual([
    { granted: false },
  ]);
});
