import { beforeAll, expect, test } from "vitest";
import { advise } from "../../parts/advisor/advisor.ts";
import { createTestDatabase } from "../support/database.ts";
import { startTestService, type TestService } from "../support/service.ts";

const DDL = `
  create function public.climb(name text) returns text language plpgsql volatile set search_path = '' as $$
  begin
    perform set_config('role', name, true);
    return current_user;
  end $$;
  create function public.climbing() returns text language plpgsql volatile set search_path = '' as $$
  begin
    set local role admin;
    return current_user;
  end $$;
  create function public.climbed() returns text language sql stable set search_path = '' return current_user;
  create function public.who() returns text language sql stable return current_user || ' ' || session_user;
  create function public.user_role() returns text language sql stable return 'role';
  grant execute on function climb(text), climbing(), climbed(), who() to anon, authenticated, service_role;
  alter function public.climbed() set role = 'admin';`;

let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(DDL);
  service = await startTestService({ API_KEY_REQUIRED: "false" }, database);
  return () => service.stop();
});

type As = "ada" | "bob" | "admin";

/** The status and the body of a call. */
async function call(name: string, args: object, as?: As): Promise<[number, any]> {
  const response = await fetch(`${service.url}/rest/v1/rpc/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(as && { Authorization: `Bearer ${service.token(as)}` }) },
    body: JSON.stringify(args),
  });
  return [response.status, await response.json()];
}

test.each([
  ["climb", { name: "admin" }, 401],
  ["climb", { name: "service_role" }, 401],
  ["climbing", {}, 401],
  ["climbed", {}, 401],
] as const)(
  "a function that sets the role, %s(%j), does not make an anonymous caller more",
  async (name, args, status) => {
    expect(await call(name, args)).toMatchObject([status, { code: "42501" }]);
    expect(await call(name, args, "ada")).toMatchObject([403, { code: "42501" }]);
  },
);

test("GraphQL refuses it too", async () => {
  const { data, errors } = await service.gql('mutation { climb(name: "admin") }', { as: "ada" });
  expect(data?.climb ?? null).toBeNull();
  expect(errors?.[0]?.extensions.code).toBe("PERMISSION_DENIED");
});

test("admins have a login for themselves", async () => {
  const { name } = service.database;
  expect(await call("who", {}, "admin")).toEqual([200, `admin ${name}_admin`]);
  expect(await call("who", {}, "ada")).toEqual([200, `authenticated ${name}_data`]);
  expect(await call("who", {})).toEqual([200, `anon ${name}_data`]);
});

test("the advisor reports functions that set a role, with the fix", async () => {
  const { findings } = await advise(service.database.owner, { schemas: ["public"], logins: [], roles: ["anon"] });
  const found = findings.filter(({ rule }) => rule === "function-sets-role");
  expect(found.map(({ object }) => object)).toEqual([
    "function public.climb(text)",
    "function public.climbed()",
    "function public.climbing()",
  ]);
  for (const { fix } of found) expect(fix).toContain("security definer");
});
