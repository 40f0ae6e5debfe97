import { once } from "node:events";
import type { QueryResult } from "pg";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { startTestService, type TestService } from "../../support/service.ts";
import { POLL } from "../../support/until.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ API_KEY_REQUIRED: "off" });
  // Builds the schema, for which the database must answer.
  expect((await service.gql("{ __typename }")).errors).toBeUndefined();
});
afterAll(() => service.stop());

type Sent = { readonly method: "GET" } | { readonly method: "POST"; readonly body: unknown };
const post = (body: unknown): Sent => ({ method: "POST", body });
/** What is sent waits for a lock. Then the database ends its connection. */
async function whileLost<T>(send: () => Promise<T>): Promise<T> {
  const { owner, name } = service.database;
  await owner.query("begin; lock table auth_private.accounts in access exclusive mode");
  const answered = send();
  // A transaction keeps what it has seen in pg_stat_activity.
  const WAITING = `select pg_stat_clear_snapshot();
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = '${name}' and wait_event_type = 'Lock' and backend_type = 'client backend'`;
  const ended = async () => {
    const [, terminated] = (await owner.query(WAITING)) as unknown as QueryResult[];
    return terminated!.rows.length > 0;
  };
  await vi.waitUntil(ended, POLL);
  return answered.finally(() => owner.query("rollback"));
}

const PASSWORD = "Correct-Horse-7!";

test.each<[string, Sent, ("bob" | "admin")?]>([
  ["a sign-in at /auth/v1/token?grant_type=password", post({ email: "ada@example.com", password: PASSWORD })],
  ["a sign-in at /auth/login", post({ username: "ada", password: PASSWORD })],
  ["the first request of a user at /graphql", post({ query: "{ me { id } }" }), "bob"],
  ["the first request of a user at /users/1", { method: "GET" }, "admin"],
])(
  "%s whose connection the database ends in the middle of a query is 503 with Retry-After",
  async (request, sent, user) => {
    const response = await whileLost(() =>
      fetch(`${service.url}${request.split(" at ")[1]}`, {
        method: sent.method,
        headers: {
          "content-type": "application/json",
          ...(user && { authorization: `Bearer ${service.token(user)}` }),
        },
        ...(sent.method === "POST" && { body: JSON.stringify(sent.body) }),
      }),
    );
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await response.text()).toContain("the database is not available; try again");
  },
);

test("a GraphQL socket whose user is looked up when the database ends the connection is closed with 1013", async () => {
  const socket = new WebSocket(`${service.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
  await once(socket, "open");
  const [code, reason] = await whileLost(() => {
    const closed = once(socket, "close");
    const payload = { Authorization: `Bearer ${service.token("ada")}` };
    socket.send(JSON.stringify({ type: "connection_init", payload }));
    return closed;
  });
  expect([code, String(reason)]).toEqual([1013, "the database is not available; try again"]);
});

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

test.each([
  ["/auth/v1/token?grant_type=password", { email: "ada@example.com", password: "Correct-Horse-7!" }],
  ["/auth/login", { username: "ada", password: "Correct-Horse-7!" }],
])(
  "a sign-in at %s that a standby refuses, just before it is promoted, is 503 with Retry-After",
  async (path, body) => {
    const { owner } = service.database;
    // The next statement finds a server that writes.
    await owner.query(`create function public.only_read(bigint, jsonb) returns void language plpgsql as $$ begin
      set local transaction_read_only = on;
      insert into public.users (name) values ('Eve');
    end $$;
    grant execute on function public.only_read to auth_owner;
    select auth.use_hook('after_sign_in', 'public.only_read(bigint, jsonb)')`);
    onTestFinished(async () => {
      await owner.query("select auth.use_hook('after_sign_in', null); drop function public.only_read");
    });
    const response = await fetch(`${service.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await response.text()).toContain("the database is not available; try again");
  },
);
