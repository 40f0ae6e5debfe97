import { expect, test } from "vitest";
import { resourceOpenApi } from "../../../../parts/openapi/resources/openapi.ts";
import { PasswordRules } from "../../../../rest-gateway/auth/passwords.ts";
import { ROUTES } from "../../../../rest-gateway/auth/routes.ts";
import { resourcesOf } from "../../../../rest-gateway/resources/resource.ts";
import { CHEAP_PRODUCTS, DDL, MAKERS, PRODUCT_PRICES, PRODUCTS } from "../../../rest-gateway/resources/fixtures.ts";
import { useCatalog } from "../../../support/catalog.ts";
import { openApiFaults } from "../../../support/openapi-rules.ts";

const database = useCatalog(DDL, { schemas: ["public"] });

function documentOf(descriptions: readonly (typeof PRODUCTS)[], more = {}): any {
  const { catalog } = database();
  const { resources } = resourcesOf(descriptions, catalog, new Set());
  return resourceOpenApi({
    ...{
      version: 2,
      isDeprecated: false,
      catalog,
      resources,
      anonymousRole: "anon",
      baseUrl: "https://products.example/",
    },
    ...{
      routes: [],
      hasTasks: false,
      errorDialect: "nested",
      hasReplicas: false,
      authRoutes: ROUTES,
      passwords: new PasswordRules({ passwordRules: { length: 12, classes: [] } }),
      maxRecords: 100,
    },
    ...more,
  });
}
const all = () => documentOf([PRODUCTS, CHEAP_PRODUCTS, PRODUCT_PRICES, MAKERS]);
const propertiesOf = (schema: string) => all().components.schemas[schema].properties;

test("resources of other teams are described, also with the same singular", () => {
  expect(openApiFaults(all())).toEqual([]);
  expect(Object.keys(all().paths).filter((path) => !(path in documentOf([]).paths))).toEqual([
    ...[
      "/api/v2/products",
      "/api/v2/products/{productId}",
      "/api/v2/products/{productId}/sell",
      "/api/v2/cheap-products",
      "/api/v2/cheap-products/{productId}",
    ],
    ...["/api/v2/product-prices", "/api/v2/product-prices/{productId}", "/api/v2/users", "/api/v2/users/{userId}"],
    ...["/api/v2/users/{userId}/products", "/api/v2/users/{userId}/products/{productId}", "/auth/register"],
  ]);
  expect(Object.keys(all().components.schemas)).toEqual(
    expect.arrayContaining(["Product", "CheapProducts", "ProductPrices"]),
  );
});

test("fields have their names in the resource and the types of their columns", () => {
  const { id, ownerId, price, facts, sizes, madeOn, note } = propertiesOf("Product");
  expect([id.format, ownerId.readOnly, price.type, facts.type]).toEqual(["uuid", true, "number", undefined]);
  expect(sizes).toEqual({ type: "array", items: { type: "integer", format: "int32" } });
  expect(madeOn).toEqual({ type: ["string", "null"], format: "date" });
  expect(note.type).toEqual(["string", "null"]);
  expect(propertiesOf("ProductCreate")).toMatchObject({
    name: { type: "string", maxLength: 8 },
    price: { description: "Rule: price must not be negative.\n\nDefault: `1.5`." },
    note: { description: 'Default: `"none yet"`.' },
    makerId: { description: "Default: `null`." },
  });
  expect(Object.keys(propertiesOf("ProductUpdate"))).not.toContain("madeOn");
});

test("filters have the types of their columns", () => {
  const { parameters } = all().components;
  expect(parameters["products.fits"].schema).toEqual({ type: "integer", format: "int32" });
  expect(parameters["products.state"].schema).toEqual({ type: "string", enum: ["NEW", "USED"] });
  expect(parameters["products.madeBefore"].schema).toEqual({ type: "string", format: "date" });
});

test("read-only resources have GET only", () => {
  expect(Object.keys(all().paths["/api/v2/product-prices"])).toEqual(["get"]);
  expect(Object.keys(all().paths["/api/v2/product-prices/{productId}"])).toEqual(["get"]);
});

test("a relation to a resource that is not served is absent", () => {
  const { resources } = resourcesOf([PRODUCTS, MAKERS], database().catalog, new Set());
  const alone = documentOf([], { resources: new Map([["products", resources.get("products")]]) });
  expect(openApiFaults(alone)).toEqual([]);
  expect(Object.keys(propertiesOf("Product"))).toContain("owner");
  expect(Object.keys(alone.components.schemas.Product.properties)).not.toContain("owner");
});

test("without tasks and resources the document has no paths for them", () => {
  expect(openApiFaults(documentOf([]))).toEqual([]);
  expect(documentOf([]).tags.map(({ name }: { name: string }) => name)).toEqual(["authentication"]);
  expect(JSON.stringify(all())).not.toContain("respond-async");
  const described = documentOf([PRODUCTS, MAKERS], {
    hasTasks: true,
    version: 1,
    isDeprecated: true,
  });
  expect(openApiFaults(described)).toEqual([]);
  expect(Object.keys(described.paths)).toContain("/tasks");
});

test.each(["detail", "flat"] as const)(
  "with the dialect %s for all clients, problems have its form too",
  (errorDialect) => {
    const { oneOf } = documentOf([PRODUCTS, MAKERS], { errorDialect }).components.schemas.Problem;
    expect(oneOf.map(({ required }: { required: string[] }) => required[0])).toEqual([
      { detail: "detail", flat: "error" }[errorDialect],
      "error",
    ]);
  },
);

test("with replicas, writes return their Change-Position, and reads accept it", () => {
  const document = documentOf([PRODUCTS, MAKERS], { hasReplicas: true });
  expect(openApiFaults(document)).toEqual([]);
  const accepted = { $ref: "#/components/parameters/ReadAfter" };
  const returned = { "Change-Position": { $ref: "#/components/headers/WritePosition" } };
  const { get, post } = document.paths["/api/v2/products"];
  const { patch, delete: remove } = document.paths["/api/v2/products/{productId}"];
  const sell = document.paths["/api/v2/products/{productId}/sell"].post;
  expect(get.parameters).toContainEqual(accepted);
  for (const write of [post, patch, remove, sell]) expect(write.parameters).not.toContainEqual(accepted);
  expect(post.responses[201].headers).toMatchObject(returned);
  expect(patch.responses[200].headers).toMatchObject(returned);
  expect(remove.responses[204].headers).toMatchObject(returned);
  expect(sell.responses[200].headers).toMatchObject(returned);
  expect(JSON.stringify(all())).not.toContain("WritePosition");
});

test("links are described as nullable for nullable relations, and only for supported operations", () => {
  const { properties, required } = propertiesOf("Product")._links;
  expect(required).toEqual(["self", "firstMaker", "owner", "sell", "update", "delete"]);
  expect(properties.firstMaker).toEqual({ anyOf: [properties.owner, { type: "null" }] });
  expect(propertiesOf("Product").firstMaker.description).toContain("`firstMaker.id`");
  expect(propertiesOf("ProductPrices")._links.required).toEqual(["self"]);
});
