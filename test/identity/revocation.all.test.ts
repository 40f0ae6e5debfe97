import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { applicationOf } from "../../app/application.ts";
import { type Service, startService } from "../../server.ts";
import { createTestDatabase } from "../support/database.ts";
import { DEMO } from "../support/demo.ts";
import { connect } from "../support/graphql-client.ts";
import { JWT_SECRET, limitsIn, readTestConfig, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";
import { act, credentialsOf, DONE, INTERFACES, KINDS, type Kind, PASSWORD, REFUSED } from "./support.ts";

const SETTINGS = {
  JWT_REFRESH_GRACE: "0",
  USERS_WRITE: "owner",
  LOGIN_ATTEMPTS: "1000",
  loginAttemptsPerAddress: 100_000,
  // Two tasks of one caller occupy both processes.
  TASK_CONCURRENCY: "1",
  taskConcurrencyPerOwner: 2,
};

/** Two processes on one database, as on two machines. */
let first: TestService;
let second: TestService;
let other: Service;
let passwordHash: string;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    create table public.marks (name text);
    grant insert, select on public.marks to authenticated;
    create function public.mark(name text) returns void language sql volatile
      as $$ insert into public.marks values (name); select pg_advisory_xact_lock_shared(0, 1) $$;
    grant execute on function public.mark to authenticated, admin;
    grant insert on public.marks to admin`);
  first = await startTestService(SETTINGS, database);
  const environment = { DATABASE_URL: database.url, JWT_SECRET, PORT: "0", SEED: "none", RATE_LIMIT: "0", ...SETTINGS };
  const config = readTestConfig(environment, DEMO);
  other = await startService(config, pino({ level: "silent" }), {
    application: applicationOf(DEMO, config),
    limits: limitsIn(SETTINGS),
  });
  second = { ...first, url: other.url, service: other };
  passwordHash = (await sql("select password_hash from auth_private.accounts where user_id = 1"))[0].password_hash;
});
afterAll(async () => {
  await other.stop();
  await first.stop();
});
const sql = async (text: string, ...values: unknown[]) => (await first.database.owner.query(text, values)).rows;
const accounts = (change: string) => sql(`update auth_private.accounts set ${change} where user_id = 1`);
beforeEach(async () => {
  await accounts(`disabled_at = null, role = 'authenticated', permissions = '{}', password_hash = '${passwordHash}'`);
  // The processes receive the change of a disabled account a moment later.
  const headers = await credentialsOf("Bearer", first, 1);
  await expect.poll(() => inEveryProcess(headers), SOON).toEqual([200, 200]);
});

/** The outcome on one interface of each process. */
const inEveryProcess = (headers: Readonly<Record<string, string>>) =>
  Promise.all([first, second].map((service) => act(service, "/users", headers)));

/** The outcomes of `act` on every interface of both processes, one after the other. */
async function everywhere(headers: Readonly<Record<string, string>>) {
  const outcomes: (number | string)[] = [];
  for (const service of [first, second]) for (const at of INTERFACES) outcomes.push(await act(service, at, headers));
  return outcomes;
}
/** The outcomes of each credential, by kind. */
async function eachEverywhere(credentials: Readonly<Record<string, Readonly<Record<string, string>>>>) {
  const outcomes = Object.entries(credentials).map(async ([kind, headers]) => [kind, await everywhere(headers)]);
  return Object.fromEntries(await Promise.all(outcomes));
}
const ALL_DONE = [...INTERFACES, ...INTERFACES].map((at) => DONE[at]);
const ALL_REFUSED = [...INTERFACES, ...INTERFACES].map((at) => REFUSED[at]);
/** Milliseconds for requests to all three interfaces of two processes. */
const SOON = { timeout: 120_000, interval: 50 };

const ENDS: readonly (readonly [what: string, end: () => Promise<unknown>, kinds: readonly Kind[]])[] = [
  ["the account is disabled", () => accounts("disabled_at = now()"), KINDS],
  ["the role changes", () => accounts("role = 'admin'"), ["Bearer", "session"]],
  ["the permissions change", () => accounts("permissions = '{publish}'"), ["Bearer", "session"]],
  [
    "the password changes",
    () => accounts("password_hash = '$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$aGFzaA'"),
    ["Bearer", "session", "Basic"],
  ],
  ["all sign-ins of the user are ended", () => accounts("epoch = epoch + 1"), ["Bearer", "session"]],
  [
    "the key is revoked",
    () => sql("update auth_private.api_keys set revoked_at = now()"),
    ["X-API-Key", "apikey", "key as Bearer"],
  ],
  ["the key is deleted", () => sql("delete from auth_private.api_keys"), ["X-API-Key"]],
  ["the session is ended", () => sql("delete from auth_private.sessions"), ["session"]],
  [
    "the user signs in elsewhere",
    () =>
      sql(
        "update auth_private.sessions set cookie_hash = sha256('another'), seen_at = now(), expires_at = now() + '1 h' where cookie_hash is not null",
      ),
    ["session"],
  ],
];

describe.each(ENDS)("when %s", (_, end, kinds) => {
  const names = kinds.join(", ");

  test(`${names} of the user are refused at once, in every process and on every interface`, async () => {
    const credentials: Record<string, Readonly<Record<string, string>>> = {};
    for (const kind of kinds) credentials[kind] = await credentialsOf(kind, first, 1);
    const each = (outcomes: readonly unknown[]) => Object.fromEntries(kinds.map((kind) => [kind, outcomes]));
    // Twice, so that the second time is cached.
    expect(await eachEverywhere(credentials)).toEqual(each(ALL_DONE));
    expect(await eachEverywhere(credentials)).toEqual(each(ALL_DONE));
    await end();
    // Only one interface until both processes know, because a refused password is hashed each time.
    await expect.poll(() => inEveryProcess(credentials[kinds[0]!]!), SOON).toEqual([401, 401]);
    await expect.poll(() => eachEverywhere(credentials), SOON).toEqual(each(ALL_REFUSED));
  });

  test(`WebSockets that were opened with ${names} are closed with 4403, and their subscriptions end`, async () => {
    const open = [];
    for (const kind of kinds) {
      const headers = await credentialsOf(kind, first, 1);
      for (const service of [first, second]) {
        const client = connect(service, { headers });
        const closed = new Promise((resolve) => client.on("closed", resolve));
        open.push({ kind, closed, subscription: await client.subscribe("subscription { onArticleCreated { id } }") });
      }
    }
    await end();
    for (const { kind, closed, subscription } of open) {
      expect(await closed, kind).toMatchObject({ code: 4403 });
      await expect.poll(() => subscription.error, { ...POLL, message: kind }).toMatchObject({ code: 4403 });
    }
  });
});

describe("when a refresh token is used a second time", () => {
  const post = async (path: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${first.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as any;
  };
  const signIn = async () => {
    const { accessToken, refreshToken } = await post("/auth/login", { username: "ada", password: PASSWORD });
    return { refreshToken, headers: { authorization: `Bearer ${accessToken}` } };
  };

  test("the access tokens of its sign-in are refused, in every process and on every interface, and others stay valid", async () => {
    const stolen = await signIn();
    const other = await signIn();
    const { accessToken, refreshToken } = await post("/auth/refresh", { refreshToken: stolen.refreshToken });
    const credentials = {
      stolen: stolen.headers,
      next: { authorization: `Bearer ${accessToken}` },
      other: other.headers,
    };
    const all = { stolen: ALL_DONE, next: ALL_DONE, other: ALL_DONE };
    expect(await eachEverywhere(credentials)).toEqual(all);
    expect(await eachEverywhere(credentials)).toEqual(all);
    await post("/auth/refresh", { refreshToken: stolen.refreshToken });
    const ended = { stolen: ALL_REFUSED, next: ALL_REFUSED, other: ALL_DONE };
    await expect.poll(() => eachEverywhere(credentials), SOON).toEqual(ended);
    expect((await post("/auth/refresh", { refreshToken })).error.code).toBe("VERIFICATION_FAILED");
    expect((await post("/auth/refresh", { refreshToken: other.refreshToken })).accessToken).toEqual(expect.any(String));
  });

  test("WebSockets of its sign-in are closed with 4403, and those of others stay", async () => {
    const [stolen, other] = [await signIn(), await signIn()];
    const open = [first, second].map((service) => ({
      ended: connect(service, { headers: stolen.headers }),
      staying: connect(service, { headers: other.headers }),
    }));
    const closed = open.map(({ ended }) => new Promise((resolve) => ended.on("closed", resolve)));
    for (const { ended, staying } of open)
      for (const client of [ended, staying]) await client.subscribe("subscription { onArticleCreated { id } }");
    for (let turn = 0; turn < 2; turn++) await post("/auth/refresh", { refreshToken: stolen.refreshToken });
    for (const end of closed) expect(await end).toMatchObject({ code: 4403 });
    for (const { staying } of open) expect(await staying.run("{ me { id } }")).toEqual({ data: { me: { id: "1" } } });
  });
});

test("a key whose expiry is set to now has expired", async () => {
  const headers = await credentialsOf("apikey", first, 1);
  expect(await everywhere(headers)).toEqual(ALL_DONE);
  await sql("update auth_private.api_keys set expires_at = now() - interval '1 s'");
  const expired = ALL_REFUSED.map((code) => (code === "AUTH_REQUIRED" ? "AUTH_EXPIRED" : code));
  await expect.poll(() => everywhere(headers), SOON).toEqual(expired);
});

test("a key stays valid when the password changes, because it is another secret", async () => {
  const headers = await credentialsOf("X-API-Key", first, 1);
  await accounts("password_hash = password_hash || 'x'");
  expect(await everywhere(headers)).toEqual(ALL_DONE);
});

describe("while the listening connection is lost", () => {
  const loseConnection = () =>
    sql(`select pg_terminate_backend(pid) from pg_stat_activity
         where application_name = 'content-service changes' and datname = current_database()`);

  test("nothing is cached, and sockets are checked when it is back", async () => {
    const headers = await credentialsOf("Bearer", first, 1);
    expect(await everywhere(headers)).toEqual(ALL_DONE);
    const client = connect(first, { headers });
    const closed = new Promise((resolve) => client.on("closed", resolve));
    expect(await client.run("{ me { id } }")).toEqual({ data: { me: { id: "1" } } });
    await loseConnection();
    await accounts("disabled_at = now()");
    await expect.poll(() => everywhere(headers), SOON).toEqual(ALL_REFUSED);
    expect(await closed).toMatchObject({ code: 4403 });
  });

  test("nothing is kept in the cache until it is back", async () => {
    const headers = await credentialsOf("X-API-Key", first, 1);
    await loseConnection();
    expect(await everywhere(headers)).toEqual(ALL_DONE);
    await sql("update auth_private.api_keys set revoked_at = now()");
    await expect.poll(() => everywhere(headers), SOON).toEqual(ALL_REFUSED);
    await sql("update auth_private.api_keys set revoked_at = null");
    await expect.poll(() => everywhere(headers), SOON).toEqual(ALL_DONE);
  });
});

test("a token that is newer than the cached account is valid immediately", async () => {
  for (let i = 0; i < 10; i++) {
    await accounts("epoch = epoch + 1");
    const headers = await credentialsOf("Bearer", first, 1);
    expect(await act(second, "/users", headers)).toBe(200);
  }
});

test("a change of one user closes no socket of another", async () => {
  const client = connect(first, { headers: await credentialsOf("Bearer", first, 2) });
  await client.run("{ me { id } }");
  await accounts("disabled_at = now()");
  await sql("select pg_notify('accounts', $1)", '{"user":"2"}');
  await sql("select pg_notify('accounts', $1)", "{");
  expect(await client.run("{ me { id } }")).toEqual({ data: { me: { id: "2" } } });
});

describe("a waiting task", () => {
  const callMark = async (who: "ada" | "admin", name: string) => {
    const response = await fetch(`${first.url}/rest/v1/rpc/mark`, {
      method: "POST",
      headers: {
        apikey: first.service.tokens.issueKey("anon"),
        authorization:
          who === "admin"
            ? `Bearer ${first.token("admin")}`
            : String((await credentialsOf("Bearer", first, 1)).authorization),
        "content-type": "application/json",
        prefer: "respond-async",
      },
      body: JSON.stringify({ name }),
    });
    expect(response.status).toBe(202);
    return response.headers.get("location")!.split("/").at(-1)!;
  };
  const statusOf = async (id: string) => (await sql("select status, error from tasks.tasks where id = $1", id))[0];

  const until = (id: string, facts: object) => expect.poll(() => statusOf(id)).toMatchObject(facts);

  /** Occupies both processes until `meanwhile` has ended. */
  async function whileBusy(meanwhile: () => Promise<unknown>): Promise<void> {
    await sql("select pg_advisory_lock(0, 1)");
    const busy: string[] = [];
    try {
      for (let i = 0; i < 2; i++) busy.push(await callMark("admin", "of admin"));
      for (const id of busy) await until(id, { status: "running" });
      await meanwhile();
    } finally {
      await sql("select pg_advisory_unlock(0, 1)");
    }
    for (const id of busy) await until(id, { status: "succeeded" });
  }

  test.each([
    ["is disabled", "disabled_at = now()"],
    ["has another role", "role = 'admin'"],
  ])("is not run when the account of its user %s", async (_, change) => {
    const name = `of ada, whose account ${change}`;
    let waiting = "";
    await whileBusy(async () => {
      const headers = await credentialsOf("Bearer", first, 1);
      waiting = await callMark("ada", name);
      await accounts(change);
      await expect.poll(() => inEveryProcess(headers), SOON).toEqual([401, 401]);
    });
    await until(waiting, { status: "failed", error: { status: 403, error: { code: "PERMISSION_DENIED" } } });
    expect(await sql("select from public.marks where name = $1", name)).toEqual([]);
  });

  test("runs although the user has signed out in the meantime", async () => {
    let waiting = "";
    await whileBusy(async () => {
      waiting = await callMark("ada", "after signing out");
      await accounts("epoch = epoch + 1");
    });
    await until(waiting, { status: "succeeded" });
  });
});
