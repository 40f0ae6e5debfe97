import { expect, test } from "vitest";
import { TestCaller, type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";
const ADA = { id: 1 };

/** The e-mail that Ada's account signs in with. */
const loginEmail = async (db: TestTransaction, user = 1) =>
  (
    await db.owner.rows("select email from auth_private.login_emails where user_id = $1 and released_at is null", user)
  )[0]?.email;
const find = async (db: TestTransaction, login: string) => (await db.owner.call("auth_api.find_account", login))?.id;
const move = (caller: TestCaller, email: string, id = 1) =>
  caller.rows("update users set email = $2 where id = $1", id, email);
const events = (db: TestTransaction, user = 1) =>
  db.owner.rows("select event, detail from security_events where user_id = $1 order by id", user);

/** The user, who has signed in `age` seconds ago. */
async function signedIn(
  db: TestTransaction,
  { id }: { id: number } | Record<string, any>,
  age = 0,
): Promise<TestCaller> {
  const auth_time = Math.floor(Date.now() / 1000) - age;
  return new TestCaller(db.client, "authenticated", { role: "authenticated", sub: String(id), auth_time });
}

test("a user who changes the e-mail with a recent sign-in also signs in with the new one", () =>
  inTransaction(async (db) => {
    await move(await signedIn(db, ADA, 500), "ada@new.example");
    expect(await find(db, "ADA@new.example")).toBe("1");
    expect(await find(db, "ada@example.com")).toBeUndefined();
    const [from, to] = ["ada@example.com", "ada@new.example"];
    expect(await events(db)).toEqual([
      { event: "email_changed", detail: { from, to, role: "authenticated", user: 1 } },
      { event: "login_email_changed", detail: { from, to, by: "owner" } },
    ]);
  }));

test("a confirmed e-mail is confirmed until the account signs in with another one", () =>
  inTransaction(async (db) => {
    await db.owner.rows(
      "update auth_private.accounts set email_confirmed_at = '2030-01-01T12:00:00Z' where user_id = 1",
    );
    const confirmed = async () => {
      const { email, emailConfirmedAt } = await db.owner.call("auth_api.account_of", 1);
      return [email, emailConfirmedAt && new Date(emailConfirmedAt).toISOString()];
    };
    expect(await confirmed()).toEqual(["ada@example.com", "2030-01-01T12:00:00.000Z"]);
    await move(await signedIn(db, ADA, 601), "ada@new.example");
    expect(await confirmed()).toEqual(["ada@example.com", "2030-01-01T12:00:00.000Z"]);
    await move(await signedIn(db, ADA), "ada@other.example");
    expect(await confirmed()).toEqual(["ada@other.example", null]);
  }));

test.each<[string, (db: TestTransaction) => Promise<TestCaller> | TestCaller, object]>([
  ["the user with an old sign-in", (db) => signedIn(db, ADA, 601), { role: "authenticated", user: 1 }],
  ["the user with a key", (db) => db.as(ADA, "authenticated", null), { role: "authenticated", user: 1 }],
  ["an admin", (db) => db.as({ id: 3 }, "admin"), { role: "admin", user: 3 }],
  ["a caller without credentials in the open mode", (db) => db.editor, { role: "users_editor" }],
  ["the service key", (db) => db.service, { role: "service_role" }],
])(
  "after a change of users.email by %s the account signs in as before, and an event names who made it",
  (_who, as, by) =>
    inTransaction(async (db) => {
      await move(await as(db), "eve@test.example");
      expect(await db.owner.row("select email from users where id = 1")).toEqual({ email: "eve@test.example" });
      expect(await loginEmail(db)).toBe("ada@example.com");
      expect(await find(db, "ada@example.com")).toBe("1");
      expect(await find(db, "eve@test.example")).toBeUndefined();
      const detail = { from: "ada@example.com", to: "eve@test.example", ...by };
      expect(await events(db)).toEqual([{ event: "email_changed", detail }]);
    }),
);

test("a change in SQL is recorded with the login role, and also for a user without an account", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await move(db.owner, "other@test.example", dora!.id);
    const [{ name }] = (await db.owner.rows("select session_user as name")) as [any];
    const detail = { from: "dora@test.example", to: "other@test.example", role: name };
    expect(await events(db, dora!.id)).toEqual([{ event: "email_changed", detail }]);
  }));

test("an update that keeps the e-mail records nothing", () =>
  inTransaction(async (db) => {
    await (await signedIn(db, ADA)).rows("update users set email = email, name = 'Ada' where id = 1");
    expect(await events(db)).toEqual([]);
  }));

const TAKEN = "23505";

test("no other user can take the e-mail that an account signs in with, even after users.email has changed", () =>
  inTransaction(async (db) => {
    await move(db.editor, "gone@test.example", 3);
    const [dora] = await db.users("Dora");
    const insert = "insert into users (name, email) values ('Eve', 'ADMIN@example.com')";
    for (const caller of [db.anon, db.as(dora!), db.service, db.owner])
      expect(await caller.outcome(insert)).toBe(TAKEN);
    const update = "update users set email = 'Admin@example.com' where id = $1";
    for (const caller of [db.editor, await signedIn(db, dora!), db.service])
      expect(await caller.outcome(update, dora!.id)).toBe(TAKEN);
    const register = `select auth_api.register('{"name": "Eve", "email": "admin@example.com"}', null, null, null, $1)`;
    expect(await db.owner.outcome(register, HASH)).toBe(TAKEN);
    await move(db.as({ id: 3 }, "admin"), "admin@example.com", 3);
  }));

test("the previous e-mail stays reserved until it is purged: for others it is taken, its account may take it back", () =>
  inTransaction(async (db) => {
    const ada = await signedIn(db, ADA);
    await move(ada, "ada@new.example");
    const insert = "insert into users (name, email) values ('Eve', 'Ada@example.com')";
    expect(await db.anon.outcome(insert)).toBe(TAKEN);
    await move(ada, "ADA@example.com");
    expect(await loginEmail(db)).toBe("ADA@example.com");
    expect(await db.anon.outcome("insert into users (name, email) values ('Eve', 'ada@new.example')")).toBe(TAKEN);
    const purge = "select auth_api.purge(now() + make_interval(secs => $1), '0', '100 years', '30 days')";
    await db.owner.rows(purge, 30 * 86_400 - 60);
    expect(await db.anon.outcome("insert into users (name, email) values ('Eve', 'ada@new.example')")).toBe(TAKEN);
    await db.owner.rows(purge, 30 * 86_400 + 60);
    expect(await db.anon.outcome("insert into users (name, email) values ('Eve', 'ada@new.example')")).toBe(1);
    expect(await loginEmail(db)).toBe("ADA@example.com");
  }));

test("an account may have 20 reserved e-mails; a further change is refused, and going back is not", () =>
  inTransaction(async (db) => {
    const ada = await signedIn(db, ADA);
    for (let i = 1; i <= 20; i++) await move(ada, `ada${i}@test.example`);
    await expect(move(ada, "ada21@test.example")).rejects.toMatchObject({
      code: "54000",
      message: expect.stringContaining("20 times"),
    });
    await move(ada, "ada@example.com");
    expect(await loginEmail(db)).toBe("ada@example.com");
  }));

test("an e-mail with characters other than ASCII changes at POST /auth/email only", () =>
  inTransaction(async (db) => {
    await move(await signedIn(db, ADA), "ad\u00e4@example.com");
    expect(await loginEmail(db)).toBe("ada@example.com");
  }));

test("deleting a user frees the e-mails of the account", () =>
  inTransaction(async (db) => {
    const [dora] = await db.users("Dora");
    await db.addAccount(dora!);
    await move(await signedIn(db, dora!), "other@test.example", dora!.id);
    await db.owner.rows("delete from users where id = $1", dora!.id);
    for (const email of ["dora@test.example", "other@test.example"])
      expect(await db.anon.outcome("insert into users (name, email) values ('Eve', $1)", email)).toBe(1);
  }));
