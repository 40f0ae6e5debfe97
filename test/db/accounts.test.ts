import { describe, expect, test } from "vitest";
import { TestCaller, type TestTransaction, useTransactions } from "../support/roles.ts";

// What no request shows: races, plans, constraints and rights. The schema auth_api belongs to the service alone.

const inTransaction = useTransactions();

const HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";
const NOW = "2030-01-01T00:00:00Z";
const LATER = "2030-01-08T00:00:00Z";
const hash = (byte: number) => Buffer.alloc(32, byte);
const signIn = (db: TestTransaction, user: number, epoch: number, cookie: Buffer | null, token: Buffer | null) =>
  db.owner.call("auth_api.start_session", user, epoch, cookie, token, "curl", null, NOW, LATER, 100);

test.each([
  ["has changed since the password was verified", 1, 7],
  ["is disabled", 4, 0],
  ["does not exist", 7000, 0],
])("an account that %s does not sign in", (_what, user, epoch) =>
  inTransaction(async (db) => {
    expect(await signIn(db, user, epoch, hash(1), null)).toBeNull();
    expect(await signIn(db, user, epoch, null, hash(1))).toBeNull();
    expect(await db.owner.rows("select from auth_private.sessions")).toEqual([]);
  }),
);

test("a sign-in that has ended while a request was on its way ends no other one and enables no factor", () =>
  inTransaction(async (db) => {
    const sealed = Buffer.from("sealed");
    for (const [cookie, token] of [
      [hash(1), null],
      [null, hash(2)],
    ] as const) {
      const epoch = (await db.owner.call("auth_api.find_account", "ada")).epoch;
      const session = await signIn(db, 1, epoch, cookie, token);
      await db.owner.call("auth_api.begin_factor", 1, sealed, LATER, NOW);
      await db.owner.call("auth_api.sign_out", 1, null, "global", "token", null, NOW);
      expect(await db.owner.call("auth_api.sign_out", 1, session, "others", "token", null, NOW)).toBe(false);
      const enabled = await db.owner.call("auth_api.enable_factor", 1, session, sealed, sealed, 1, [], null, NOW);
      expect(enabled).toBe(false);
    }
    expect(await db.owner.call("auth_api.find_account", "ada")).toMatchObject({ hasFactor: false, epoch: 2 });
  }));

test("a change of the password needs the code unless its session has proved the second factor", () =>
  inTransaction(async (db) => {
    const sealed = Buffer.from("sealed");
    const find = () => db.owner.call("auth_api.find_account", "ada");
    const proved = await signIn(db, 1, (await find()).epoch, null, hash(1));
    await db.owner.call("auth_api.begin_factor", 1, sealed, LATER, NOW);
    await db.owner.call("auth_api.enable_factor", 1, proved, sealed, sealed, 1, [], null, NOW);
    const { epoch, passwordHash } = await find();
    const change = (session: string | null) =>
      db.owner.call("auth_api.change_password", 1, passwordHash, HASH, null, session, null, NOW);
    for (const session of [null, await signIn(db, 1, epoch, null, hash(2))])
      expect(await change(session)).toEqual({ outcome: "missing" });
    expect(await change(proved)).toMatchObject({ outcome: "accepted", account: { passwordHash: HASH } });
  }));

test("what an access token must match names only the revoked sessions whose tokens may still be valid", () =>
  inTransaction(async (db) => {
    const [own] = [await signIn(db, 1, 0, null, hash(1)), await signIn(db, 1, 0, null, hash(2))];
    const other = await signIn(db, 2, 0, null, hash(3));
    const state = (user: number, since: string) => db.owner.call("auth_api.account_state", user, since);
    for (const [user, session] of [
      [1, own],
      [2, other],
    ])
      expect(await db.owner.call("auth_api.end_session", user, session, NOW)).toBe(true);
    expect(await state(1, "2029-12-31T23:59:59Z")).toEqual({
      ...{ epoch: 0, role: "authenticated", revoked: [own], kept: [] },
    });
    expect(await state(1, NOW)).toMatchObject({ revoked: [] });
  }));

test("an account whose username is its e-mail in any case has none, so that the current e-mail is the login", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await db.owner.rows(
      "select auth.add_account($1, 'Dora', $2, 'DORA@test.example', $3)",
      dora!.id,
      dora!.email,
      HASH,
    );
    const account = await db.owner.row("select username from auth_private.accounts where user_id = $1", dora!.id);
    expect(account).toEqual({ username: null });
  }));

test("an account is found by its indexes", () =>
  inTransaction(async (db) => {
    await db.owner.rows(
      `with made as (insert into users (name, email) select 'U', 'u' || i || '@test.example' from generate_series(1, 5000) as i
         returning id, email)
       select auth.add_account(id, 'U', email, 'u' || id, $1) from made`,
      HASH,
    );
    await db.owner.rows("analyze users, auth_private.accounts, auth_private.login_emails");
    // The statements in the bodies of the functions.
    const bodyOf = async (name: string) =>
      (await db.owner.row("select prosrc as body from pg_proc where proname = $1", name)).body as string;
    const found = `explain ${(await bodyOf("find_account")).replaceAll("(login)", "('u77')").replaceAll("login,", "'u77',")}`;
    const described = `explain ${(await bodyOf("account_of")).replace("account_of.user_id", "77")}`;
    const plan = JSON.stringify([await db.owner.rows(found), await db.owner.rows(described)]);
    const indexes = ["accounts_username_key", "login_emails_email_key", "accounts_pkey", "login_emails_user_id_key"];
    for (const index of indexes) expect(plan).toContain(index);
    expect(plan).not.toContain("Seq Scan");
  }));

test.each([
  [
    "sessions_cookie_hash_length",
    "sessions (user_id, epoch, cookie_hash, started_at, seen_at, expires_at) values (1, 0, '\\x00', now(), now(), now())",
  ],
  [
    "refresh_tokens_token_hash_length",
    "refresh_tokens (session_id, token_hash, expires_at) values (gen_random_uuid(), '\\x00', now())",
  ],
  ["one_time_values_key_length", "one_time_values values ('code', '\\x00', '{}', now())"],
  ["factors_secret_known", "factors (user_id, secret) values (1, 'x')"],
  ["factors_secret_known", "factors (user_id, enabled_at) values (1, now())"],
  ["factors_pending_known", "factors (user_id, pending) values (1, 'x')"],
  ["accounts_username_format", "accounts (user_id, name, username) values (9, 'Eve', 'dora@test.example')"],
  ["accounts_username_key", "accounts (user_id, name, username) values (9, 'Eve', 'ADA')"],
  ["accounts_role_known", "accounts (user_id, name, role) values (9, 'Eve', 'service_role')"],
  ["accounts_password_hash_format", "accounts (user_id, name, password_hash) values (9, 'Eve', 'secret')"],
  ["providers_name_format", "providers values ('Acme', '{}')"],
  ["providers_definition_object", "providers values ('acme', '[]')"],
  ["providers_secrets_elsewhere", `providers values ('acme', '{"clientSecret": "x"}')`],
  [
    "providers_secrets_elsewhere",
    `providers values ('acme', '{"keys": [{"privateKey": "-----BEGIN PRIVATE KEY-----"}]}')`,
  ],
])("%s refuses %s", (constraint, row) =>
  inTransaction((db) => expect(db.owner.rows(`insert into auth_private.${row}`)).rejects.toMatchObject({ constraint })),
);

test("accounts may only read and add users, as their owner may", () =>
  inTransaction(async (db) => {
    const owner = new TestCaller(db.client, "auth_owner", {});
    expect(await owner.outcome("select from users where id = 1")).toBe(1);
    expect(await owner.outcome("insert into users (name, email) values ('Dora', 'dora@test.example')")).toBe(1);
    expect(await owner.outcome("insert into users (name, email, avatar_url) values ('D', 'd@d.d', null)")).toBe(
      "42501",
    );
    for (const text of ["update users set name = 'x'", "delete from users", "select from articles", "create role x"])
      expect(await owner.outcome(text)).toBe("42501");
  }));

describe("auth.has_recent_sign_in()", () => {
  const ago = (seconds: number) => Math.floor(Date.now() / 1000) - seconds;
  test.each<[string, unknown, boolean, string?]>([
    ["a sign-in of a moment ago", { auth_time: ago(0) }, true],
    ["a sign-in of nine minutes ago", { auth_time: ago(540) }, true],
    ["a sign-in of eleven minutes ago", { auth_time: ago(660) }, false],
    ["a longer recentSignIn", { auth_time: ago(660) }, true, "900"],
    ["recentSignIn=0", { auth_time: ago(0) }, false, "0"],
    ["a token without auth_time", { sub: "1" }, false],
    ["an anonymous caller", {}, false],
    ["auth_time as text", { auth_time: String(ago(0)) }, false],
    ["auth_time as an array", { auth_time: [ago(0)] }, false],
    ["a huge number", { auth_time: -1e300 }, false],
  ])("for %s, by which auth.require_recent_sign_in() raises CS401 or not", (_what, claims, expected, seconds = "600") =>
    inTransaction(async (db) => {
      // As the owner, who has no claims.
      await db.client.query("select set_config('request.jwt.claims', $1, true)", [JSON.stringify(claims)]);
      await db.client.query("update auth_private.settings set value = $1 where name = 'recent_sign_in'", [seconds]);
      const { rows } = await db.client.query("select auth.has_recent_sign_in() as recent");
      expect(rows).toEqual([{ recent: expected }]);
      const required = db.client.query("select auth.require_recent_sign_in()").catch(({ code }) => code);
      expect(await required).toEqual(expected ? expect.anything() : "CS401");
    }),
  );
});
