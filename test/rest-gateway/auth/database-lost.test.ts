import type { QueryResult } from "pg";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { POLL } from "../../support/command.ts";
import { startTestService, type TestService } from "../../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ API_KEY_REQUIRED: "off" });
  // Builds the schema, for which the database must answer.
  expect((await service.gql("{ __typename }")).errors).toBeUndefined();
});
afterAll(() => service.stop());

type Sent = { readonly method: "GET" } | { readonly method: "POST"; readonly body: unknown };
const post = (body: unknown): Sent => ({ method: "POST", body });
const PASSWORD = "Correct-Horse-7!";

test.each<[string, Sent, ("bob" | "admin")?]>([
  ["a sign-in at /auth/v1/token?grant_type=password", post({ email: "ada@example.com", password: PASSWORD })],
  ["a sign-in at /auth/login", post({ username: "ada", password: PASSWORD })],
  ["the first request of a user at /graphql", post({ query: "{ me { id } }" }), "bob"],
  ["the first request of a user at /users/1", { method: "GET" }, "admin"],
])(
  "%s whose connection the database ends in the middle of a query is 503 with Retry-After",
  async (request, sent, user) => {
    const { owner, name } = service.database;
    await owner.query("begin; lock table auth_private.accounts in access exclusive mode");
    const answered = fetch(`${service.url}${request.split(" at ")[1]}`, {
      method: sent.method,
      headers: {
        "content-type": "application/json",
        ...(user && { authorization: `Bearer ${service.token(user)}` }),
      },
      ...(sent.method === "POST" && { body: JSON.stringify(sent.body) }),
    });
    // A transaction keeps what it has seen in pg_stat_activity.
    const WAITING = `select pg_stat_clear_snapshot();
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = '${name}' and wait_event_type = 'Lock' and backend_type = 'client backend'`;
    const ended = async () => {
      const [, terminated] = (await owner.query(WAITING)) as unknown as QueryResult[];
      return terminated!.rows.length > 0;
    };
    await vi.waitUntil(ended, POLL);
    const response = await answered;
    await owner.query("rollback");
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await response.text()).toContain("the database is not available; try again");
  },
);

test("on a server that only reads, as a standby behind a pooler, writes and sign-ins are 503 with Retry-After, and work again on the primary", async () => {
  const { owner, name } = service.database;
  const signIn = () =>
    fetch(`${service.url}/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "ada", password: "Correct-Horse-7!" }),
    });
  const headers = { authorization: `Bearer ${service.token("ada")}`, "content-type": "application/json" };
  const rename = (path: string) =>
    fetch(`${service.url}${path}`, { method: "PATCH", headers, body: JSON.stringify({ name: "Ada Lovelace" }) });
  const writes = async () => {
    const mutation = await service.gql(`mutation { createComment(articleId: 1, content: "Hello") { id } }`, {
      as: "ada",
    });
    return [
      ...(await Promise.all([rename("/rest/v1/users?id=eq.1"), rename("/users/1"), signIn()])).map(
        ({ status, headers }) => [status, headers.get("retry-after")],
      ),
      mutation.errors?.[0]?.message,
    ];
  };
  /** For all new connections. */
  const become = async (value: "on" | "off") => {
    await owner.query(`alter database "${name}" set default_transaction_read_only = ${value}`);
    await owner.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = '${name}' and backend_type = 'client backend' and pid <> pg_backend_pid()`);
  };
  await become("on");
  const refused = [[503, "5"], [503, "5"], [503, "5"], "the database is not available; try again"];
  await expect.poll(writes).toEqual(refused);
  await owner.query("set default_transaction_read_only = off");
  await become("off");
  await expect.poll(writes).toEqual([[204, null], [200, null], [200, null], undefined]);
});
