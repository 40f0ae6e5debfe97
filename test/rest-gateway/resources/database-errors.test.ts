import { setTimeout } from "node:timers/promises";
import pino from "pino";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { openRaw } from "../../support/raw-socket.ts";
import { useResources } from "../../support/resource-client.ts";
import { POLL } from "../../support/until.ts";

const logged: string[] = [];
const log = pino({ level: "warn" }, { write: (line) => void logged.push(line) });
const settings = { DB_POOL: "2", dbPoolShare: 100, dbPoolTimeout: 2500, DB_STATEMENT_TIMEOUT: "5000" };
const { api, body, failure, sql, service } = useResources(settings, "", log);

/** Less than it takes until a statement is ended for its own sake. */
const login = () => `${service().database.name}_data`;
/** Statements of callers that wait for a lock of the owner's transaction. */
async function waiting(): Promise<number> {
  const text =
    "select pid from pg_locks where not granted and pid in (select pid from pg_stat_get_activity(null) where usesysid = $1::regrole)";
  await sql("select pg_stat_clear_snapshot()");
  return (await sql(text, login())).length;
}
/** Locks the table until the test ends its transaction. */
const lock = (table: string) => sql(`begin; lock table ${table}`);
const unlock = () => sql("rollback");

// The next request is served at once.
afterEach(async () => {
  expect(await body("/users/1")).toMatchObject({ name: "Ada Lovelace" });
});

describe("a client that disconnects", () => {
  /** Sends a request without waiting for its answer. */
  async function send(method: string, path: string, text = "", length = text.length) {
    const raw = await openRaw(service().url);
    const headers = [
      `Host: ${new URL(service().url).host}`,
      `Authorization: Bearer ${service().token("ada")}`,
      ...(text === "" ? [] : ["Content-Type: application/json", `Content-Length: ${length}`]),
    ];
    raw.write(`${[`${method} ${path} HTTP/1.1`, ...headers].join("\r\n")}\r\n\r\n${text}`);
    return raw;
  }

  test.each([
    ["GET", "/users", ""],
    ["GET", "/api/v2/users/1", ""],
    ["PATCH", "/users/1", '{"name":"Not written"}'],
    ["POST", "/users", '{"name":"Not written","email":"nobody@example.com"}'],
    ["DELETE", "/users/1?cascade=true", ""],
  ])("leaves nothing written: %s %s", async (method, path, text) => {
    await lock("users");
    const raw = await send(method, path, text);
    await expect.poll(waiting, POLL).toBe(1);
    raw.socket.destroy();
    await expect.poll(waiting, POLL).toBe(0);
    await unlock();
    expect(await sql("select from users where name = 'Not written'")).toEqual([]);
    expect(logged).toEqual([]);
  });

  test("in the middle of a body leaves nothing written", async () => {
    const raw = await send("POST", "/users", '{"name":"Not written",', 1000);
    await setTimeout(50);
    raw.socket.destroy();
    await setTimeout(50);
    expect(await sql("select from users where name = 'Not written'")).toEqual([]);
    expect(logged).toEqual([]);
  });
});

test("a trigger that refuses too many changes, without a time, is 429 with Retry-After", async () => {
  await sql(`
    create function slow_down() returns trigger language plpgsql as
      $$ begin raise sqlstate 'PT429' using message = 'too many changes'; end $$;
    create trigger slow_down before update on users for each row execute function slow_down()`);
  const { status, headers } = await api("PATCH /users/1", { body: { age: 37 } });
  expect([status, headers.get("retry-after")]).toEqual([429, "5"]);
  await sql("drop trigger slow_down on users; drop function slow_down()");
});

describe("while statements are slow", () => {
  let received: Awaited<ReturnType<typeof failure>>[];
  beforeAll(async () => {
    await lock("users");
    // They have all connections.
    const slow = [failure("/users"), failure("PATCH /users/1", { body: { age: 1 } })];
    await vi.waitUntil(async () => (await waiting()) === 2, POLL);
    received = await Promise.all([failure("/articles"), ...slow]);
    await unlock();
  });

  test("a request that gets no connection in time is 504", () =>
    expect(received[0]).toEqual([
      504,
      "INTERNAL_ERROR",
      "timed out waiting for a free database connection; try again",
    ]));

  test("a statement over its time limit is 504 and changes nothing", async () => {
    const slow = [504, "INTERNAL_ERROR", "the request took too long and was cancelled"];
    expect(received.slice(1)).toEqual([slow, slow]);
    expect((await body("/users/1")).age).toBe(36);
  });
});

test("without its database the service responds with Retry-After", async () => {
  await sql(`alter role ${login()} nologin`);
  await sql("select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = $1", login());
  const gone = [503, "INTERNAL_ERROR", "the database is not available; try again"];
  await expect.poll(() => failure("/users")).toEqual(gone);
  expect(await failure("POST /users", { body: { name: "Zed", email: "zed@example.com" } })).toEqual(gone);
  const { headers, json } = await api("/api/v2/users/1");
  expect([headers.get("retry-after"), headers.get("x-api-version"), json.status]).toEqual(["5", "2", 503]);
  await sql(`alter role ${login()} login`);
});
