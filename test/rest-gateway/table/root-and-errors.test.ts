import { describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const DDL = `
  create schema api;
  create table api.notes (id int primary key, parent int references api.notes, text text constraint short check (length(text) < 9));
  comment on constraint short on api.notes is 'Write less.';
  create function api.fails() returns void language plpgsql as $$
  begin raise exception 'It failed' using detail = 'Because of this.', hint = 'Try again.'; end $$;
  grant usage on schema api to anon;
  grant all on api.notes to anon;
  grant execute on all functions in schema api to anon;`;

const { rest, service } = useRest({ DB_SCHEMAS: "api", CLIENT_ERROR_VERBOSITY: "minimal" }, DDL);

describe("GET /rest/v1/openapi.json", () => {
  const { rest, sql, failure } = useRest({ DB_SCHEMAS: "api" }, DDL);

  test("is OpenAPI 3.1, and gives way to a table of its name", async () => {
    expect((await rest("openapi.json")).json).toMatchObject({ openapi: "3.1.0", paths: { "/notes": {} } });
    expect((await rest("openapi.json", { method: "OPTIONS" })).headers.get("allow")).toBe("OPTIONS,GET,HEAD");
    expect((await rest("")).json).toMatchObject({ swagger: "2.0" });
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
