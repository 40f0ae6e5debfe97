import { expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const { rest, sql, failure } = useRest(
  { DB_SCHEMAS: "api" },
  `create schema api;
   create table api.notes (id int primary key);
   grant usage on schema api to anon;
   grant all on api.notes to anon;`,
);

test("GET /rest/v1/openapi.json is OpenAPI 3.1, and gives way to a table of its name", async () => {
  expect((await rest("openapi.json")).json).toMatchObject({ openapi: "3.1.0", paths: { "/notes": {} } });
  expect((await rest("openapi.json", { method: "OPTIONS" })).headers.get("allow")).toBe("OPTIONS,GET,HEAD");
  expect((await rest("")).json).toMatchObject({ swagger: "2.0" });
  await sql('create table api."openapi.json" (id int)');
  await expect.poll(() => failure("openapi.json")).toEqual([401, "42501"]);
});
