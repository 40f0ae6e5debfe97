import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Catalog } from "../../../../db/catalog/catalog.ts";
import { defaultValue } from "../../../../parts/openapi/json-schema.ts";
import { componentKeys } from "../../../../parts/openapi/schema-parts.ts";
import { openApi } from "../../../../parts/openapi/tables/openapi.ts";
import { useCatalog } from "../../../support/catalog.ts";
import { openApiFaults, resolve } from "../../../support/openapi-rules.ts";

const SHOP = readFileSync(new URL("./shop.sql", import.meta.url), "utf8");
const BASE_URL = "https://shop.example";

const database = useCatalog(SHOP, { schemas: ["public", "shop"] });

/** The catalog as if only this schema were served. */
function only(name: string): Catalog {
  const { catalog } = database();
  return { ...catalog, schemas: new Map([[name, catalog.schemas.get(name)!]]) };
}
const shop = (role: string | null): any =>
  openApi(only("shop"), { schema: "shop", role, baseUrl: "https://shop.example/" });
const content = (role: string, hasReplicas = false): any =>
  openApi(only("public"), { schema: "public", role, baseUrl: BASE_URL, hasReplicas });

const schemaOf = (document: any, name: string) => document.components.schemas[name];
const namesOf = (document: any, { parameters }: any): string[] =>
  parameters.map((parameter: any) => (parameter.$ref ? resolve(document, parameter.$ref) : parameter).name);
const methodsOf = (document: any, path: string) =>
  Object.keys(document.paths[path] ?? {})
    .filter((name) => !name.startsWith("x-"))
    .sort();
const resultOf = (operation: any) => operation.responses[200].content["application/json"].schema;

const WRITE = "WritePosition";

test("reads have the header Change-Position, writes and volatile functions do not", () => {
  const document = content("authenticated");
  const positioned = Object.entries<any>(document.paths).flatMap(([path, operations]) =>
    Object.entries<any>(operations)
      .filter(([, operation]) => operation.responses?.[200]?.headers?.["Change-Position"])
      .map(([method]) => `${method} ${path}`),
  );
  expect(positioned.filter((name) => name.endsWith("/articles"))).toEqual(["get /articles", "x-query /articles"]);
  expect(positioned).toContain("get /rpc/search");
  expect(positioned).not.toContain("post /rpc/create_article");
});

test("with replicas, every write returns its Change-Position, and every read accepts it", () => {
  const document = content("authenticated", true);
  const { [WRITE]: header, ...of } = { ...document.components.headers };
  expect(header.description).toMatch("The position of this write");
  expect(Object.keys(of)).toEqual(Object.keys(content("authenticated").components.headers));
  expect(openApiFaults(document)).toEqual([]);
  for (const [path, operations] of Object.entries<any>(document.paths))
    for (const [method, operation] of Object.entries<any>(operations)) {
      const acceptsPosition = namesOf(document, operation).includes("Change-Position");
      const returned = Object.entries<any>(operation.responses)
        .filter(([, { headers }]) => headers?.["Change-Position"]?.$ref.endsWith(`/${WRITE}`))
        .map(([status]) => status);
      const complete = Object.keys(operation.responses).filter((status) => status.startsWith("2"));
      const answered = [`${method} ${path}`, acceptsPosition, returned];
      expect(answered).toEqual([`${method} ${path}`, acceptsPosition, acceptsPosition ? [] : complete]);
    }
  const accepting = (method: string, path: string) =>
    namesOf(document, document.paths[path][method]).includes("Change-Position");
  expect(accepting("get", "/articles") && accepting("x-query", "/articles") && accepting("post", "/rpc/search")).toBe(
    true,
  );
  for (const method of ["post", "patch", "delete"]) expect(accepting(method, "/articles")).toBe(false);
  expect(accepting("post", "/rpc/create_article")).toBe(false);
});

describe("the description is valid OpenAPI 3.1", () => {
  test.each(["anon", "authenticated", "service_role", "guest"])("for the content schema and the role %s", (role) => {
    expect(openApiFaults(content(role))).toEqual([]);
  });

  test.each(["anon", "authenticated", "guest"])(
    "for tables and functions with unusual names and the role %s",
    (role) => {
      expect(openApiFaults(shop(role))).toEqual([]);
    },
  );

  test("for all objects, regardless of privileges", () => {
    expect(openApiFaults(shop(null))).toEqual([]);
  });

  test("for any names of tables and columns", () => {
    const name = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(fc.uniqueArray(name, { minLength: 1, maxLength: 20 }), (names) => {
        const { schemas } = database().catalog;
        const table = schemas.get("public")!.tables.get("users")!;
        const [column] = table.columns.values();
        const columns = new Map(names.map((name) => [name, { ...column!, name }]));
        const tables = new Map(names.map((name) => [name, { ...table, name, columns, primaryKey: [names[0]!] }]));
        const schema = { ...schemas.get("public")!, tables };
        const catalog = { ...database().catalog, schemas: new Map([["public", schema]]) };
        const options = { schema: "public", role: null, baseUrl: BASE_URL };
        expect(openApiFaults(JSON.parse(JSON.stringify(openApi(catalog, options))))).toEqual([]);
      }),
      { numRuns: 50 },
    );
  });
});

describe("the description for a role", () => {
  test("has the methods for which the role has privileges", () => {
    const document = shop("anon");
    expect(Object.keys(document.paths).sort()).toEqual([
      "/cheap_items",
      "/items",
      "/makers",
      "/notes",
      "/rpc/count_items",
      "/rpc/forget",
    ]);
    expect(methodsOf(document, "/items")).toEqual(["get"]);
    expect(methodsOf(document, "/notes")).toEqual(["post"]);
  });

  test("has no rows or filters with columns that the role may not read", () => {
    const document = shop("anon");
    expect(Object.keys(schemaOf(document, "items").properties)).toEqual(["id", "maker_id", "sku", "size", "price"]);
    expect(namesOf(document, document.paths["/items"].get)).not.toContain("secret");
  });

  test("has no rows in responses if the role may insert but not read", () => {
    const document = shop("anon");
    expect(schemaOf(document, "notes")).toBeUndefined();
    expect(document.paths["/notes"].post.responses[201].content).toBeUndefined();
  });

  test("has only GET for a read-only view, and no DELETE without the privilege", () => {
    const document = shop("authenticated");
    expect(methodsOf(document, "/makers")).toEqual(["get", "patch", "post", "put"]);
    expect(methodsOf(document, "/items")).toEqual(["delete", "get", "patch", "post"]);
  });

  test("is empty if the role has no privileges", () => {
    const document = shop("guest");
    expect(document.paths).toEqual({});
    expect(Object.keys(document.components.schemas)).toEqual(["Filter", "Error"]);
  });

  test("contains everything if privileges are ignored", () => {
    const document = shop(null);
    expect(methodsOf(document, "/items")).toEqual(["delete", "get", "patch", "post"]);
    expect(document.paths["/rpc/hidden"]).toBeDefined();
  });

  test("is the error PGRST106 if the schema is not served", () => {
    expect(() => openApi(only("public"), { schema: "auth", role: "anon", baseUrl: BASE_URL })).toThrow(
      expect.objectContaining({ reason: "no such schema" }),
    );
  });
});

test("the description begins with the comment of the schema, without smart tags", () => {
  const { info, servers } = shop("anon");
  expect(info.title).toBe("Tables of shop");
  expect(info.description).toMatch(/^A small shop\.\n\nIt sells things\.\n\nEvery table/);
  expect(servers).toEqual([{ url: "https://shop.example/rest/v1" }]);
});

test("a table is described by its comment and by what else can be selected", () => {
  const document = shop("authenticated");
  const about = "Who makes things.\nIn alphabetical order.";
  expect(document.tags).toContainEqual({ name: "makers", description: about });
  expect(schemaOf(document, "makers").description).toBe(about);
  expect(document.paths["/makers"].get.description).toBe(
    `${about}\n\nRelated rows: \`items\`.\n\nComputed columns, returned only if \`select\` names them: \`full_name\`.`,
  );
});

test.each([
  ["id", { type: "integer", format: "int64", readOnly: true }],
  ["maker_id", { type: "string", format: "uuid" }],
  ["sku", { type: "string" }],
  ["size", { type: "string", enum: ["S", "M", "L"] }],
  ["price", { type: "number" }],
  ["stock", { type: "integer", format: "int32" }],
  ["total", { type: ["number", "null"], readOnly: true }],
  ["tags", { type: "array", items: { type: "string" } }],
  ["sizes", { type: ["array", "null"], items: { type: "string", enum: ["S", "M", "L"] } }],
  ["sold_at", { type: ["string", "null"], format: "date-time" }],
  ["made_on", { type: ["string", "null"], format: "date" }],
  ["opens", { type: ["string", "null"], format: "time-local" }],
  ["since", { type: ["string", "null"], format: "date-time-local" }],
  ["is_new", { type: "boolean" }],
  ["data", {}],
  ["weight", { type: ["number", "null"], format: "float" }],
  ["lasts", { type: ["string", "null"] }],
])("the column %s of shop.items is described by its type", (column, schema) => {
  const { description: _, ...described } = schemaOf(shop("authenticated"), "items").properties[column];
  expect(described).toEqual(schema);
});

test("the maximum length of a text column is described", () => {
  expect(schemaOf(shop("anon"), "makers").properties.name).toMatchObject({ type: "string", maxLength: 80 });
});

test("keys are described as clients of PostgREST expect", () => {
  const { id, maker_id, price } = schemaOf(shop("anon"), "items").properties;
  expect(id.description).toBe("Note:\nThis is a Primary Key.<pk/>");
  expect(maker_id.description).toBe(
    "Who made it.\n\nNote:\nThis is a Foreign Key to `makers.id`.<fk table='makers' column='id'/>",
  );
  expect(price.description).toBe("In euros.");
});

test("an insert requires the columns without defaults and has no generated columns or columns without privileges", () => {
  const { items_insert } = shop("authenticated").components.schemas;
  expect(items_insert.required).toEqual(["maker_id", "sku"]);
  expect(Object.keys(items_insert.properties)).not.toContain("id");
  expect(Object.keys(items_insert.properties)).not.toContain("total");
  const { articles_insert } = content("authenticated").components.schemas;
  expect(Object.keys(articles_insert.properties)).toEqual(["title", "content", "status", "tags"]);
});

test("an update may contain any of the columns that the role may update", () => {
  const { makers_update } = shop("authenticated").components.schemas;
  expect(Object.keys(makers_update.properties)).toEqual(["id", "name"]);
  expect(makers_update.required).toBeUndefined();
});

test("the defaults of columns are texts of inserts", () => {
  const { items, items_insert, items_update } = shop("authenticated").components.schemas;
  const descriptions = (schema: any) =>
    ["size", "price", "stock", "tags", "is_new", "data", "sold_at"].map((name) => schema.properties[name]?.description);
  expect(descriptions(items_insert)).toEqual([
    'Default: `"M"`.',
    "In euros.\n\nDefault: `9.5`.",
    "Default: `-1`.",
    "Default: `[]`.",
    "Default: `true`.",
    'Default: `{"a":1}`.',
    undefined,
  ]);
  for (const schema of [items, items_update])
    expect(descriptions(schema)).toEqual([undefined, "In euros.", ...Array(5).fill(undefined)]);
});

test("an insert accepts one row, a list, a form or CSV", () => {
  const { requestBody } = shop("anon").paths["/notes"].post;
  const row = { $ref: "#/components/schemas/notes_insert" };
  expect(requestBody.content["application/json"].schema).toEqual({ anyOf: [row, { type: "array", items: row }] });
  expect(Object.keys(requestBody.content)).toEqual([
    "application/json",
    "application/x-www-form-urlencoded",
    "text/csv",
  ]);
});

test("a read has parameters for filters, paging and preferences", () => {
  const document = shop("anon");
  expect(namesOf(document, document.paths["/makers"].get)).toEqual([
    "id",
    "name",
    "select",
    "order",
    "limit",
    "offset",
    "and",
    "or",
    "Range",
    "Range-Unit",
    "Prefer",
  ]);
});

test.each([
  ["eq.1", true],
  ["not.in.(1,2)", true],
  ["like(any).{a*,b*}", true],
  ["fts(english).cats", true],
  ["1", false],
  ["equals.1", false],
])("whether ?price=%s matches the pattern of a filter: %s", (text, fits) => {
  const document = shop("anon");
  const { schema, description } = resolve(document, "#/components/parameters/rowFilter.items.price");
  expect(new RegExp(resolve(document, schema.$ref).pattern, "u").test(text)).toBe(fits);
  expect(description).toBe("In euros.\n\n`operator.value` for numeric, such as `gte.1.5`.");
});

test("a column with the name of a parameter is not a filter", () => {
  const { parameters } = shop("authenticated").components;
  expect(Object.keys(parameters).filter((key) => key.startsWith("rowFilter.items_insert"))).toEqual([
    "rowFilter.items_insert_2.id",
  ]);
});

test("PUT requires the whole primary key in the URL", () => {
  const { parameters } = shop("authenticated").paths["/makers"].put;
  expect(parameters[0]).toMatchObject({ name: "id", in: "query", required: true, schema: { pattern: "^eq\\." } });
});

test("QUERY is described as an extension, because OpenAPI 3.1 does not have it: GET with the parameters in the body", () => {
  const document = shop("authenticated");
  const { get, "x-query": query } = document.paths["/makers"];
  expect(Object.keys(query.requestBody.content)).toEqual(["application/x-www-form-urlencoded"]);
  expect(namesOf(document, query)).toEqual(
    namesOf(document, get).filter((name) => /^(Range|Prefer|Accept)/.test(name)),
  );
  expect(query.responses[200]).toEqual(get.responses[200]);
  expect(Object.keys(query.responses)).toEqual(["200", "206", "400", "401", "403", "404", "406", "413", "415", "416"]);
  expect(document.info.description).toContain("X-HTTP-Method-Override");
  expect(shop("anon").paths["/notes"]["x-query"]).toBeUndefined();
});

describe("errors", () => {
  test("have a code, a message, details and a hint", () => {
    const document = shop("anon");
    expect(schemaOf(document, "Error").required).toEqual(["code", "message", "details", "hint"]);
    const { $ref } = document.paths["/items"].get.responses[416];
    expect(resolve(document, $ref).content["application/json"].schema).toEqual({ $ref: "#/components/schemas/Error" });
  });

  test.each([
    ["get", "200 206 400 401 403 404 406 416"],
    ["post", "200 201 400 401 403 404 406 409"],
    ["put", "200 201 204 400 401 403 404 405 409"],
    ["patch", "200 204 400 401 403 404 406 409"],
  ])("of %s are listed with its other responses", (method, statuses) => {
    expect(Object.keys(shop("authenticated").paths["/makers"][method].responses).join(" ")).toBe(statuses);
  });
});

describe("functions", () => {
  const call = (name: string, method = "post") => shop("authenticated").paths[`/rpc/${name}`]?.[method];
  const bodyOf = (name: string) => call(name).requestBody.content["application/json"].schema;

  test("take named arguments", () => {
    expect(bodyOf("count_items")).toEqual({
      type: "object",
      properties: {
        size: { type: "string", enum: ["S", "M", "L"], description: "`shop.size`" },
        floor: { type: "number", description: "`numeric`" },
      },
      required: ["size"],
      additionalProperties: false,
    });
  });

  test("are described by their comments, without smart tags", () => {
    expect(call("count_items")).toMatchObject({ summary: "Counts items.", description: "Of one size." });
    expect(call("forget").summary).toBe("forget");
  });

  test("can be called with GET if they are read-only", () => {
    const document = shop("authenticated");
    expect(methodsOf(document, "/rpc/count_items")).toEqual(["get", "post"]);
    expect(methodsOf(document, "/rpc/forget")).toEqual(["post"]);
    expect(document.paths["/rpc/count_items"].get.parameters.map((one: any) => [one.name, one.required])).toEqual([
      ["size", true],
      ["floor", false],
    ]);
  });

  test("cannot be called with GET if an argument has the name of a parameter", () => {
    expect(methodsOf(shop("authenticated"), "/rpc/page")).toEqual(["post"]);
  });

  test("with the same name share a path", () => {
    expect(bodyOf("add").anyOf.map((one: any) => Object.keys(one.properties))).toEqual([
      ["a", "b"],
      ["a", "c"],
    ]);
    // Only the read-only overload.
    expect(call("add", "get").parameters.map((one: any) => one.name)).toEqual(["a", "b"]);
  });

  test("take a row as an object with its columns, which are all optional", () => {
    expect(bodyOf("make").properties.maker).toMatchObject({
      type: "object",
      properties: { id: { type: ["string", "null"] }, name: { type: ["string", "null"], maxLength: 80 } },
    });
    expect(bodyOf("make").properties.maker.required).toBeUndefined();
  });

  test("take a single unnamed argument as the body", () => {
    expect(call("upload").requestBody.content).toEqual({ "application/octet-stream": { schema: { type: "string" } } });
    expect(bodyOf("ingest")).toEqual({});
    expect(methodsOf(shop("authenticated"), "/rpc/unnamed")).toEqual([]);
  });

  test("take a variadic argument as a repeated query parameter", () => {
    const [numbers] = call("sum", "get").parameters;
    expect(numbers.schema).toEqual({ type: "array", items: { type: "integer", format: "int32" } });
  });

  test.each([
    ["count_items", { type: ["integer", "null"], format: "int64" }],
    ["items_by", { type: "array", items: { $ref: "#/components/schemas/items" } }],
    ["make", { $ref: "#/components/schemas/makers" }],
    ["ingest", {}],
    [
      "stocked",
      {
        type: "array",
        items: {
          type: "object",
          properties: {
            id: { type: ["integer", "null"], format: "int64" },
            stock: { type: ["integer", "null"], format: "int32" },
          },
        },
      },
    ],
  ])("such as %s have a response with the schema of their result", (name, schema) => {
    expect(resultOf(call(name))).toEqual(schema);
  });

  test("without a result respond with 204, and those that return a media type with that media type", () => {
    expect(Object.keys(call("forget").responses)).toContain("204");
    expect(Object.keys(call("forget").responses)).not.toContain("200");
    expect(call("picture").responses[200].content).toEqual({ "image/png": { schema: { type: "string" } } });
  });

  test("that return rows have paging parameters", () => {
    const document = shop("authenticated");
    expect(namesOf(document, document.paths["/rpc/items_by"].get)).toEqual(
      expect.arrayContaining(["select", "order", "limit", "offset", "Range"]),
    );
    expect(namesOf(document, document.paths["/rpc/count_items"].post)).toEqual([]);
  });
});

describe("unusual names", () => {
  test("are percent-encoded in paths", () => {
    const paths = Object.keys(shop("authenticated").paths);
    expect(paths).toContain("/odd%20na%2Fme%20%7Bx%7D~'%22%25");
    expect(paths).toContain("/rpc/odd%20fn%2F%7Bx%7D");
  });

  test("have unique keys in components", () => {
    const document = shop("authenticated");
    const rowOf = (table: string) => resultOf(document.paths[`/${encodeURIComponent(table)}`].get).items.$ref;
    expect(rowOf("odd_na_me__x_____")).toBe("#/components/schemas/odd_na_me__x_____");
    expect(rowOf("odd na/me {x}~'\"%")).toBe("#/components/schemas/odd_na_me__x______2");
    expect(rowOf("Error")).toBe("#/components/schemas/Error_2");
    expect(rowOf("items_insert")).toBe("#/components/schemas/items_insert_2");
    expect(rowOf("__proto__")).toBe("#/components/schemas/__proto__");
  });

  test("of columns are unchanged in rows", () => {
    const { properties } = schemaOf(shop("authenticated"), "odd_na_me__x______2");
    expect(Object.keys(properties)).toEqual([
      "select",
      "__proto__",
      "constructor",
      "a b",
      "a_b",
      "a.b",
      "$ref",
      "größe",
    ]);
  });
});

describe("if several schemas are served", () => {
  const profileOf = (schema: string, path: string, method: string) => {
    const document: any = openApi(database().catalog, { schema, role: "authenticated", baseUrl: BASE_URL });
    return document.paths[path][method].parameters.find(({ name }: any) => /-Profile$/.test(name));
  };

  test("the header is optional for the first schema and required for the others", () => {
    expect(profileOf("public", "/articles", "get")).toMatchObject({ name: "Accept-Profile", required: false });
    expect(profileOf("shop", "/items", "get")).toMatchObject({ required: true, schema: { enum: ["shop"] } });
    expect(profileOf("shop", "/items", "post")).toMatchObject({ name: "Content-Profile", required: true });
    expect(profileOf("shop", "/rpc/forget", "post")).toMatchObject({ name: "Content-Profile", required: true });
  });

  test("the header is described, but not if there is only one schema", () => {
    const document = shop("authenticated");
    expect(namesOf(document, document.paths["/items"].get)).not.toContain("Accept-Profile");
  });
});

test.each([
  ["'DRAFT'::public.article_status", { type: "string" }, "DRAFT"],
  ["'it''s'::text", { type: "string" }, "it's"],
  ["'x'::character varying(20)", { type: "string" }, "x"],
  ["now()", { type: "string", format: "date-time" }, undefined],
  ["'2026-01-01 00:00:00+00'::timestamp with time zone", { type: "string", format: "date-time" }, undefined],
  ["('a'::text || 'b'::text)", { type: "string" }, undefined],
  ["0", { type: "integer" }, 0],
  ["'-5'::integer", { type: "integer" }, -5],
  ["(-5)", { type: "integer" }, -5],
  ["0.50", { type: "number" }, 0.5],
  ["'9007199254740993'::bigint", { type: "integer" }, undefined],
  ["nextval('a_seq'::regclass)", { type: "integer" }, undefined],
  ["true", { type: "boolean" }, true],
  ["(1 = 1)", { type: "boolean" }, undefined],
  ["'{}'::text[]", { type: "array" }, []],
  ["'{\"a\": [1]}'::jsonb", {}, { a: [1] }],
  ["'{'::json", {}, undefined],
] as const)("the default %s of %o is %o in JSON", (expression, schema, value) => {
  expect(defaultValue(expression, schema)).toEqual(value);
});

test("component keys are unique for any names", () => {
  const names = fc.uniqueArray(
    fc.oneof(fc.string(), fc.constantFrom("a", "a_b", "a b", "a_b_2", "a_insert", "é", "__")),
  );
  fc.assert(
    fc.property(names, (given) => {
      const keys = [...componentKeys(given, ["", "_insert"], ["Error"]).values()];
      const all = keys.flatMap((key) => [key, `${key}_insert`]);
      expect(keys.length).toBe(given.length);
      expect(new Set(["Error", ...all]).size).toBe(all.length + 1);
      expect(keys.filter((key) => !/^[a-zA-Z0-9_-]*$/.test(key))).toEqual([]);
    }),
  );
});
