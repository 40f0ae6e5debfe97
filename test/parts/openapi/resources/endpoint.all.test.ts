import { describe, expect, test } from "vitest";
import { useResources } from "../../../support/resource-client.ts";

const { api, body, failure, sql } = useResources();
const versionAt = async (path: string, headers = {}) => (await body(path, { headers })).info.version;

describe("/openapi.json", () => {
  test("describes the requested version, however it is chosen", async () => {
    expect(await versionAt("/openapi.json")).toBe("1");
    expect(await versionAt("/api/v1/openapi.json")).toBe("1");
    expect(await versionAt("/api/v2/openapi.json")).toBe("2");
    expect(await versionAt("/openapi.json?version=2")).toBe("2");
    expect(await versionAt("/openapi.json", { "x-api-version": "2" })).toBe("2");
    expect(await versionAt("/openapi.json", { accept: "application/vnd.content.v2+json" })).toBe("2");
  });

  test("has one server in both versions, and the whole path of every operation", async () => {
    const [first, second] = [await body("/openapi.json"), await body("/openapi.json?version=2")];
    expect(second.servers).toEqual(first.servers);
    for (const { servers, paths } of [first, second])
      for (const path of Object.keys(paths).filter((each) => "get" in paths[each] && !each.includes("{"))) {
        const { status } = await fetch(servers[0].url + path, { redirect: "manual" });
        expect([path, status]).not.toEqual([path, 404]);
      }
  });

  test("is 304 with its tag", async () => {
    const { headers } = await api("/openapi.json");
    const again = await api("/openapi.json", { headers: { "if-none-match": headers.get("etag")! } });
    expect([again.status, again.text]).toEqual([304, ""]);
    const other = await api("/api/v2/openapi.json", { headers: { "if-none-match": headers.get("etag")! } });
    expect(other.status).toBe(200);
  });

  test("supports only reads", async () => {
    const { status, headers, text } = await api("HEAD /openapi.json", { headers: { "accept-encoding": "identity" } });
    expect([status, text, Number(headers.get("content-length")) > 10_000]).toEqual([200, "", true]);
    expect((await api("OPTIONS /openapi.json")).headers.get("allow")).toBe("GET, HEAD, OPTIONS");
    expect((await failure("POST /openapi.json"))[0]).toBe(405);
    expect((await failure("/openapi.json/users"))[0]).toBe(404);
    expect((await failure("/openapi.json?fields=paths")).slice(0, 2)).toEqual([400, "BAD_REQUEST"]);
  });

  test("follows the database", async () => {
    const rule = () =>
      api("/openapi.json").then(({ json }) => json.components.schemas.User.properties.name.description);
    await sql("comment on column users.name is 'What others call the user.'");
    await expect.poll(rule).toBe("What others call the user.");
  });
});

describe("with OPENAPI=off", () => {
  const off = useResources({ OPENAPI: "off" });

  test("it is 404 with the reason", async () => {
    expect(await off.failure("/openapi.json")).toEqual([
      404,
      "RESOURCE_NOT_FOUND",
      "the OpenAPI document is switched off (OPENAPI, PARTS=-openapi)",
    ]);
  });
});

describe("with API_V1_STATUS=deprecated", () => {
  const deprecated = useResources({ API_V1_STATUS: "deprecated" });

  test("the operations of version 1 are deprecated, and those of version 2 are not", async () => {
    const first = await deprecated.body("/openapi.json");
    expect(Object.keys(first)).not.toContain("deprecation");
    expect(first.paths["/users"].get.deprecated).toBe(true);
    expect((await deprecated.body("/api/v2/openapi.json")).paths["/api/v2/users"].get.deprecated).toBeUndefined();
  });
});

describe("with USERS_WRITE=owner", () => {
  const owner = useResources({ USERS_WRITE: "owner" });

  test("changing a user requires credentials", async () => {
    const { paths } = await owner.body("/openapi.json");
    expect(paths["/users/{userId}"].patch.security).toBeUndefined();
    expect(paths["/users"].post.security).toBeDefined();
  });
});
