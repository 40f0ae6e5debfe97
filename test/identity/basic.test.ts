import { beforeEach, describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { basic, PASSWORD } from "./support.ts";

let now = Date.now();
const { send, sql, service } = useService({ USERS_WRITE: "owner" }, () => now);

const CHALLENGE = 'Basic realm="content-service", charset="UTF-8"';
const ask = (username: string, password = PASSWORD) =>
  send("/tasks", { headers: { authorization: basic(username, password) } });
const statuses = async (username: string, passwords: readonly string[]) =>
  (await Promise.all(passwords.map((password) => ask(username, password)))).map(({ status }) => status);
/** Attempts to sign in so far. Each hashes a password and takes two numbers of the sequence. */
const attempts = async () => Number((await sql("select nextval('auth_private.attempts_id_seq') as n"))[0]!.n);
const attemptsOf = async (work: () => Promise<unknown>) => {
  const before = await attempts();
  await work();
  return ((await attempts()) - before - 1) / 2;
};

beforeEach(async () => {
  // Longer than anything is cached.
  now += 61_000;
  await sql("delete from auth_private.attempts");
});

describe("a valid password", () => {
  test("is not hashed again for a minute", async () => {
    expect(await attemptsOf(() => ask("ada"))).toBe(1);
    now += 59_000;
    expect(
      await attemptsOf(async () => {
        for (let i = 0; i < 20; i++) expect((await ask("ADA")).status).toBe(200);
      }),
    ).toBe(0);
    now += 1000;
    expect(await attemptsOf(() => ask("ada"))).toBe(1);
  });

  test("is one attempt for all requests at the same time, which may be more than LOGIN_ATTEMPTS", async () => {
    expect(
      await attemptsOf(() =>
        statuses(
          "ada",
          Array.from({ length: 30 }, () => PASSWORD),
        ),
      ),
    ).toBe(1);
  });

  test("is also valid with the email, which is another login", async () => {
    expect((await ask("ada@example.com")).status).toBe(200);
  });

  test("does not make another password valid", async () => {
    await ask("ada");
    expect((await ask("ada", `${PASSWORD}!`)).status).toBe(401);
    expect((await ask("bob", `${PASSWORD}!`)).status).toBe(401);
    expect((await ask("ada")).status).toBe(200);
  });

  test("is hashed again after a change of the account", async () => {
    await ask("ada");
    await sql("update auth_private.accounts set permissions = array_append(permissions, 'x') where user_id = 1");
    // The notification takes a moment.
    await expect.poll(() => attemptsOf(() => ask("ada"))).toBe(1);
    expect((await ask("ada")).status).toBe(200);
  });
});

describe("a cached password", () => {
  /** Less than the minute for which a password is cached, however busy the machine is. */
  const SOON = { timeout: 120_000 };
  const bob = { headers: { authorization: basic("bob") } };
  const outcome = async () => {
    const { status, json } = await send("/tasks", bob);
    return [status, json.error?.code];
  };

  beforeEach(async () => {
    await sql("delete from auth_private.factors");
    expect(await outcome()).toEqual([200, undefined]);
  });

  test("is removed from the cache when changes may have been missed", async () => {
    // No notification is sent for a row that is inserted.
    await sql("insert into auth_private.factors (user_id, secret, enabled_at) values (2, 'x', now())");
    expect(await outcome()).toEqual([200, undefined]);
    await sql(`select pg_terminate_backend(pid) from pg_stat_activity
               where application_name = 'content-service changes' and datname = current_database()`);
    await expect.poll(outcome, SOON).toEqual([401, "MFA_REQUIRED"]);
  });

  test("stays cached when another user changes", async () => {
    // Nothing is cached until the listening connection of the previous test is replaced.
    await expect.poll(() => attemptsOf(outcome), SOON).toBe(0);
    await ask("ada");
    await sql("update auth_private.accounts set permissions = array_append(permissions, 'y') where user_id = 1");
    await expect.poll(() => attemptsOf(() => ask("ada"))).toBe(1);
    expect(await attemptsOf(outcome)).toBe(0);
  });
});

describe("a wrong password", () => {
  test("is 401 with the challenge, and so are an unknown username and the password of a disabled account", async () => {
    for (const [username, password] of [
      ["ada", "wrong"],
      ["unknown", PASSWORD],
      ["carol", PASSWORD],
      ["ada", ""],
    ] as const) {
      const { status, headers, json } = await ask(username, password);
      expect([status, headers.get("www-authenticate")]).toEqual([401, CHALLENGE]);
      expect(json.error).toMatchObject({ code: "AUTH_REQUIRED", message: "wrong username or password" });
    }
  });

  test("is 401 with the challenge on the table interface too", async () => {
    const apikey = service().service.tokens.issueKey("anon");
    const { status, headers, json } = await send("/rest/v1/users", {
      headers: { apikey, authorization: basic("ada", "wrong") },
    });
    expect([status, headers.get("www-authenticate")]).toEqual([401, CHALLENGE]);
    expect(json).toMatchObject({ code: "PGRST301", message: "wrong username or password" });
  });

  test("counts as an attempt: after five of them a valid password is 429 too, even if it is cached", async () => {
    expect((await ask("ada")).status).toBe(200);
    expect(await statuses("ada", ["a", "b", "c", "d", "e"])).toEqual([401, 401, 401, 401, 401]);
    const { status, headers } = await ask("ada", "f");
    expect(status).toBe(429);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await ask("ada")).status).toBe(429);
    expect((await ask("bob")).status).toBe(200);
  });

  test("is checked at most LOGIN_ATTEMPTS times when many are sent at the same time", async () => {
    const all = await statuses(
      "ada",
      Array.from({ length: 12 }, (_, i) => `wrong ${i}`),
    );
    expect(all.filter((status) => status === 401)).toHaveLength(5);
    expect(all.filter((status) => status === 429)).toHaveLength(7);
  });

  test("makes the caller of GraphQL anonymous, until there are too many attempts", async () => {
    const me = (password: string) =>
      send("/graphql", {
        method: "POST",
        headers: { "content-type": "application/json", authorization: basic("ada", password) },
        body: '{"query":"{ me { id } }"}',
      });
    expect((await me(PASSWORD)).json).toEqual({ data: { me: { id: "1" } } });
    for (let i = 0; i < 5; i++) {
      const { status, json } = await me(`wrong ${i}`);
      expect([status, json.errors[0].extensions.code]).toEqual([200, "AUTH_REQUIRED"]);
    }
    const { status, json, headers } = await me("wrong");
    expect([status, json.errors[0].extensions.code]).toEqual([429, "RATE_LIMITED"]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(5);
  });
});
