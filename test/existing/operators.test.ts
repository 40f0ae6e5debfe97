import jwt from "jsonwebtoken";
import { afterAll, beforeAll, expect, test } from "vitest";
import { consoleClient, signIn, textOf } from "../support/console-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { startTrackit, type Trackit, taskId } from "./trackit.ts";

let trackit: Trackit;
/** The same database, whose operators have the role of support. */
let named: TestService;
beforeAll(async () => {
  trackit = await startTrackit({ PARTS: "+console", GRAPHQL_DOCUMENTS: "none" });
  const settings = {
    DATABASE_URL: trackit.loginUrl,
    MIGRATE: "off",
    DB_ANON_ROLE: trackit.role("anon"),
    JWT_SECRET: SECRET,
    PARTS: "+console",
    CONSOLE_ROLES: `${trackit.role("support")}, lead`,
    GRAPHQL_DOCUMENTS: "none",
  };
  named = await startTestService(settings, { ...trackit.database, drop: async () => {} });
});
afterAll(async () => {
  await named?.stop();
  await trackit?.stop();
});

const SECRET = "the secret of the application, for HS256";
const tokenOf = (claims: object) => jwt.sign(claims, SECRET);
const statusOf = async (url: string, token: string) =>
  (await fetch(url, { headers: { apikey: token, authorization: `Bearer ${token}` } })).status;
const pages = ({ url }: Pick<TestService, "url">) => [`${url}/config`, `${url}/schema_cache`];

test("a role of the application opens nothing for operators, whatever its name", async () => {
  for (const role of ["admin", "service_role", "postgres", trackit.role("support"), trackit.role("user")]) {
    const token = tokenOf({ role, sub: "1" });
    for (const page of pages(trackit)) expect([role, await statusOf(page, token)]).toEqual([role, 401]);
    expect([role, (await signIn(trackit.url, token)).status]).toEqual([role, 401]);
    const { details } = (await (
      await fetch(`${trackit.url}/health`, { headers: { authorization: `Bearer ${token}` } })
    ).json()) as any;
    expect(details).toBeUndefined();
  }
});

test("the service key, and the roles of CONSOLE_ROLES, do", async () => {
  const key = trackit.service.tokens.issueKey("service_role");
  for (const page of pages(trackit)) expect(await statusOf(page, key)).toBe(200);
  const support = trackit.token(1, "support");
  for (const page of pages(named)) expect(await statusOf(page, support)).toBe(200);
  for (const page of pages(named)) expect(await statusOf(page, trackit.token(1))).toBe(401);
  expect((await signIn(named.url, support)).status).toBe(303);
});

test("Try as reads what the chosen caller may read, with roles that the login may become", async () => {
  const operator = await consoleClient(named, tokenOf({ role: "lead" }));
  const page = await operator.page("/try");
  const offered = [...page.matchAll(/<option[^>]*>([^<]+)</g)].map(([, name]) => name!);
  expect(offered).toEqual(expect.arrayContaining([trackit.role("anon"), trackit.role("user")]));
  // Not one that bypasses row-level security, nor one that the login may not become.
  for (const role of [trackit.role("support"), trackit.role("owner"), "postgres", "admin", "service_role"])
    expect(offered).not.toContain(role);
  const attempt = (role: string) =>
    operator.send("/try", { as: "role", role, claims: "{}", kind: "rest", method: "GET", path: "/rest/v1/projects" });
  expect(textOf(await attempt("postgres"))).toContain("Choose one of the roles.");
  // Without the claim `sub` no policy holds.
  expect(await attempt(trackit.role("user"))).toContain("<code>[]</code>");
});

test("Why is a row hidden? names the membership that the login lacks, and a role that does not exist", async () => {
  const ask = async (service: Pick<TestService, "url">, credential: string) =>
    textOf(
      await (await consoleClient(service, credential)).send("/why", {
        ...{ table: "public.tasks", key: taskId(1), as: "role", role: trackit.role("user"), claims: "{}" },
      }),
    );
  const key = trackit.service.tokens.issueKey("service_role");
  const known = (await trackit.database.owner.query("select from pg_roles where rolname = 'service_role'")).rowCount;
  const fix = `grant service_role to ${trackit.role("api")};`;
  expect(await ask(trackit, key)).toContain(known === 0 ? "does not exist in this database" : fix);
  expect(await ask(named, tokenOf({ role: "lead" }))).toContain("lead, which does not exist in this database");
  expect(await ask(named, trackit.token(1, "support"))).toContain("What the role");
});
