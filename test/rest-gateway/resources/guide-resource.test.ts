import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import pino from "pino";
import { beforeAll, expect, test } from "vitest";
import { applicationOf } from "../../../app/application.ts";
import { statementsOf } from "../../../db/sql-tokens.ts";
import type { Description } from "../../../rest-gateway/resources/description.ts";
import { readConfig } from "../../support/config.ts";
import { createTestDatabase } from "../../support/database.ts";
import { DEMO, DESCRIPTIONS } from "../../support/demo.ts";
import { useOwnResources } from "../../support/own-resources.ts";
import { sendTo } from "../../support/resource-client.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const GUIDE = readFileSync("docs/dba-guide.md", "utf8");

/** The blocks of code with a language below a heading. */
function blocksOf(heading: string, page = GUIDE): string[] {
  const [section = ""] = page.slice(page.indexOf(`## ${heading}`) + 3).split(/\n##+ /);
  return [...section.matchAll(/^```\w+\n([\s\S]*?)^```$/gm)].map(([, code]) => code!);
}

const [table] = blocksOf("Add a table");
const [search, description] = blocksOf("Add a resource");
const product = pathToFileURL("app/index.ts").href;
const source = stripTypeScriptTypes(description!).replace('"content-service"', JSON.stringify(product));
const { bookmarks } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
const { resources } = applicationOf({ folder: null, config: { resources: [bookmarks] } }, readConfig({}));

const { api, sql } = useOwnResources(`${table}${search}`, [...DESCRIPTIONS, ...resources]);

test("the resource in docs/dba-guide.md is served as documented", async () => {
  const made = await api("POST /bookmarks", { as: 1, body: { article_id: 2, text: "read again" } });
  expect([made.status, made.headers.get("location")]).toEqual([201, "/bookmarks/1"]);
  expect(made.json).toMatchObject({ id: 1, article_id: 2, text: "read again", created_at: expect.any(String) });
  const found = await api("/bookmarks?keyword=AGAIN&article=2&sort=created_at&fields=text,article.id", { as: 1 });
  expect(found.json.data).toEqual([{ text: "read again", article: { id: 2 } }]);
  const read = await api("/api/v2/bookmarks/1", { as: 1 });
  expect(read.json).toMatchObject({
    createdAt: made.json.created_at,
    _links: { article: { href: "/api/v2/articles/2" } },
  });
  expect((await api("PATCH /bookmarks/1", { as: 1, body: { text: "x".repeat(501) } })).json.error).toMatchObject({
    message: "note must have at most 500 characters",
    fields: { text: "note must have at most 500 characters" },
  });
  expect((await api("DELETE /bookmarks/1", { as: 2 })).status).toBe(404);
  expect((await api("DELETE /bookmarks/1", { as: 1 })).status).toBe(204);
  expect((await api("/bookmarks")).status).toBe(401);
});

test("the tables of docs/dba-guide.md that members share are read by members and written by owners, and no policy recurses", async () => {
  const [shared] = blocksOf("Share rows with members");
  await sql(shared!);
  const as = async (user: string, text: string) => {
    await sql("begin");
    await sql(`select auth.act_as('${user}')`);
    const rows = await sql(text).finally(async () => await sql("commit").catch(() => sql("rollback")));
    return rows;
  };
  await as("ada", "insert into notebooks (title) values ('Shared')");
  expect(await as("bob", "select title from notebooks")).toEqual([]);
  await expect(as("bob", "insert into notebook_members values (1, 2)")).rejects.toThrow(/row-level security/);
  await as("ada", "insert into notebook_members values (1, 2), (1, 3)");
  expect(await as("bob", "select title from notebooks")).toEqual([{ title: "Shared" }]);
  expect(await as("bob", "select user_id::int from notebook_members order by 1")).toEqual([
    { user_id: 2 },
    { user_id: 3 },
  ]);
  expect(await as("bob", "update notebooks set title = 'Taken' returning id")).toEqual([]);
  expect(await as("bob", "delete from notebook_members returning user_id::int")).toEqual([{ user_id: 2 }]);
  expect(await as("bob", "select title from notebooks")).toEqual([]);
  expect(await as("ada", "select user_id::int from notebook_members")).toEqual([{ user_id: 3 }]);
});

test("the statements for large tables in docs/migrations.md run", async () => {
  await sql("insert into public.bookmarks (user_id, article_id) select 1, 1 from generate_series(1, 12000)");
  const [preparation] = blocksOf("Large tables", readFileSync("docs/migrations.md", "utf8"));
  for (const { text } of statementsOf(preparation!)) await sql(text);
  expect(await sql("select count(*)::int from public.bookmarks where note = ''")).toEqual([{ count: 12000 }]);
  await expect(sql("update public.bookmarks set note = null")).rejects.toThrow(/null value in column "note"/);
});

const [column, field] = blocksOf("Add a field to a user");
const lines: string[] = [];
let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(column!);
  const [extension] = blocksOf("Extensions");
  await database.owner.query(`${extension};
    grant select, insert (room, during) on public.bookings to anon;
    insert into public.bookings (room, during) values (1, '[2026-11-26 10:00, 2026-11-26 11:00)')`);
  const added = new Function(`return {${field}}`)();
  const withField = (resource: Description) =>
    resource.name === "users" ? { ...resource, fields: { ...resource.fields, ...added } } : resource;
  const definition = { ...DEMO, config: { ...DEMO.config, resources: DESCRIPTIONS.map(withField) } };
  const log = pino(new Writable({ write: (line, _, done) => done(void lines.push(String(line))) }));
  service = await startTestService({ API_KEY_REQUIRED: "false" }, database, log, undefined, { definition });
  return () => service.stop();
});

test("the field of a user in docs/dba-guide.md is taken and returned by every interface that creates or changes users", async () => {
  let count = 0;
  const dora = () => ({ name: "Dora", email: `dora${++count}@test.example`, locale: "fr" });
  const send = (request: string, body?: object) => sendTo(service.url, request, body ? { body } : {});
  const account = () => ({ ...dora(), password: "Correct-Horse-8!" });

  expect((await send("POST /auth/register", account())).json.user).toMatchObject({ name: "Dora", locale: "fr" });
  expect((await send("POST /users", account())).json.locale).toBe("fr");
  const { json: made } = await send("POST /users", dora());
  expect(made.locale).toBe("fr");
  expect((await send(`PATCH /users/${made.id}`, { locale: "it" })).json.locale).toBe("it");
  const { locale: _, ...put } = dora();
  expect((await send(`PUT /users/${made.id}`, put)).json.locale).toBe("en");
  expect((await send("POST /rest/v1/rpc/create_user", { input: dora() })).json.locale).toBe("fr");
  const create = "mutation ($input: CreateUserInput!) { createUser(input: $input) { locale } }";
  expect((await service.gql(create, { variables: { input: dora() } })).data).toEqual({ createUser: { locale: "fr" } });

  for (const path of ["/auth/register", "/users"]) {
    const { status, json } = await send(`POST ${path}`, { ...account(), locale: "french" });
    expect([status, json.error.fields]).toEqual([400, { locale: "locale must have two letters, such as en" }]);
    const { json: created } = await send(`POST ${path}`, { ...account(), locale: undefined });
    expect((created.user ?? created).locale).toBe("en");
  }
  const { schemas } = (await send("/openapi.json")).json.components;
  const description = expect.stringContaining("The language of the user, as two letters.");
  for (const name of ["Registration", "UserCreate", "UserReplace", "UserUpdate", "User"])
    expect(schemas[name].properties.locale, name).toMatchObject({ type: "string", description });
  expect(schemas.Registration).toMatchObject({ required: ["name", "email", "password"] });
});

test("a field without the grant of sign-up is an internal error, and the log says which role lacks it", async () => {
  await service.database.owner.query("revoke insert (locale) on public.users from auth_owner");
  const body = { name: "Dora", email: "no-grant@test.example", locale: "fr", password: "Correct-Horse-8!" };
  for (const path of ["/auth/register", "/users"])
    expect((await sendTo(service.url, `POST ${path}`, { body })).status).toBe(500);
  const grant =
    "the hook new_user gets name, email, locale and runs as auth_owner, which lacks a privilege (permission denied for table users)";
  await expect.poll(() => lines.filter((line) => line.includes(grant))).toHaveLength(2);
});

test("the constraint of an extension in docs/dba-guide.md refuses what overlaps, with its comment", async () => {
  const book = async (during: string) =>
    (await sendTo(service.url, "POST /rest/v1/bookings", { body: { room: 1, during } })).json;
  expect(await book("[2026-11-26 10:30, 2026-11-26 12:00)")).toMatchObject({
    code: "23P01",
    hint: "the room is taken at this time",
  });
  expect(await book("[2026-11-26 11:00, 2026-11-26 12:00)")).toBeUndefined();
});
