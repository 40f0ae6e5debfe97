import { expect, test } from "vitest";
import { parseAccept } from "../../../../rest-gateway/conventions/headers.ts";
import { apiDescription } from "../../../../rest-gateway/openapi/tables/description.ts";
import { useCatalog } from "../../../support/catalog.ts";

const database = useCatalog("", { schemas: ["public"] });

const OPTIONS = { schema: "public", role: "anon", baseUrl: "http://127.0.0.1:3000" };
const describe = (accept: string | undefined, options: Partial<typeof OPTIONS> = {}) =>
  apiDescription(database().catalog, { ...OPTIONS, ...options, accept: parseAccept(accept) });

/** `"openapi 3.1.0"` */
function versionOf(body: string): string {
  const { openapi, swagger } = JSON.parse(body);
  return openapi ? `openapi ${openapi}` : `swagger ${swagger}`;
}

test.each([
  [undefined, "application/json", "openapi 3.1.0"],
  ["*/*", "application/json", "openapi 3.1.0"],
  ["application/json", "application/json", "openapi 3.1.0"],
  ["application/openapi+json", "application/openapi+json", "openapi 3.1.0"],
  ["application/openapi+json; version=3.1", "application/openapi+json", "openapi 3.1.0"],
  ["application/openapi+json;version=2", "application/openapi+json;version=2", "swagger 2.0"],
  ['application/openapi+json;version="2.0"', "application/openapi+json;version=2", "swagger 2.0"],
  ["text/html, application/xhtml+xml, */*;q=0.8", "application/json", "openapi 3.1.0"],
  ["application/openapi+json;version=9, application/json;q=0.1", "application/json", "openapi 3.1.0"],
])("for Accept: %s the response is %s with version %s", (accept, type, version) => {
  const { contentType, body } = describe(accept);
  expect(contentType).toBe(`${type}; charset=utf-8`);
  expect(versionOf(body)).toBe(version);
});

test.each(["text/csv", "application/openapi+json;version=9", "constructor/constructor;version=name"])(
  "for Accept: %s the response is the error PGRST107",
  (accept) => {
    expect(() => describe(accept)).toThrow(expect.objectContaining({ reason: "not acceptable" }));
  },
);

test("each role, schema, version and URL has a separate description", () => {
  const bodies = [
    describe("*/*"),
    describe("*/*", { role: "authenticated" }),
    describe("application/openapi+json;version=2"),
    describe("*/*", { baseUrl: "https://content.example" }),
  ].map(({ body }) => body);
  expect(new Set(bodies).size).toBe(4);
});

test("a description is written once per catalog", () => {
  const { catalog } = database();
  const request = { ...OPTIONS, accept: parseAccept("*/*") };
  const next = { ...catalog, schemas: new Map([["public", { ...catalog.schemas.get("public")!, comment: "New." }]]) };
  // The text is cached although the catalog has been modified.
  const { body } = apiDescription(next, request);
  Object.assign(next, { schemas: catalog.schemas });
  expect(apiDescription(next, request).body).toBe(body);
  expect(JSON.parse(body).info.description).toMatch(/^New\.\n/);
  expect(JSON.parse(apiDescription(catalog, request).body).info.description).toMatch(
    /^The API: objects granted here are served\.\n/,
  );
});
