import { describe, expect, test } from "vitest";
import { type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const NOW = "2030-01-01T00:00:00Z";
const LATER = "2030-01-01T00:10:00Z";
const ISSUER = "https://id.acme.example";
const key = (byte: number) => Buffer.alloc(32, byte);

const keep = (db: TestTransaction, byte = 1, kind = "sign-in", data = {}) =>
  db.owner.call("auth_api.keep_once", kind, key(byte), JSON.stringify(data), LATER);
const take = (db: TestTransaction, byte = 1, kind = "sign-in", now = NOW) =>
  db.owner.call("auth_api.take_once", kind, key(byte), now);

describe("a value that may be used once", () => {
  test("is kept once and taken once, by its kind and key", () =>
    inTransaction(async (db) => {
      expect(await keep(db, 1, "sign-in", { mode: "session" })).toBe(true);
      expect(await keep(db, 1, "sign-in", { mode: "token" })).toBe(false);
      expect([await take(db, 2), await take(db, 1, "code")]).toEqual([null, null]);
      expect(await take(db)).toEqual({ mode: "session" });
      expect(await take(db)).toBeNull();
    }));

  test("is gone after its time, taken or not, and the purge deletes it", () =>
    inTransaction(async (db) => {
      await keep(db, 1);
      await keep(db, 2);
      expect(await take(db, 1, "sign-in", LATER)).toBeNull();
      expect(await take(db, 1)).toBeNull();
      await db.owner.call("auth_api.purge", "2030-01-01T00:11:00Z", "1 hour", "1 hour", "1 hour");
      expect(await db.owner.rows("select from auth_private.one_time_values")).toEqual([]);
    }));

  test("is stored by the SHA-256 of its key", () =>
    inTransaction((db) =>
      expect(db.owner.call("auth_api.keep_once", "code", Buffer.alloc(31), "{}", LATER)).rejects.toMatchObject({
        constraint: "one_time_values_key_length",
      }),
    ));
});

type Given = { subject?: string; issuer?: string; name?: string | null; email?: string | null };
const register = (
  db: TestTransaction,
  { subject = "mary", issuer = ISSUER, name = "Mary", email = "mary@test.example" }: Given = {},
) => db.owner.call("auth_api.register_identity", issuer, subject, "acme", name, email, null, null, "192.0.2.1", NOW);
const use = (db: TestTransaction, subject = "mary", issuer = ISSUER) =>
  db.owner.call("auth_api.use_identity", issuer, subject, "acme", "new@test.example", Buffer.from("sealed"), NOW);
const link = (db: TestTransaction, user: number | string, subject = "mary", max = 20) =>
  db.owner.call("auth_api.link_identity", user, null, ISSUER, subject, "acme", null, null, null, max, null, NOW);
const unlink = (db: TestTransaction, user: number | string, id: string, issuers = [ISSUER]) =>
  db.owner.call("auth_api.unlink_identity", user, id, issuers, null, null, NOW);
const idOf = async (db: TestTransaction, subject = "mary") =>
  (await db.owner.row("select id from auth_private.identities where subject = $1", subject)).id;

test("register_identity creates a user, an account without a password and the identity", () =>
  inTransaction(async (db) => {
    expect(await register(db)).toBe("registered");
    const account = await use(db);
    expect(account).toMatchObject({
      name: "Mary",
      username: "mary@test.example",
      passwordHash: null,
      role: "authenticated",
    });
    const [event] = await db.owner.rows("select event, user_id, detail from security_events order by id desc");
    expect(event).toEqual({ event: "registered", user_id: Number(account.id), detail: { provider: "acme" } });
    expect(await db.owner.call("auth_api.find_account", "mary@test.example")).toMatchObject({ id: account.id });
  }));

test.each<[string, Given, string]>([
  ["an identity that is linked", {}, "linked"],
  ["an e-mail that another user has", { subject: "x", email: "ADA@example.com" }, "email taken"],
  ["an e-mail that is reserved for another account", { subject: "x", email: "mary@test.example" }, "email taken"],
  ["an e-mail that is malformed", { subject: "x", email: "mary" }, "malformed"],
  ["a name that is empty", { subject: "x", email: "x@test.example", name: "" }, "malformed"],
])("register_identity refuses %s and creates nothing", (_, given, outcome) =>
  inTransaction(async (db) => {
    await register(db);
    await db.owner.rows("update users set email = 'other@test.example' where email = 'mary@test.example'");
    const users = await db.owner.row("select count(*) from users");
    expect(await register(db, given)).toBe(outcome);
    expect(await db.owner.row("select count(*) from users")).toEqual(users);
  }),
);

test("use_identity records the sign-in, and finds the account by issuer and subject alone", () =>
  inTransaction(async (db) => {
    await register(db);
    const { id } = await use(db);
    const row = await db.owner.row("select email, sign_in, used_at from auth_private.identities");
    expect(row).toEqual({ email: "new@test.example", sign_in: Buffer.from("sealed"), used_at: new Date(NOW) });
    expect(await db.owner.call("auth_api.account_of_identity", ISSUER, "mary")).toMatchObject({ id });
    for (const [subject, issuer] of [
      ["Mary", ISSUER],
      ["mary ", ISSUER],
      ["mary", `${ISSUER}/`],
    ] as const)
      expect(await use(db, subject, issuer)).toBeNull();
  }));

test("link_identity links an identity to one account, up to a number of identities", () =>
  inTransaction(async (db) => {
    const linked = await link(db, 1);
    expect(linked).toEqual({ outcome: "linked", id: expect.any(String) });
    expect(await link(db, 1)).toEqual(linked);
    expect(await link(db, 2)).toEqual({ outcome: "taken" });
    expect(await link(db, 1, "second", 1)).toEqual({ outcome: "too many" });
    expect(await link(db, 4, "third")).toEqual({ outcome: "changed" });
    expect(await link(db, 7000, "third")).toEqual({ outcome: "changed" });
    const events = await db.owner.rows("select user_id, detail from security_events where event = 'identity_linked'");
    expect(events).toEqual([{ user_id: 1, detail: { provider: "acme", identity: linked.id } }]);
  }));

test("unlink_identity keeps the last way to sign in: a password, or an identity of a usable issuer", () =>
  inTransaction(async (db) => {
    await register(db);
    const { id: user } = await use(db);
    const id = await idOf(db);
    expect(await unlink(db, user, id)).toBe("last");
    await link(db, user, "second");
    expect(await unlink(db, user, id, ["https://other.example"])).toBe("last");
    expect(await unlink(db, user, id)).toBe("unlinked");
    expect(await unlink(db, user, await idOf(db, "second"))).toBe("last");
    await db.owner.rows("update auth_private.accounts set password_hash = '$argon2id$x' where user_id = $1", user);
    expect(await unlink(db, user, await idOf(db, "second"), [])).toBe("unlinked");
  }));

test("unlink_identity ends the other sign-ins, and reaches only identities of the account", () =>
  inTransaction(async (db) => {
    await link(db, 1);
    const id = await idOf(db);
    expect(await unlink(db, 2, id)).toBe("missing");
    const own = await db.owner.call("auth_api.start_session", 1, 0, null, key(1), null, null, NOW, LATER, 9);
    const other = await db.owner.call("auth_api.start_session", 1, 0, null, key(2), null, null, NOW, LATER, 9);
    const call = (from: string) => db.owner.call("auth_api.unlink_identity", 1, id, [ISSUER], from, null, NOW);
    expect(await call(own)).toBe("unlinked");
    expect(await db.owner.call("auth_api.account_state", 1, "2020-01-01")).toMatchObject({ epoch: 1, kept: [own] });
    expect(await call(other)).toBe("changed");
  }));

test("take_sign_in returns what ends the last sign-in, once", () =>
  inTransaction(async (db) => {
    await register(db);
    const { id } = await use(db);
    const signOut = () => db.owner.call("auth_api.take_sign_in", id, ISSUER);
    expect(await signOut()).toEqual({ subject: "mary", signIn: Buffer.from("sealed").toString("hex") });
    expect(await signOut()).toBeNull();
  }));

test("identities are deleted with their user", () =>
  inTransaction(async (db) => {
    await register(db);
    await db.owner.rows("delete from users where email = 'mary@test.example'");
    expect(await db.owner.rows("select from auth_private.identities")).toEqual([]);
  }));

test("list_providers returns the providers of the table by name", () =>
  inTransaction(async (db) => {
    expect(await db.owner.call("auth_api.list_providers")).toEqual([]);
    await db.owner.rows(`insert into auth_private.providers values ('b', '{"kind": "oidc"}'), ('a', '{}')`);
    expect(await db.owner.call("auth_api.list_providers")).toEqual([
      { name: "a", definition: {} },
      { name: "b", definition: { kind: "oidc" } },
    ]);
  }));

test.each([
  ["a name with a capital letter", "Acme", "{}", "providers_name_format"],
  ["a definition that is no object", "acme", "[]", "providers_definition_object"],
  ["a secret", "acme", '{"clientSecret": "x"}', "providers_secrets_elsewhere"],
  ["a private key", "acme", '{"keys": [{"privateKey": "-----BEGIN PRIVATE KEY-----"}]}', "providers_secrets_elsewhere"],
])("the table of providers rejects %s", (_, name, definition, constraint) =>
  inTransaction((db) =>
    expect(db.owner.rows("insert into auth_private.providers values ($1, $2)", name, definition)).rejects.toMatchObject(
      {
        constraint,
      },
    ),
  ),
);
