import { expect, test } from "vitest";
import { apiDescription, type Version } from "../../../../parts/openapi/table-documents.ts";
import { parseAccept } from "../../../../rest-gateway/conventions/headers.ts";
import { useCatalog } from "../../../support/catalog.ts";

const database = useCatalog("", { schemas: ["public"] });

const OPTIONS = { schema: "public", role: "anon", baseUrl: "http://127.0.0.1:3000", version: "3.1" as Version };
const describe = (accept: string | undefined, options: Partial<typeof OPTIONS> = {}) =>
  apiDescription(database().catalog, { ...OPTIONS, ...options, accept: parseAccept(accept) });

/** `"openapi 3.1.0"` */
function versionOf(body: string): string {
  const { openapi, swagger } = JSON.parse(body);
  return openapi ? `openapi ${openapi}` : `swagger ${swagger}`;
}

const USUAL = { "2.0": "swagger 2.0", "3.1": "openapi 3.1.0" } as const;

test.each([
  [undefined, "application/json", "usual"],
  ["*/*", "application/json", "usual"],
  ["application/json", "application/json", "usual"],
  ["application/openapi+json", "application/openapi+json", "usual"],
  ["application/openapi+json;version=3", "application/openapi+json;version=3", "openapi 3.1.0"],
  ["application/openapi+json; version=3.1", "application/openapi+json;version=3", "openapi 3.1.0"],
  ["application/openapi+json;version=2", "application/openapi+json;version=2", "swagger 2.0"],
  ['application/openapi+json;version="2.0"', "application/openapi+json;version=2", "swagger 2.0"],
  ["text/html, application/xhtml+xml, */*;q=0.8", "application/json", "usual"],
  ["application/openapi+json;version=9, application/json;q=0.1", "application/json", "usual"],
])("for Accept: %s the response is %s with the %s version", (accept, type, expected) => {
  for (const version of ["2.0", "3.1"] as const) {
    const { contentType, body } = describe(accept, { version });
    expect(contentType).toBe(`${type}; charset=utf-8`);
    expect(versionOf(body)).toBe(expected === "usual" ? USUAL[version] : expected);
  }
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
