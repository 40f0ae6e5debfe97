import { describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const DDL = `
  create schema api;
  create schema other;
  create domain api."application/openapi+json" as json;
  create function api.root(version int default 1) returns json language sql stable
    return json_build_object('swagger', '2.0', 'version', version, 'role', current_user, 'path', current_setting('request.path'));
  create function api.typed_root() returns api."application/openapi+json" language sql immutable
    return '{"openapi": "3.1.0"}'::json;
  create table api.notes (id int primary key, parent int references api.notes, text text constraint short check (length(text) < 9));
  comment on constraint short on api.notes is 'Write less.';
  create function api.fails() returns void language plpgsql as $$
  begin raise exception 'It failed' using detail = 'Because of this.', hint = 'Try again.'; end $$;
  grant usage on schema api, other to anon;
  grant all on api.notes to anon;
  grant execute on all functions in schema api to anon;`;

const { rest, rows, failure, service } = useRest(
  { DB_SCHEMAS: "api, other", DB_ROOT_SPEC: "api.root", OPENAPI: "disabled", CLIENT_ERROR_VERBOSITY: "minimal" },
  DDL,
);

describe("with DB_ROOT_SPEC, GET /rest/v1/ calls the function", () => {
  test("as the caller, with the arguments in the query string", async () => {
    expect(await rows("")).toEqual({ swagger: "2.0", version: 1, role: "anon", path: "/" });
    expect(await rows("?version=2")).toMatchObject({ version: 2 });
    expect((await rest("", { method: "HEAD" })).status).toBe(200);
  });

  test("in its schema, whatever Accept-Profile says", async () => {
    const { status, headers } = await rest("", { headers: { "accept-profile": "other" } });
    expect([status, headers.get("content-profile")]).toEqual([200, "api"]);
  });

  test.each(["application/json", "application/openapi+json", "application/openapi+json, text/html", "*/*"])(
    "for clients that accept %s",
    async (accept) => {
      const { status, json } = await rest("", { headers: { accept } });
      expect([status, json.swagger]).toEqual([200, "2.0"]);
    },
  );

  test("and OPTIONS lists the methods", async () => {
    expect((await rest("", { method: "OPTIONS" })).headers.get("allow")).toBe("OPTIONS,GET,HEAD");
    expect(await failure("", { body: {} })).toEqual([405, "PGRST117"]);
  });
});

describe("GET /rest/v1/openapi.json", () => {
  const { rest, sql, failure } = useRest({ DB_SCHEMAS: "api", DB_ROOT_SPEC: "api.root" }, DDL);

  test("is OpenAPI 3.1, whatever is at the root, and gives way to a table of its name", async () => {
    expect((await rest("openapi.json")).json).toMatchObject({ openapi: "3.1.0", paths: { "/notes": {} } });
    expect((await rest("openapi.json", { method: "OPTIONS" })).headers.get("allow")).toBe("OPTIONS,GET,HEAD");
    expect((await rest("")).json).toMatchObject({ swagger: "2.0", path: "/" });
    await sql('create table api."openapi.json" (id int)');
    await expect.poll(() => failure("openapi.json")).toEqual([401, "42501"]);
  });
});

describe("with CLIENT_ERROR_VERBOSITY=minimal, an error has no details and no hint", () => {
  test.each([
    ["notes?id=eq.x", 400, { code: "22P02", message: 'invalid input syntax for type integer: "x"' }],
    ["rpc/fails", 400, { code: "P0001", message: "It failed" }],
    ["note", 404, { code: "PGRST205", message: "Could not find the table 'api.note' in the schema cache" }],
    ["notes?id=eqq.1", 400, { code: "PGRST100", message: "failed to parse filter (eqq.1)" }],
  ])("%s", async (path, status, body) => {
    const reply = await rest(path, path === "rpc/fails" ? { body: {} } : {});
    expect([reply.status, reply.json]).toEqual([status, body]);
  });

  test("without the comment of a violated constraint", async () => {
    const { json } = await rest("notes", { body: { id: 1, text: "Much too long" } });
    expect(Object.keys(json)).toEqual(["code", "message"]);
  });

  test("when the credentials are refused", async () => {
    const response = await fetch(`${service().url}/rest/v1/notes`);
    expect([response.status, Object.keys((await response.json()) as object)]).toEqual([401, ["code", "message"]]);
  });
});

describe("a function of DB_ROOT_SPEC", () => {
  const typed = useRest({ DB_SCHEMAS: "api", DB_ROOT_SPEC: "typed_root" }, DDL);

  test("may return a domain that is named like a media type", async () => {
    const { json, headers } = await typed.rest("", { headers: { accept: "application/openapi+json" } });
    expect([json, headers.get("content-type")]).toEqual([{ openapi: "3.1.0" }, "application/openapi+json"]);
    expect((await typed.rest("", { headers: { accept: "application/json" } })).json).toEqual({ openapi: "3.1.0" });
  });

  test("that does not exist is 404", async () => {
    await typed.sql("drop function api.typed_root()");
    await expect.poll(() => typed.failure("")).toEqual([404, "PGRST202"]);
  });
});
