import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Outcome, outcomeOf } from "../../cli/command.ts";
import { key as keyCommand } from "../../cli/key.ts";
import { user as userCommand } from "../../cli/user.ts";
import { nodeRun, type Settings } from "../support/command.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

const PASSWORD = "Correct-Horse-7!";
const NEW = "Another-Horse-9?";

let service: TestService;
let dataDir: string;
let settings: Settings;
beforeAll(async () => {
  service = await startTestService({ LOGIN_ATTEMPTS: "1000", GRAPHQL_DOCUMENTS: "none" });
  dataDir = await mkdtemp(join(tmpdir(), "content-service-user-"));
  await chmod(dataDir, 0o711);
  settings = { DATABASE_URL: service.database.url, JWT_SECRET };
});
afterAll(async () => {
  await service.stop();
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

/** `npx content-service user` and `npx content-service key` without their processes. */
const user = (args: string[], input = "", given = settings) => {
  const stdin = () => Readable.from(Buffer.from(input), { objectMode: false });
  return outcomeOf(userCommand(args, { DATA_DIR: dataDir, ...given }, stdin));
};
const key = (...args: string[]) => outcomeOf(keyCommand(args, settings));

async function runProcess(script: "user" | "key", args: string[], input = ""): Promise<Outcome> {
  const command = nodeRun(script, { dataDir, settings, args, input });
  const exitCode = (await command.exited()) as Outcome["exitCode"];
  return { exitCode, stdout: command.stdout, stderr: command.stderr };
}

async function login(username: string, password = PASSWORD) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ username, password });
  const response = await fetch(`${service.url}/auth/login`, { method: "POST", headers, body });
  return { status: response.status, json: (await response.json()) as any };
}
const read = async (headers: Record<string, string>, path = "/users/1") =>
  (await fetch(service.url + path, { headers })).status;
const events = async (id: string) =>
  (await service.database.owner.query("select event from security_events where user_id = $1 order by id", [id])).rows
    .map(({ event }) => event)
    .filter((event) => !event.startsWith("login"));

describe("npx content-service user", () => {
  test("create adds a user who can sign in with the password from stdin", async () => {
    const args = ["create", "Dora", "dora@test.example", "--username", "dora", "--role", "admin"];
    const { exitCode, stdout, stderr } = await runProcess("user", args, `${NEW}\n`);
    expect([exitCode, stdout, stderr]).toEqual([
      0,
      expect.stringMatching(/^created user \d+ with the login dora\n$/),
      "",
    ]);
    expect(await login("dora", NEW)).toMatchObject({ status: 200 });
    const [, id] = /user (\d+)/.exec(stdout)!;
    expect(await events(id!)).toEqual(["role_changed", "registered"]);
  });

  test.each([
    [["disable", "bob"], "user bob is disabled\n", 403, "account_disabled"],
    [["enable", "BOB@example.com"], "user bob is enabled\n", 200, "account_enabled"],
    [["role", "bob", "admin"], "user bob has the role admin\n", 200, "role_changed"],
    [["role", "bob", "authenticated"], "user bob has the role authenticated\n", 200, "role_changed"],
    [["sign-out", "bob"], "user bob is signed out everywhere\n", 200, "logout"],
  ])("%j ends all sign-ins, and says and records what it has done", async (args, stdout, status, event) => {
    const headers = { authorization: `Bearer ${(await login("bob")).json.accessToken ?? service.token("bob")}` };
    if (args[0] !== "enable") expect(await read(headers)).toBe(200);
    expect(await user(args)).toEqual({ exitCode: 0, stdout, stderr: "" });
    await expect.poll(() => read(headers)).toBe(401);
    expect((await login("bob")).status).toBe(status);
    expect((await events("2")).at(-1)).toBe(event);
  });

  test("password sets a new password and ends all sign-ins", async () => {
    const headers = { authorization: `Bearer ${(await login("ada")).json.accessToken}` };
    expect(await user(["password", "ada"], `${NEW}\r\n`)).toMatchObject({ exitCode: 0, stderr: "" });
    await expect.poll(() => read(headers)).toBe(401);
    expect([(await login("ada")).status, (await login("ada", NEW)).status]).toEqual([401, 200]);
  });

  test("reset-factor removes a lost second factor, and ends all sign-ins within a second", async () => {
    const headers = { authorization: `Bearer ${(await login("admin")).json.accessToken}` };
    expect(await read(headers)).toBe(200);
    await service.database.owner.query(
      "insert into auth_private.factors (user_id, secret, enabled_at) values (3, 'x', now())",
    );
    expect((await login("admin")).json.error.code).toBe("MFA_REQUIRED");
    expect(await user(["reset-factor", "admin"])).toMatchObject({ stdout: "second factor of user admin removed\n" });
    await expect.poll(() => read(headers)).toBe(401);
    expect(await events("3")).toContain("mfa_disabled");
    expect((await login("admin")).status).toBe(200);
    expect(await user(["reset-factor", "admin"])).toMatchObject({
      exitCode: 0,
      stdout: "user admin has no second factor\n",
    });
  });

  test("delete deletes a user with the data, or lets another user have the data, and records both", async () => {
    const { owner } = service.database;
    const create = async (name: string) => {
      const { stdout } = await user(["create", name, `${name}@delete.example`], `${NEW}\n`);
      const id = /user (\d+)/.exec(stdout)![1]!;
      await owner.query("insert into articles (author_id, title, content) values ($1, 'An article', 'x')", [id]);
      return id;
    };
    const [one, other] = [await create("gone"), await create("heir")];
    const articles = async (id: string) =>
      (await owner.query("select from articles where author_id = $1", [id])).rows.length;
    const headers = { authorization: `Bearer ${(await login("gone@delete.example", NEW)).json.accessToken}` };
    expect(await user(["delete", "gone@delete.example", "--hand-over-to", "gone@delete.example"])).toMatchObject({
      exitCode: 1,
      stderr: "the user who gets the data must be another one\n",
    });
    expect(await user(["delete", "gone@delete.example", "--hand-over-to", "heir@delete.example"])).toEqual({
      exitCode: 0,
      stdout: "user gone@delete.example is deleted, and user heir@delete.example has their data\n",
      stderr: "",
    });
    expect([await articles(one), await articles(other)]).toEqual([0, 2]);
    await expect.poll(() => read(headers)).toBe(401);
    expect(await user(["delete", "heir@delete.example", "--with-data"])).toMatchObject({
      stdout: "user heir@delete.example is deleted, with their data\n",
    });
    expect(await articles(other)).toBe(0);
    const { rows } = await owner.query(
      "select detail, operator from security_events where user_id = $1 and event = 'account_deleted'",
      [one],
    );
    const { rows: session } = await owner.query("select session_user as login");
    const detail = { email: "gone@delete.example", handedOverTo: other };
    expect(rows).toEqual([{ detail, operator: `login ${session[0].login}` }]);
  });

  test("list prints the accounts that a text finds", async () => {
    const { stdout } = await user(["list", "BOB@"]);
    expect(stdout.trimEnd().split("\n").slice(1)).toEqual([expect.stringMatching(/^2 +bob +bob@example.com /)]);
    expect((await user(["list", "%"])).stdout.trimEnd().split("\n")).toHaveLength(1);
  });

  test("list prints all accounts and no secrets", async () => {
    const { exitCode, stdout } = await user(["list"]);
    expect(exitCode).toBe(0);
    const [head, ...lines] = stdout.trimEnd().split("\n");
    expect(head).toMatch(/^id +username +email +role +state +factor$/);
    expect(lines).toContainEqual(expect.stringMatching(/^4 +carol +carol@example.com +authenticated +disabled +no$/));
    expect(stdout).not.toContain("argon2");
  });

  test("email changes the e-mail that the user signs in with, and the e-mail of the user", async () => {
    const { exitCode, stdout } = await user(["email", "bob", "bob@new.example"]);
    expect([exitCode, stdout]).toEqual([0, "user bob has the e-mail bob@new.example\n"]);
    expect((await login("bob@new.example")).status).toBe(200);
    expect((await login("bob@example.com")).status).toBe(401);
    const text =
      "select event, detail ->> 'by' as by from security_events where user_id = 2 and event like '%email%' order by id";
    expect((await service.database.owner.query(text)).rows).toEqual([
      { event: "email_changed", by: null },
      { event: "login_email_changed", by: "operator" },
    ]);
    expect((await user(["email", "bob", "bob@example.com"])).exitCode).toBe(0);
  });

  test.each<[string[], string, RegExp]>([
    [
      ["disable", "unknown"],
      "",
      /^no account has the login unknown; list accounts with npx content-service user list\n$/,
    ],
    [["password", "ada"], "short\n", /^password must have at least 12 characters; /],
    [["password", "ada"], "", /^password must have at least 12 characters; /],
    [["create", "Ada", "ADA@example.com"], `${NEW}\n`, /^email already registered\n$/],
    [["create", "Eve", "eve"], `${NEW}\n`, /^email must be a valid address\n$/],
    [["create", "Eve", "eve@test.example", "--username", "a b"], `${NEW}\n`, /^username must have /],
    [["create", "Eve", "eve@test.example", "--username", "ada"], `${NEW}\n`, /^username already taken\n$/],
    [["create", "Eve", "eve@test.example", "--username", "\uff21da"], `${NEW}\n`, /^username already taken\n$/],
    [["create", "Eve", "eve@test.example", "--username", "\uff42ob"], `${NEW}\n`, /^username already taken\n$/],
    [
      ["create", "Eve", "eve@test.example", "--username", "\u0430da"],
      `${NEW}\n`,
      /^username must have letters of one script/,
    ],
    [
      ["create", "Eve", "eve@test.example", "--username", "ad\u200ba"],
      `${NEW}\n`,
      /^username must have visible letters/,
    ],
    [["email", "ada", "BOB@example.com"], "", /^email already registered\n$/],
    [["email", "ada", "ada"], "", /^email must be a valid address\n$/],
    [["email", "ada", "\u0430da@example.com"], "", /^email must have letters of one script/],
  ])("the arguments %j print one line on stderr, exit with 1 and change nothing", async (args, input, line) => {
    const all = async () => (await service.database.owner.query("select * from auth_private.accounts order by 1")).rows;
    const before = await all();
    const { exitCode, stdout, stderr } = await user(args, input);
    expect([exitCode, stdout, stderr]).toEqual([1, "", expect.stringMatching(line)]);
    expect(stderr).not.toContain(NEW);
    expect(await all()).toEqual(before);
  });
});

describe("npx content-service key", () => {
  const users = "/rest/v1/users?limit=1";

  test.each(["anon", "service"])("create %s makes a key that is valid until it is revoked", async (kind) => {
    const { exitCode, stdout, stderr } = await key("create", kind, `nightly ${kind}`);
    expect([exitCode, stdout, stderr]).toEqual([0, expect.stringMatching(`^cs_${kind}_[\\w-]{32,}\n$`), ""]);
    const apikey = stdout.trim();
    expect(await read({ apikey }, users)).toBe(200);
    expect(await read({ apikey }, "/rest/v1/security_events?limit=1")).toBe(kind === "service" ? 200 : 401);
    const { stdout: list } = await key("list");
    const prefix = apikey.slice(0, `cs_${kind}_`.length + 6);
    expect(list).toMatch(new RegExp(`${kind} +${prefix} +nightly ${kind} .* active\n`));
    expect(list).not.toContain(apikey);
    expect(await key("revoke", prefix)).toEqual({ exitCode: 0, stdout: "key revoked\n", stderr: "" });
    await expect.poll(() => read({ apikey }, users)).toBe(401);
    expect((await key("revoke", prefix)).exitCode).toBe(1);
    const { rows } = await service.database.owner.query("select event from security_events where event like 'key%'");
    expect(rows.slice(-2).map(({ event }) => event)).toEqual(["key_created", "key_revoked"]);
  });

  test("a name of more than 100 characters is rejected", async () => {
    const { exitCode, stderr } = await key("create", "anon", "x".repeat(101));
    expect([exitCode, stderr]).toEqual([1, "name must have 1 to 100 characters\n"]);
  });
});
