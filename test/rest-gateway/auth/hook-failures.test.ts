import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startMailServer } from "../../support/mail-server.ts";
import { sendTo } from "../../support/resource-client.ts";
import { startTestService, type TestService } from "../../support/service.ts";
import { POLL } from "../../support/until.ts";

const PASSWORD = "Correct-Horse-7!";
const VIOLATED = "a value violates a constraint of the database";
const server = await startMailServer();
const lines: { msg: string; hook?: string }[] = [];
const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
let service: TestService;
beforeAll(async () => {
  const settings = {
    ...server.settings,
    GRAPHQL_DOCUMENTS: "none",
    ADVISOR: "on",
    METRICS: "on",
    // Only a statement that sleeps takes so long.
    DB_STATEMENT_TIMEOUT: "5000",
  };
  service = await startTestService(settings, undefined, log);
  await sql("create table internal.suspensions (user_id bigint)");
});
afterAll(() => service.stop());

const sql = (text: string) => service.database.owner.query(text);
const HOOKS = {
  before_sign_up: ["internal.hook(jsonb)", "(fields jsonb) returns jsonb"],
  after_sign_in: ["internal.hook(bigint,jsonb)", "(id bigint, sign_in jsonb) returns void"],
  send_message: ["internal.send(jsonb)", "(message jsonb) returns boolean"],
} as const;
type Point = keyof typeof HOOKS;

/** Makes the function a hook until `remove` is called. */
async function use(point: Point, body: string) {
  const [signature, head] = HOOKS[point];
  const name = signature.split("(")[0];
  await sql(`
    create or replace function ${name}${head} language plpgsql set search_path = '' as $$ ${body} $$;
    grant execute on function ${signature} to auth_owner;
    select auth.use_hook('${point}', '${signature}')`);
}
const remove = (point: Point) => sql(`select auth.use_hook('${point}', null)`);

const login = async () =>
  (await sendTo(service.url, "POST /auth/login", { body: { username: "ada", password: PASSWORD } })).status;
const count = async (name: string) => {
  const { text } = await sendTo(service.url, "GET /metrics", {});
  return Number(new RegExp(`hook_failures_total\\{function="${name}"\\} (\\d+)`).exec(text)?.[1] ?? 0);
};
/** What the advisor says about hooks at /health. */
async function advice(): Promise<string[]> {
  const authorization = `Bearer ${service.service.tokens.issueKey("service_role")}`;
  const { json } = await sendTo(service.url, "GET /health", { headers: { authorization } });
  return (json.details.advisor?.findings ?? []).filter((line: string) => line.includes("hook-fails"));
}
const logged = () => lines.splice(0).filter(({ msg }) => msg === "a hook of the application has failed");

/** The same after an action that fails. The schema change that has made the hook may be noticed after it has failed first. */
const adviceAfter = (action: () => Promise<unknown>) =>
  expect.poll(async () => {
    await action();
    return advice();
  }, POLL);

describe("a hook that fails", () => {
  test("is counted, is in the log once, and the advisor names it with the reason until the schema changes", async () => {
    await use("after_sign_in", "begin perform from internal.suspensions; end");
    expect([await login(), await login()]).toEqual([500, 500]);
    expect(await count("internal.hook")).toBe(2);
    await adviceAfter(login).toEqual([
      "error hook-fails: function internal.hook: the service has called it as a hook, and it raised 42501: permission denied for table suspensions",
    ]);
    expect(logged()).toEqual([expect.objectContaining({ hook: "internal.hook" })]);
    await sql("grant select on internal.suspensions to auth_owner");
    await expect.poll(advice, POLL).toEqual([]);
    expect(await login()).toBe(200);
    await remove("after_sign_in");
  });

  test("because it takes longer than DB_STATEMENT_TIMEOUT is one too", async () => {
    await use("after_sign_in", "begin perform pg_catalog.pg_sleep(600); end");
    expect(await login()).toBe(504);
    await adviceAfter(login).toEqual([
      expect.stringMatching(/internal\.hook.*it took longer than DB_STATEMENT_TIMEOUT$/),
    ]);
    expect(logged()).toHaveLength(1);
    await remove("after_sign_in");
  });

  test("because an e-mail could not be sent is one too, whatever it raises", async () => {
    await use("send_message", "begin raise exception 'the queue is full'; end");
    const forget = () => sendTo(service.url, "POST /auth/forgot", { body: { email: "bob@example.com" } });
    // The message may quote values of the e-mail.
    await adviceAfter(forget).toEqual([expect.stringMatching(/internal\.send: .*it raised P0001$/)]);
    expect(await count("internal.send")).toBeGreaterThan(0);
    expect(logged()).toHaveLength(1);
    await remove("send_message");
  });
});

test("a hook that refuses, or whose row breaks a constraint, does not fail, and the log names the constraint", async () => {
  const before = await count("internal.hook");
  await use("after_sign_in", "begin raise insufficient_privilege using message = 'suspended'; end");
  expect(await login()).toBe(403);
  await remove("after_sign_in");
  await sql(
    "create table internal.seats (id int primary key check (id > 1), number int not null); grant all on internal.seats to auth_owner",
  );
  const newcomer = { name: "Dora", email: "dora@example.com", password: PASSWORD };
  const register = () => sendTo(service.url, "POST /auth/register", { body: newcomer });
  for (const row of ["1, 2", "1, 2", "2, null"]) {
    await use("before_sign_up", `begin insert into internal.seats values (${row}); return fields; end`);
    expect(await register()).toMatchObject({ status: 400, json: { error: { message: VIOLATED } } });
  }
  await remove("before_sign_up");
  expect((await register()).status).toBe(201);
  expect((await register()).status).toBe(409);
  const violations = lines.filter(
    ({ msg }) => msg === "what the application writes for an account violates a constraint",
  );
  expect(violations).toMatchObject([
    { code: "23514", table: "internal.seats", constraint: "seats_id_check" },
    { code: "23502", table: "internal.seats", column: "number" },
  ]);
  expect([await count("internal.hook"), logged()]).toEqual([before, []]);
});

describe.each([
  ["insert into public.gone values (1)", 'relation "public.gone" does not exist'],
  ["perform new.gone", 'record "new" has no field "gone"'],
  ["perform public.gone(1)", "function public.gone(integer) does not exist"],
  ["perform nowhere.gone()", 'schema "nowhere" does not exist'],
  ["perform from internal.suspended", "permission denied for table suspended"],
])("a trigger of users that runs %s", (statement, mistake) => {
  beforeAll(async () => {
    await sql(`
      create table if not exists internal.suspended (user_id bigint);
      create function internal.broken() returns trigger language plpgsql as $$ begin ${statement}; return new; end $$;
      create trigger broken after insert on public.users for each row execute function internal.broken()`);
    return () => sql("drop function internal.broken() cascade");
  });

  test.each([
    ["/auth/register", "error.message", { name: "Dora" }],
    ["/auth/v1/signup", "msg", {}],
    ["/users", "error.message", { name: "Dora" }],
  ])("is an internal error of %s, and the log has the reason", async (path, member, fields) => {
    lines.length = 0;
    const newcomer = { ...fields, email: "erin@example.com", password: PASSWORD };
    const { status, json } = await sendTo(service.url, `POST ${path}`, { body: newcomer });
    expect(json).toHaveProperty(member, "internal error");
    expect([status, JSON.stringify(json)]).toEqual([500, expect.not.stringMatching(/gone|nowhere|suspended|broken/)]);
    expect(lines.map((line) => JSON.stringify(line))).toContainEqual(
      expect.stringContaining(JSON.stringify(mistake).slice(1, -1)),
    );
  });
});

test.each(["42P01", "42602", "42999", "3F000"])(
  "a trigger of users may refuse with %s, which it raises",
  async (code) => {
    await sql(`
    create function internal.strict() returns trigger language plpgsql as
      $$ begin raise exception 'no such club' using errcode = '${code}'; end $$;
    create trigger strict after insert on public.users for each row execute function internal.strict()`);
    for (const path of ["/auth/register", "/auth/v1/signup", "/users"]) {
      const body = {
        ...(path !== "/auth/v1/signup" && { name: "Dora" }),
        email: "erin@example.com",
        password: PASSWORD,
      };
      const { status, text } = await sendTo(service.url, `POST ${path}`, { body });
      expect([path, Math.floor(status / 100), text]).toEqual([path, 4, expect.stringContaining("no such club")]);
    }
    await sql("drop function internal.strict() cascade");
  },
);

describe("a unique column of users that is not the e-mail", () => {
  beforeAll(async () => {
    await sql("insert into public.users (name, email) values ('Once', 'once@example.com')");
    await sql("create unique index users_name_once on public.users (name) where name = 'Once'");
    return () => sql("drop index users_name_once");
  });

  test.each([
    ["/auth/v1/signup", { password: PASSWORD, data: { name: "Once" } }],
    ["/auth/v1/admin/users", { user_metadata: { name: "Once" } }],
    ["/auth/v1/invite", { data: { name: "Once" } }],
    ["/auth/admin/users", { name: "Once" }],
  ])("is no e-mail that is taken for %s", async (path, fields) => {
    const headers = { authorization: `Bearer ${service.service.tokens.issueKey("service_role")}` };
    const body = { email: "olga@example.com", ...fields };
    const { status, text } = await sendTo(service.url, `POST ${path}`, { headers, body });
    expect([status, text]).toEqual([409, expect.not.stringMatching(/e-?mail|exists/i)]);
  });

  test("is no e-mail that is taken on the page of a sign-up", async () => {
    const body = new URLSearchParams({ name: "Once", email: "olga@example.com", password: PASSWORD });
    const page = await fetch(`${service.url}/auth/sign-up`, { method: "POST", body });
    expect([page.status, await page.text()]).toEqual([409, expect.not.stringContaining("already registered")]);
  });
});
