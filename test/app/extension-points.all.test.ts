import { readFileSync } from "node:fs";
import { Writable } from "node:stream";
import pino from "pino";
import { beforeAll, describe, expect, test } from "vitest";
import { applicationOf } from "../../app/application.ts";
import { type Config, defineResource, defineRoute, defineTask } from "../../app/index.ts";
import { loadApplication } from "../../app/load.ts";
import { refuseClashes } from "../../service/routes.ts";
import { readConfig } from "../support/config.ts";
import { createTestDatabase } from "../support/database.ts";
import { type ApiSent, sendTo } from "../support/resource-client.ts";
import { type DemoUser, startTestService, type TestService } from "../support/service.ts";

const FOLDER = "test/applications/notes";
const definition = await loadApplication(FOLDER);

const lines: any[] = [];
let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(readFileSync(`${FOLDER}/db/schema.sql`, "utf8"));
  const log = pino(new Writable({ write: (line, _, done) => done(void lines.push(JSON.parse(String(line)))) }));
  const settings = { APP_REPORT_LIMIT: "7", TASK_CONCURRENCY: "1" };
  service = await startTestService(settings, database, log, undefined, { definition });
  return () => service.stop();
});

const send = (request: string, { as, ...sent }: Omit<ApiSent, "as"> & { readonly as?: DemoUser } = {}) =>
  sendTo(service.url, request, {
    ...sent,
    headers: { ...sent.headers, ...(as && { authorization: `Bearer ${service.token(as)}` }) },
  });
const codeOf = async (request: string, sent?: Parameters<typeof send>[1]) => {
  const { status, json } = await send(request, sent);
  return [status, json?.error?.code, json?.error?.message];
};

describe("a resource", () => {
  test("of an application is served, and those of the demo are not", async () => {
    expect((await send("POST /notes", { as: "ada", body: { text: "Buy milk" } })).status).toBe(201);
    expect((await send("/notes")).json.data).toMatchObject([{ author_id: 1, text: "Buy milk" }]);
    expect((await send("/users")).status).toBe(404);
    expect((await send("/notes?keyword=milk")).status).toBe(400);
  });
});

test("sign-up without a resource that has accounts says where to sign up, or what to describe", async () => {
  expect(await codeOf("POST /auth/register", { body: {} })).toEqual([
    404,
    "RESOURCE_NOT_FOUND",
    "no resource of this application has accounts: sign up at POST /auth/v1/signup, or describe the users with hasAccount: true",
  ]);
  const { paths, components } = (await send("/openapi.json")).json;
  expect(paths["/auth/register"]).toBeUndefined();
  expect(paths["/auth/login"]).toBeDefined();
  expect(Object.keys(components.schemas)).not.toContain("Registration");
  // Every reference leads to a part of the document.
  for (const [, name] of JSON.stringify(paths).matchAll(/"#\/components\/schemas\/(\w+)"/g))
    expect(Object.keys(components.schemas)).toContain(name);
});

describe("a route", () => {
  test("returns JSON from the database, with the rights of its caller", async () => {
    const { status, json } = await send("/reports/2", { as: "bob" });
    expect([status, json]).toEqual([200, { notes: 0, latest: null, ids: null, limit: 7, role: "authenticated" }]);
    expect((await send("/reports/2")).json.role).toBe("anon");
  });

  test("writes several statements in one transaction, and logs with the id of the request", async () => {
    const headers = { "x-request-id": "report-1" };
    const body = { text: "Call Ada", tags: ["phone", 'a "quoted" tag'] };
    const { status, json } = await send("POST /reports/new", { as: "bob", body, headers });
    expect([status, json]).toMatchObject([201, body]);
    expect(lines).toContainEqual(expect.objectContaining({ requestId: "report-1", msg: "a note was added" }));
    const [row] = (await service.database.owner.query("select author_id, tags from notes where id = $1", [json.id]))
      .rows;
    expect(row).toEqual({ author_id: "2", tags: body.tags });
  });

  test("without a value is 204", async () => {
    expect((await send("DELETE /reports/999", { as: "ada" })).status).toBe(204);
  });

  test.each([
    ["no permission", "POST /reports/new", { body: { text: "x" } }, [401, "AUTH_REQUIRED"]],
    [
      "a check",
      "POST /reports/new",
      { as: "ada", body: { text: "x".repeat(101) } },
      [400, "VALIDATION_ERROR", "text must have at most 100 characters"],
    ],
    ["a value", "/reports/seven", {}, [400, "VALIDATION_ERROR"]],
    ["a body", "POST /reports/new", { as: "ada", body: "{" }, [400, "VALIDATION_ERROR"]],
    [
      "a method",
      "PUT /reports/2",
      {},
      [405, "VALIDATION_ERROR", "PUT is not allowed here: use GET, HEAD, POST, DELETE, OPTIONS"],
    ],
    ["a router", "/feed/broken", { as: "ada" }, [400, "VALIDATION_ERROR", "text must have at most 100 characters"]],
  ] as const)("has the same errors as every interface: %s", async (_what, request, sent, expected) => {
    expect((await codeOf(request, sent as never)).slice(0, expected.length)).toEqual(expected);
  });

  test("hides the details of its own faults", async () => {
    const [status, code, message] = await codeOf("POST /reports/new", { as: "ada", body: { text: 7 } });
    expect([status, code]).toEqual([500, "INTERNAL_ERROR"]);
    expect(message).not.toContain("text");
  });

  test.each(["values", "commands"])("is at fault if its statement has a wrong number of %s", async (of) => {
    expect(await codeOf(`/feed/mistakes/${of}`)).toEqual([500, "INTERNAL_ERROR", "internal error"]);
  });

  test("is described in /openapi.json, in both versions", async () => {
    const { paths, tags } = (await send("/openapi.json")).json;
    expect(tags).toContainEqual({ name: "application", description: "Paths of the application." });
    expect(paths["/reports/{author}"].get).toMatchObject({
      summary: "How many notes a user has.",
      operationId: "readReport",
      parameters: [{ name: "author", in: "path" }],
    });
    expect(paths["/reports/{author}"].post.operationId).toBe("postReportsAuthor");
    const second = (await send("/api/v2/openapi.json")).json;
    expect(second.paths["/reports/{author}"].get).toEqual(paths["/reports/{author}"].get);
    expect(second.servers).toEqual([{ url: service.url }]);
  });
});

test("a router of Express has the context of the request", async () => {
  const { status, text } = await send("/feed.txt");
  expect([status, text]).toEqual([200, expect.stringContaining("Buy milk\n")]);
  expect((await send("/feed/none", { headers: { authorization: "Bearer x" } })).status).toBe(404);
});

test("a GraphQL plugin adds a field to a type of the service", async () => {
  const { data } = await service.gql("{ notes(first: 1) { edges { node { text wordCount } } } }");
  expect(data.notes.edges[0].node).toEqual({ text: "Buy milk", wordCount: 2 });
});

test("a scalar of a plugin gets a number of JavaScript, however it is written", async () => {
  const query = "query ($pace: Pace!) { notes(first: 1) { edges { node { minutes(pace: $pace) } } } }";
  for (const pace of ["4", "0.4e1", "4.0000000000000000000"]) {
    const reply = await fetch(`${service.url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: `{"query": ${JSON.stringify(query)}, "variables": {"pace": ${pace}}}`,
    });
    expect([pace, ((await reply.json()) as any).data?.notes.edges[0].node]).toEqual([pace, { minutes: 0.5 }]);
  }
});

describe("a task", () => {
  const sql = async (text: string, ...values: unknown[]) => (await service.database.owner.query(text, values)).rows;
  const run = (payload: object) => sql("select tasks.run('digest', $1)", JSON.stringify(payload));
  const jobs = () => sql("select task_identifier from graphile_worker.jobs where task_identifier like 'app:%'");

  test("that SQL has added runs with the role service_role, after the commit", async () => {
    await sql("begin");
    await sql("insert into notes (author_id, text) values (2, 'Pay the rent')");
    await run({ author: 2 });
    await sql("commit");
    const digests = () => sql("select text from notes where author_id = 2 and text like 'You have%'");
    await expect.poll(digests).toEqual([{ text: expect.stringMatching(/^You have [12] notes$/) }]);
    expect(lines).toContainEqual(expect.objectContaining({ task: "digest", msg: expect.stringMatching(/^You have/) }));
    await expect.poll(jobs).toEqual([]);
  });

  test("that fails at its last attempt is dropped, and the log has the error", async () => {
    await run({ fails: true });
    const logged = () => lines.filter(({ msg }) => msg === "a task of the application has failed");
    await expect.poll(logged).toMatchObject([{ task: "digest", attempts: 1, err: { message: "no digest today" } }]);
    await expect.poll(jobs).toEqual([]);
  });

  test("runs at its times: of all processes, one adds the job", async () => {
    const known = () =>
      sql("select identifier from graphile_worker._private_known_crontabs where identifier like 'app:%'");
    await expect.poll(known).toEqual([{ identifier: "app:digest" }]);
  });

  test("cannot be added by callers, unless a function allows it", async () => {
    await sql("create function public.ask() returns void language sql as $$select tasks.run('digest')$$");
    await sql("grant execute on function public.ask() to authenticated");
    await sql("notify pgrst, 'reload schema'");
    const headers = { apikey: service.service.tokens.issueKey("anon") };
    const ask = async () => (await send("POST /rest/v1/rpc/ask", { as: "ada", body: {}, headers })).status;
    await expect.poll(ask).toBe(403);
    await sql("alter function public.ask() security definer");
    await expect.poll(ask).toBe(204);
  });

  test.each<[string, object, string]>([
    ["a name with a colon", { name: "app:x" }, 'the name "app:x" may have only letters, digits, - and _'],
    ["no time", { name: "x", cron: "every day" }, "the cron of x is invalid: write minute, hour, day of the month"],
    ["no function", { name: "x", run: undefined }, "the task x has no function run"],
    ["no attempt", { name: "x", maxAttempts: 0 }, "maxAttempts of x must be a whole number from 1 to 32767 (is 0)"],
  ])("with %s stops the start", (_what, task, message) => {
    const made = () =>
      applicationOf(
        { folder: process.cwd(), config: { tasks: [defineTask({ run: async () => {}, ...task } as never)] } },
        readConfig({}),
      );
    expect(made).toThrow(message);
    expect(made).toThrow(/^test\/app\/extension-points\.all\.test\.ts:\d+: /);
  });
});

describe("a path that is taken stops the start", () => {
  const GET = () => ({});
  const refused = (config: Config<any>) =>
    refuseClashes(applicationOf({ folder: process.cwd(), config }, readConfig({})), []);
  const resource = (name: string) =>
    defineResource({ name, singular: "x", about: "", table: "public.x", fields: { id: {} } });

  test.each<[string, Config, string]>([
    [
      "by the service",
      { routes: [defineRoute({ path: "/graphql", methods: { GET } })] },
      "the path /graphql is taken, because the service serves /graphql: choose another path",
    ],
    [
      "below a path of the service",
      { routes: [defineRoute({ path: "/auth/saml2", methods: { GET } })] },
      "the path /auth/saml2 is taken, because the service serves /auth/*: choose another path",
    ],
    [
      "by a resource",
      { resources: [resource("notes")], routes: [defineRoute({ path: "/notes/latest", methods: { GET } })] },
      "the path /notes/latest is taken, because the resource notes serves it: choose another path",
    ],
    [
      "by the service, for a resource",
      { resources: [resource("tasks")] },
      "the path /tasks of a resource is taken, because the service serves /tasks/*: set another name, which is its path; the member table stays",
    ],
  ])("%s", (_by, config, message) => {
    expect(() => refused(config)).toThrow(message);
    expect(() => refused(config)).toThrow(/^test\/app\/extension-points\.all\.test\.ts:\d+: /);
  });

  test("by another route, whose line the error has", () => {
    const route = { path: "/x", methods: { GET } };
    expect(() => refused({ routes: [defineRoute(route), defineRoute(route)] })).toThrow(
      /because test\/app\/extension-points\.all\.test\.ts:\d+ serves it/,
    );
  });
});
