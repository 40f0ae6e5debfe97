import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type RestReply, type RestSent, useRest } from "../../support/rest-client.ts";
import { POLL } from "../../support/until.ts";

/** Two connections for each client; four requests may wait. */
const { rest, sql, service } = useRest(
  { DB_POOL: "4", dbPoolShare: 50, dbPoolQueue: 1 },
  `create function public.blocked(n int) returns int language sql volatile as
     $$ select pg_catalog.pg_advisory_xact_lock(7); select n $$;
   create function public.sum(a int) returns int language sql volatile as $$ select a $$;
   grant execute on function public.sum(int), public.blocked(int) to anon, authenticated, service_role`,
);

// Calls of blocked() run until the end of the test.
beforeEach(() => sql("select pg_advisory_lock(7)"));
afterEach(() => sql("select pg_advisory_unlock_all()"));

const block = (count: number, as?: RestSent["as"]) =>
  Array.from({ length: count }, (_, n) => rest("rpc/blocked", { body: { n }, ...(as && { as }) }));
const running = async () =>
  (
    await sql(
      "select from pg_locks join pg_database as d on d.oid = database and datname = current_database() where locktype = 'advisory' and not granted",
    )
  ).length;
const read = async (as?: RestSent["as"]) => (await rest("users?select=id&limit=1", as && { as })).status;

test("a client whose slow calls have its share does not keep others waiting, and its own calls wait in order", async () => {
  const completed: number[] = [];
  const calls = block(5, "ada").map(async (call) => completed.push((await call).json));
  await vi.waitUntil(async () => (await running()) === 2, POLL);
  expect([await read("bob"), await read("admin"), await read(), await read("service")]).toEqual([200, 200, 200, 200]);
  expect([await running(), completed]).toEqual([2, []]);
  await sql("select pg_advisory_unlock_all()");
  await Promise.all(calls);
  expect(completed).toHaveLength(5);
});

test("anonymous callers at one address share, with and without slow calls of users at the same address", async () => {
  const calls = [...block(3), ...block(1, "ada")];
  await vi.waitUntil(async () => (await running()) === 3, POLL);
  expect(await read("bob")).toBe(200);
  await sql("select pg_advisory_unlock_all()");
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
});

test("callers with the service key may use all connections of their pool", async () => {
  const calls = block(4, "service");
  await vi.waitUntil(async () => (await running()) === 4, POLL);
  await sql("select pg_advisory_unlock_all()");
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
});

test("a client with more requests than may wait is refused at once, and others are not", async () => {
  const calls = block(2, "ada");
  const refused: RestReply[] = [];
  const call = async () => {
    const reply = await rest("rpc/blocked", { as: "ada", body: { n: 1 } });
    if (reply.status !== 200) refused.push(reply);
    return reply;
  };
  // A burst of a second is not refused.
  await expect.poll(() => calls.push(call()) && refused.length, POLL).toBeGreaterThan(0);
  const { status, headers, json } = refused[0]!;
  expect([status, json.code, headers.get("retry-after")]).toEqual([503, "53000", "5"]);
  const { url, token } = service();
  const user = await fetch(`${url}/users/1`, { headers: { authorization: `Bearer ${token("ada")}` } });
  expect([user.status, user.headers.get("retry-after")]).toEqual([503, "5"]);
  expect(await read("bob")).toBe(200);
  await sql("select pg_advisory_unlock_all()");
  const statuses = (await Promise.all(calls)).map((reply) => reply.status);
  expect(statuses.filter((each) => each === 200).length).toBeGreaterThanOrEqual(6);
});

test("GraphQL and the resources have the same share as the tables", async () => {
  const calls = block(2, "ada");
  await vi.waitUntil(async () => (await running()) === 2, POLL);
  const completed: string[] = [];
  const { url, token } = service();
  const user = fetch(`${url}/users/1`, { headers: { authorization: `Bearer ${token("ada")}` } });
  const waiting = user.then(({ status }) => completed.push(`own ${status}`));
  const others = await fetch(`${url}/users/1`, { headers: { authorization: `Bearer ${token("bob")}` } });
  completed.push(`other ${others.status}`);
  await sql("select pg_advisory_unlock_all()");
  await Promise.all([...calls, waiting]);
  expect(completed).toEqual(["other 200", "own 200"]);
});

test("a task is stored on a connection of its client's share", async () => {
  const calls = block(2, "ada");
  await vi.waitUntil(async () => (await running()) === 2, POLL);
  const completed: string[] = [];
  const task = (as: "ada" | "bob") =>
    rest("rpc/sum", { as, body: { a: 1 }, prefer: "respond-async" }).then(({ status }) =>
      completed.push(`${as} ${status}`),
    );
  const waiting = task("ada");
  await task("bob");
  await sql("select pg_advisory_unlock_all()");
  await Promise.all([...calls, waiting]);
  expect(completed).toEqual(["bob 202", "ada 202"]);
});
