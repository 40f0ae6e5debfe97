import { lstat, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { user } from "../../cli/user.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

/** Of the password "U*U". */
const BCRYPT = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

let service: TestService;
let folder: string;
beforeAll(async () => {
  service = await startTestService({ LOGIN_ATTEMPTS: "1000", GRAPHQL_DOCUMENTS: "none", SIGNUP: "off" });
  folder = await mkdtemp(join(tmpdir(), "content-service-import-"));
});
afterAll(async () => {
  await service.stop();
  await rm(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  await sql("delete from users where email like '%@import.example'");
});

const sql = async (text: string, ...values: unknown[]) => (await service.database.owner.query(text, values)).rows;
const file = () => join(folder, "users.ndjson");
const report = () => join(folder, "users.ndjson.refused.ndjson");
const accounts = () =>
  sql(`select e.email, a.username, a.name, a.role, a.disabled_at is not null as disabled, a.password_hash as hash,
         a.created_at as created, a.email_confirmed_at as confirmed
       from auth_private.accounts as a join auth_private.login_emails as e on e.user_id = a.user_id
       where e.email like '%@import.example' order by e.email`);

/** Runs `npx content-service user import` with a file of these rows; a text is a line as it is. */
async function importRows(rows: readonly (object | string)[], ...options: string[]) {
  await writeFile(file(), rows.map((row) => `${typeof row === "string" ? row : JSON.stringify(row)}\n`).join(""));
  return outcomeOf(user(["import", file(), ...options], { DATABASE_URL: service.database.url, JWT_SECRET }));
}
const refused = async () =>
  (await readFile(report(), "utf8"))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

const imported = (name: string, given: object = {}) => ({
  email: `${name}@import.example`,
  name,
  password_hash: BCRYPT,
  ...given,
});

describe("npx content-service user import", () => {
  test("creates users with their accounts, also with SIGNUP=off", async () => {
    const rows = [
      imported("ann", { username: "ann", email_confirmed: true, created_at: "2020-02-03T04:05:06+01:00", age: 31 }),
      imported("ben", { role: "admin", disabled: true, name: "Ben\u2028B." }),
      imported("cay", { password_hash: null }),
      "",
    ];
    expect(await importRows(rows)).toEqual({ exitCode: 0, stdout: "3 users imported\n", stderr: "" });
    expect(await accounts()).toEqual([
      {
        email: "ann@import.example",
        username: "ann",
        name: "ann",
        role: "authenticated",
        disabled: false,
        hash: BCRYPT,
        created: new Date("2020-02-03T03:05:06Z"),
        confirmed: new Date("2020-02-03T03:05:06Z"),
      },
      expect.objectContaining({
        ...{ email: "ben@import.example", name: "Ben\u2028B.", role: "admin" },
        ...{ disabled: true, confirmed: null },
      }),
      expect.objectContaining({ email: "cay@import.example", hash: null }),
    ]);
    expect(await sql("select name, age from users where email = 'ann@import.example'")).toEqual([
      { name: "ann", age: 31 },
    ]);
    const events = await sql(
      `select event, detail, operator from security_events as e join users as u on u.id = e.user_id
       where u.email = 'ann@import.example'`,
    );
    expect(events).toEqual([
      { event: "registered", detail: { by: "import" }, operator: expect.stringMatching(/^login /) },
    ]);
  });

  test("plans of a long import follow the tables, which it analyzes while they grow", async () => {
    const rows = Array.from({ length: 501 }, (_, i) => imported(`many${i}`));
    expect((await importRows(rows)).exitCode).toBe(0);
    const counted = await sql(
      "select reltuples >= 500 as is_known from pg_class where relname in ('accounts', 'login_emails') and relnamespace = 'auth_private'::regnamespace",
    );
    expect(counted).toEqual([{ is_known: true }, { is_known: true }]);
  });

  test("imports each row once, so that the command continues after an interruption or a correction", async () => {
    const rows = ["ann", "ben"].map((name) => imported(name));
    const wrong = imported("cay", { role: "root" });
    expect(await importRows([...rows, wrong])).toEqual({
      exitCode: 1,
      stdout: "2 users imported, 1 rows refused\n",
      stderr: `${report()} has the line and the reason of each refused row\n`,
    });
    expect(await refused()).toEqual([
      { line: 3, email: "cay@import.example", reason: "role must be authenticated or admin" },
    ]);
    expect((await stat(report())).mode & 0o777).toBe(0o600);
    // Changes that follow the import stay.
    await sql("update auth_private.accounts set name = 'Ann B.' where name = 'ann'");
    expect(await importRows([...rows, imported("cay", { role: "admin" }), imported("cay", { role: "admin" })])).toEqual(
      {
        exitCode: 0,
        stdout: "1 users imported, 3 imported before\n",
        stderr: "",
      },
    );
    expect((await accounts()).map(({ name }) => name)).toEqual(["Ann B.", "ben", "cay"]);
    await expect(stat(report())).rejects.toThrow("ENOENT");
  });

  test("refuses rows with a reason, and imports the others", async () => {
    await sql("insert into users (name, email) values ('Dan', 'dan@import.example')");
    const rows: readonly (readonly [row: object | string, reason: string])[] = [
      ["[", "not a JSON object: each line must be one"],
      ["[]", "not a JSON object: each line must be one"],
      [{ name: "x" }, "email is required"],
      [{ email: 1, role: "root" }, "email is required; name is required; role must be authenticated or admin"],
      [imported("no at", { email: "import.example" }), "email must be a valid address"],
      [imported("ann", { name: " " }), "name must have 1 to 200 characters"],
      [imported("ann", { username: "ada" }), "username already taken"],
      [
        imported("ann", { username: "a b" }),
        "username must have 1 to 100 characters, without spaces, colons and @; without a username the e-mail is used",
      ],
      [imported("ann", { age: 200 }), "age must be from 0 to 150"],
      [imported("ada", { email: "ADA@example.com" }), "email already registered"],
      [imported("dan"), "email already registered"],
      [
        imported("ann", { created_at: "2020-01-01" }),
        "created_at must be a time with a time zone, such as 2024-01-31T12:00:00Z",
      ],
      [
        imported("ann", { password_hash: "$2b$15$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW" }),
        "the cost of bcrypt must be from 4 to 14",
      ],
      [
        imported("ann", { password_hash: 1, disabled: 1 }),
        "password_hash must be a text; disabled must be true or false",
      ],
      [imported("ann", { id: "x" }), 'invalid input syntax for type bigint: "x"'],
    ];
    const others = Array.from({ length: 600 }, (_, i) => imported(`user${i}`));
    const { exitCode, stdout } = await importRows([
      ...others.slice(0, 300),
      ...rows.map(([row]) => row),
      ...others.slice(300),
    ]);
    expect([exitCode, stdout]).toEqual([1, `600 users imported, ${rows.length} rows refused\n`]);
    expect((await refused()).map(({ line, reason }) => [line, reason])).toEqual(
      rows.map(([, reason], i) => [i + 301, reason]),
    );
    expect(await accounts()).toHaveLength(600);
  });

  test("--dry-run checks every row and changes nothing", async () => {
    const rows = [...Array.from({ length: 501 }, (_, i) => imported(`user${i}`)), imported("user0", { name: "other" })];
    const path = join(folder, "report");
    expect(await importRows(rows, "--dry-run", "--report", path)).toEqual({
      exitCode: 1,
      stdout: "501 users can be imported, 1 rows refused; nothing was changed\n",
      stderr: `${path} has the line and the reason of each refused row\n`,
    });
    // A duplicate of another transaction too.
    expect(JSON.parse(await readFile(path, "utf8"))).toMatchObject({ line: 502, reason: "email already registered" });
    expect(await accounts()).toEqual([]);
  });

  test("gives an account to a user who exists, whose id the row has", async () => {
    const [{ id }] = await sql(
      "insert into users (name, email) values ('Eve', 'eve@import.example') returning id::int",
    );
    expect(await importRows([imported("eve", { id, name: "Eve" })])).toMatchObject({ exitCode: 0 });
    const [account] = await sql(
      "select user_id::int as id from auth_private.login_emails where email = 'eve@import.example'",
    );
    expect(account).toEqual({ id });
  });

  test("of an id of no user, the hook new_user decides", async () => {
    await sql(`create function internal.new_user_with_id(fields jsonb) returns bigint language sql
      security definer set search_path = '' as $$
      insert into public.users (id, name, email) overriding system value
      values (coalesce((fields ->> 'id')::bigint, 77777), fields ->> 'name', fields ->> 'email') returning id $$`);
    await sql("grant execute on function internal.new_user_with_id(jsonb) to auth_owner");
    await sql("select auth.use_hook('new_user', 'internal.new_user_with_id(jsonb)')");
    onTestFinished(async () => {
      await sql("select auth.use_hook('new_user', 'internal.new_user(jsonb)')");
      await sql("drop function internal.new_user_with_id(jsonb)");
    });
    expect(await importRows([imported("eve", { id: 88888 })])).toMatchObject({ exitCode: 0 });
    expect(await sql("select id::int from users where email = 'eve@import.example'")).toEqual([{ id: 88888 }]);

    await sql(`create or replace function internal.new_user_with_id(fields jsonb) returns bigint language sql
      security definer set search_path = '' as $$
      insert into public.users (name, email) values (fields ->> 'name', fields ->> 'email') returning id $$`);
    await importRows([imported("fay", { id: 99999 })]);
    expect(await refused()).toEqual([
      {
        line: 1,
        email: "fay@import.example",
        reason: expect.stringMatching(
          /^the hook new_user has returned the id \d+, and not 99999, which fields ->> 'id' is$/,
        ),
      },
    ]);
  });

  test("of users who have not confirmed their e-mail, EMAIL_CONFIRM=required demands it", async () => {
    await sql("update auth_private.settings set value = 'required' where name = 'email_confirm'");
    onTestFinished(async () => {
      await sql("update auth_private.settings set value = 'off' where name = 'email_confirm'");
    });
    await importRows([imported("ann"), imported("ben", { email_confirmed: true })]);
    const text = "select must_confirm from auth_private.accounts where import_key is not null order by name";
    expect(await sql(text)).toEqual([{ must_confirm: true }, { must_confirm: false }]);
  });

  test.each([
    ["none", /^cannot read .*none: ENOENT/],
    ["", /^cannot read .*: it is a folder\n$/],
  ])("of a file that cannot be read, says so: %j", async (name, stderr) => {
    const environment = { DATABASE_URL: service.database.url, JWT_SECRET };
    const outcome = await outcomeOf(user(["import", join(folder, name)], environment));
    expect(outcome).toEqual({ exitCode: 1, stdout: "", stderr: expect.stringMatching(stderr) });
  });

  test.each([
    ["users.ndjson", /^--report must name another file than the import\n$/],
    [".", /^--report must name a file, and .* is none\n$/],
    ["none/report", /^cannot write .*none\/report: ENOENT.*; name another file with --report\n$/],
  ])("imports nothing if its report cannot be the file %s", async (name, stderr) => {
    const outcome = await importRows([imported("ann"), "no object"], "--report", join(folder, name));
    expect(outcome).toMatchObject({ stdout: "", stderr: expect.stringMatching(stderr) });
    expect([await accounts(), (await readFile(file(), "utf8")).includes("ann")]).toEqual([[], true]);
  });

  test("its report takes the place of a link to the import", async () => {
    const link = join(folder, "link");
    await symlink(file(), link);
    expect(await importRows(["no object"], "--report", link)).toMatchObject({ exitCode: 1 });
    expect(await readFile(file(), "utf8")).toBe("no object\n");
    expect((await lstat(link)).isFile()).toBe(true);
  });

  test("a byte order mark before the first row is no part of it", async () => {
    const row = `\ufeff${JSON.stringify(imported("ann"))}`;
    expect(await importRows([row])).toMatchObject({ exitCode: 0, stdout: "1 users imported\n" });
  });
});
