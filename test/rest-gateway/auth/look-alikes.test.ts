import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import {
  isOfOneScript,
  loginEmailFault,
  normalizedEmail,
  normalizedUsername,
  usernameFault,
} from "../../../rest-gateway/auth/login-names.ts";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";

const PASSWORD = "Correct-Horse-8!";
const client = useService({ registrationsPerAddress: 1000, GRAPHQL_DOCUMENTS: "none" });

test.each([
  ["ada_lovelace-1", true],
  ["\u0430\u0434\u0430", true],
  ["\u7530\u4e2dtanaka", true],
  ["\uae40kim", true],
  ["\u05d0\u05d3\u05d4", true],
  ["\u0928\u093f\u0932", true],
  ["\u0430da", false],
  ["\u0394elta", false],
  ["\u7530\u0430", false],
  ["\u13a0da", false],
])("%s is of one script, or of scripts that are written together: %s", (text, expected) =>
  expect(isOfOneScript(text)).toBe(expected),
);

const FORMAT = expect.stringContaining("must have 1 to 100 characters");
const VISIBLE = expect.stringContaining("must have visible letters");
const SCRIPTS = expect.stringContaining("must have letters of one script only");

test.each([
  ["ada", null],
  ["\u00fc".repeat(100), null],
  ["a.b_c-d+e!f'g", null],
  ["", FORMAT],
  ["a b", FORMAT],
  ["a@b", FORMAT],
  ["x".repeat(101), FORMAT],
  ["ad\u200ba", VISIBLE],
  ["ad\u00ada", VISIBLE],
  ["\u202eada", VISIBLE],
  ["\u2066ada\u2069", VISIBLE],
  ["ada\u3164", VISIBLE],
  ["ada\u2800", VISIBLE],
  ["ada\ufe0f", VISIBLE],
  ["ada\u{e0061}", VISIBLE],
  ["\u{1f600}", VISIBLE],
  ["\u0301ada", VISIBLE],
  ["x\u0323\u0323", VISIBLE],
  ["\u0430da", SCRIPTS],
  ["ad\u03b1", SCRIPTS],
])("the rule that the username %j breaks is %o", (username, fault) =>
  expect(usernameFault(normalizedUsername(username))).toEqual(fault),
);

test.each([
  ["ada@example.com", true],
  ["m\u00fcller@b\u00fccher.example", true],
  ["\u0430\u0434\u0430@example.com", true],
  ["\u0430da@example.com", false],
  ["ada@ex\u0430mple.com", false],
])("%s may sign in: %s", (email, may) => expect(loginEmailFault(email) === null).toBe(may));

test.each([
  ["Ada@Example.com", "Ada@Example.com"],
  ["Jose\u0301@X.org", "Jos\u00e9@x.org"],
  ["ann@xn--bcher-kva.example", "ann@b\u00fccher.example"],
  ["Ann@XN--BCHER-KVA.Example", "Ann@b\u00fccher.example"],
  ["bob@BU\u0308CHER.example", "bob@b\u00fccher.example"],
  ["bob@\uff42\u00fccher\uff0eexample", "bob@b\u00fccher.example"],
  ["a@xn--80ak6aa92e.com", "a@\u0430\u0440\u0440\u04cf\u0435.com"],
  ["a@xn--fiqs8s.xn--p1ai", "a@\u4e2d\u56fd.\u0440\u0444"],
  ["a@xn--ls8h.la", "a@\u{1f4a9}.la"],
  ["a@xn--fa-hia.example", "a@fa\u00df.example"],
  ["a@b@xn--bcher-kva.example", "a@b@b\u00fccher.example"],
  // Not valid.
  ["a@xn--.example", "a@xn--.example"],
  ["a@xn--a.example", "a@xn--a.example"],
  ["a@xn--99999999999999999999.example", "a@xn--99999999999999999999.example"],
  ["a@xn--bcher!kva.example", "a@xn--bcher!kva.example"],
  ["a@xn--abc-.example", "a@xn--abc-.example"],
  ["jose\u0301", "jos\u00e9"],
  ["", ""],
])("the e-mail %j is stored as %j, by TypeScript and by SQL", async (email, normal) => {
  const [found] = await client.sql(
    "select auth_private.normal_email($1) as normal, auth_private.email_key($1) as key, auth_private.email_key($2) as same",
    ...[email, normal],
  );
  expect([normalizedEmail(email), found!.normal, found!.key]).toEqual([normal, normal, found!.same]);
  expect(found!.key).toBe(normal.toLowerCase());
});

test.each([
  ["jose\u0301-1@test.example", "Jos\u00e9-1@test.example"],
  ["ann-1@xn--bcher-kva.example", "ann-1@B\u00fccher.example"],
  ["bob-1@bu\u0308cher.example", "bob-1@xn--bcher-kva.example"],
])("an account that SQL has made with the e-mail %j is that of %j", async (written, typed) => {
  const add = (email: string) =>
    client.sql(
      `with made as (insert into users (name, email) values ('Sql', gen_random_uuid() || '@test.example') returning id)
       select auth.add_account(made.id, 'Sql', $1, password_hash => a.password_hash)
       from made, auth_private.accounts as a where a.user_id = 1 and made.id is not null`,
      email,
    );
  await add(written);
  for (const username of [written, typed])
    expect((await sendJson(client, "/auth/login", { username, password: "Correct-Horse-7!" })).status).toBe(200);
  await expect(add(typed)).rejects.toMatchObject({ code: "23505" });
  expect((await sendJson(client, "/auth/register", dora({ email: typed }))).status).toBe(409);
  const stored = await client.sql(
    "select email from auth_private.login_emails where email = $1",
    normalizedEmail(written),
  );
  expect(stored).toHaveLength(1);
});

let count = 0;
const dora = (given: object) => ({ name: "Dora", email: `d${++count}@test.example`, password: PASSWORD, ...given });
const PATHS = ["/auth/register", "/users"];

describe.each(PATHS)("POST %s", (path) => {
  const register = (given: object) => sendJson(client, path, dora(given));
  const prefix = path === "/users" ? "cat" : "dog";

  test("rejects a username with invisible characters or of several scripts with 400, the field and the rule", async () => {
    for (const username of ["ad\u200ba", "\u0430da"]) {
      const { status, json } = await register({ username });
      expect([status, json.error.code, json.error.details[0].field]).toEqual([400, "VALIDATION_ERROR", "username"]);
      expect(json.error.details[0].message).toMatch(/visible letters|one script/);
    }
  });

  test("rejects a username that is another one in NFKC and lower case with the response for a taken one", async () => {
    expect((await register({ username: `${prefix}1all` })).status).toBe(201);
    const taken = await register({ username: `${prefix}1ALL` });
    const { requestId: _, timestamp: _2, ...error } = taken.json.error;
    expect([taken.status, error.code, error.message]).toEqual([409, "RESOURCE_CONFLICT", "username already taken"]);
    for (const username of [`${prefix}\uff11\uff41ll`, `${prefix}1\u{1d41a}LL`]) {
      const { status, json } = await register({ username });
      const { requestId: _, timestamp: _2, ...sent } = json.error;
      expect([status, sent]).toEqual([409, error]);
    }
  });

  test("rejects another spelling of the e-mail of an account with the response for a registered one", async () => {
    const outcomeOf = async (email: string) => {
      const { status, json } = await register({ email });
      return [status, json.error?.details[0].field, json.error?.message];
    };
    expect(await outcomeOf(`${prefix}o@test.example`)).toEqual([201, undefined, undefined]);
    expect(await outcomeOf(`${prefix}0@test.example`)).toEqual([201, undefined, undefined]);
    expect(await outcomeOf(`${prefix}\u00f6@test.example`)).toEqual([201, undefined, undefined]);
    expect(await outcomeOf(`${prefix}o\u0308@test.example`)).toEqual([409, "email", "email already registered"]);
    expect(await outcomeOf(`${prefix}\u043e@test.example`)).toEqual([
      400,
      "email",
      expect.stringContaining("one script"),
    ]);
  });

  test("of spellings of a username that arrive at once, one is registered", async () => {
    const length = path === "/users" ? 2 : 3;
    // c, as a capital, in full width and in bold.
    const usernames = ["c", "C", "\uff43", "\u{1d41c}"].map((letter) => letter.repeat(length));
    const all = await Promise.all(usernames.map((username) => register({ username })));
    expect(all.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409]);
  });
});

test("a username is stored normalized, and signs in however it is typed", async () => {
  const username = "\uff27\uff52\uff41\uff43\uff45";
  expect((await sendJson(client, "/auth/register", dora({ username }))).status).toBe(201);
  expect(await client.sql("select username from auth_private.accounts where username ilike 'grace'")).toEqual([
    { username: "Grace" },
  ]);
  for (const typed of [username, "grace", "GRACE"])
    expect((await sendJson(client, "/auth/login", { username: typed, password: PASSWORD })).status).toBe(200);
});

test("a display name is not an identity: it may look like another one", async () => {
  const { status } = await sendJson(client, "/users", {
    name: "\u0410d\u0430 Lovelace",
    email: "other-ada@test.example",
  });
  expect(status).toBe(201);
});

test("a username that SQL writes is stored in NFKC, and is refused if it is taken", async () => {
  const add = (username: string, email: string) =>
    client.sql(
      `with made as (insert into users (name, email) values ('Zoe', $1) returning id)
       select auth.add_account(made.id, 'Zoe', $1, $2, a.password_hash)
       from made, auth_private.accounts as a where a.user_id = 1`,
      ...[email, username],
    );
  await add("\uff3a\uff4f\uff45", "zoe1@test.example");
  expect(await client.sql("select username from auth_private.accounts where lower(username) = 'zoe'")).toEqual([
    { username: "Zoe" },
  ]);
  await expect(add("zo\u{1d41e}", "zoe2@test.example")).rejects.toMatchObject({ code: "23505" });
});

test("the migration keeps accounts whose usernames have one NFKC form, and normalizes the others", async () => {
  const { owner } = client.service().database;
  const text = await readFile(
    new URL("../../../db/modules/auth/migrations/001-without-skeletons.sql", import.meta.url),
    "utf8",
  );
  await client.sql("alter table auth_private.accounts disable trigger _100_normal");
  for (const [i, username] of ["kim", "\uff2b\uff49\uff4d", "\uff2c\uff45\uff45"].entries())
    await client.sql(
      `with made as (insert into users (name, email) values ('Kim', $1) returning id)
       select auth.add_account(made.id, 'Kim', $1, $2, a.password_hash)
       from made, auth_private.accounts as a where a.user_id = 1`,
      ...[`kim${i}@test.example`, username],
    );
  await client.sql("alter table auth_private.accounts enable trigger _100_normal");
  await client.sql("alter table auth_private.accounts add column username_skeleton text");
  await client.sql("alter table auth_private.login_emails add column skeleton text");
  await owner.query(text);
  for (const username of ["kim", "\uff2b\uff49\uff4d", "lee", "\uff2c\uff45\uff45"])
    expect((await sendJson(client, "/auth/login", { username, password: "Correct-Horse-7!" })).status).toBe(200);
  const found = await client.sql(
    "select username from auth_private.accounts where name = 'Kim' order by username collate \"C\"",
  );
  expect(found.map(({ username }) => username)).toEqual(["Lee", "kim", "\uff2b\uff49\uff4d"]);
});
