import jwt from "jsonwebtoken";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../gate/pipeline/log.ts";
import { type Service, startService } from "../../server.ts";
import { readConfig } from "../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const SECRET = "reallyreallyreallyreallyverysafe";

let database: TestDatabase;
let service: Service;
/** Roles belong to the whole cluster, so their names are unique: the login, a role it may become, and one it may not. */
let roles: { readonly login: string; readonly editor: string; readonly owner: string };

beforeAll(async () => {
  database = await createTestDatabase();
  const { name, owner } = database;
  roles = { login: `${name}_login`, editor: `${name}_editor`, owner: `${name}_owner` };
  await owner.query(`
    create role ${roles.login} login noinherit password 'secret';
    create role ${roles.editor};
    create role ${roles.owner};
    grant ${roles.editor} to ${roles.login};
    create schema api;
    create table api.todos (id int primary key, task text);
    insert into api.todos values (1, 'finish the tutorial');
    grant usage on schema api to ${roles.editor};
    grant select on api.todos to ${roles.editor};`);
  const url = new URL(database.url);
  url.username = roles.login;
  url.password = "secret";
  const config = readConfig({
    PGRST_DB_URI: url.href,
    PGRST_DB_SCHEMAS: "api",
    PGRST_JWT_SECRET: SECRET,
    PGRST_JWT_ROLE_CLAIM_KEY: ".app.role",
    PGRST_SERVER_HOST: "127.0.0.1",
    PGRST_SERVER_PORT: "0",
    LOG_LEVEL: "silent",
  });
  service = await startService(config, createLog(config.logLevel));
});

afterAll(async () => {
  await service.stop();
  for (const role of Object.values(roles)) await database.owner.query(`drop owned by ${role}; drop role ${role}`);
  await database.drop();
});

/** The rows that a caller with these claims reads, or the status and code of the error; null sends no token. */
async function todosOf(claims: object | null): Promise<string[] | string> {
  const token = claims && jwt.sign(claims, SECRET, { noTimestamp: true });
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const response = await fetch(`${service.url}/rest/v1/todos?select=task`, { headers });
  const body = (await response.json()) as any;
  return response.ok ? body.map(({ task }: { task: string }) => task) : `${response.status} ${body.code}`;
}

/** The same over GraphQL. */
async function graphqlTodosOf(claims: object | null): Promise<string[] | string> {
  const token = claims && jwt.sign(claims, SECRET, { noTimestamp: true });
  const response = await fetch(`${service.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) },
    body: JSON.stringify({ query: "{ todos { edges { node { task } } } }" }),
  });
  const { data, errors } = (await response.json()) as any;
  return data?.todos?.edges.map(({ node }: any) => node.task) ?? errors[0].extensions.code;
}

test("a database configured with PostgREST's settings is served to the role in the token", async () => {
  const claims = { app: { role: roles.editor }, sub: "auth0|7", iss: "https://id.example" };
  expect(await todosOf(claims)).toEqual(["finish the tutorial"]);
  expect(await graphqlTodosOf(claims)).toEqual(["finish the tutorial"]);
});

test.each([
  [
    "a request without a token is rejected when PGRST_DB_ANON_ROLE is unset",
    () => null,
    /^401 PGRST302$/,
    "AUTH_REQUIRED",
  ],
  [
    "a token without a role is rejected when PGRST_DB_ANON_ROLE is unset",
    () => ({ sub: "7" }),
    /^401 PGRST302$/,
    "AUTH_REQUIRED",
  ],
  [
    "a role that the login may not become is rejected",
    () => ({ app: { role: roles.owner } }),
    /^403 42501$/,
    "PERMISSION_DENIED",
  ],
  [
    "a role that does not exist is rejected",
    () => ({ app: { role: "role_that_does_not_exist" } }),
    /^401 22023$/,
    "AUTH_REQUIRED",
  ],
])("%s", async (_what, claims, status, code) => {
  expect(await todosOf(claims())).toMatch(status);
  expect(await graphqlTodosOf(claims())).toBe(code);
});
