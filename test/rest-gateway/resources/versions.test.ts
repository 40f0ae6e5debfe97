import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure } = useResources();

/** The version that an answer is of, by its form and by its header. */
async function versionOf(path: string, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const { status, json, headers: answered } = await api(path, { headers });
  const form = "createdAt" in (json ?? {}) ? "2" : "1";
  return `${status} ${form} ${answered.get("x-api-version")}`;
}

describe("a version is chosen", () => {
  test.each([
    ["by nothing: it is the first", "/users/1", {}, "200 1 1"],
    ["by the path", "/api/v2/users/1", {}, "200 2 2"],
    ["by the path, the first", "/api/v1/users/1", {}, "200 1 1"],
    ["by the query", "/users/1?version=2", {}, "200 2 2"],
    ["by X-API-Version", "/users/1", { "X-API-Version": "2" }, "200 2 2"],
    ["by Accept-Version", "/users/1", { "Accept-Version": "2" }, "200 2 2"],
    ["by the media type", "/users/1", { Accept: "application/vnd.content.v2+json" }, "200 2 2"],
    ["by the media type, whatever its case", "/users/1", { Accept: "Application/VND.Content.v2+JSON" }, "200 2 2"],
    ["by a header with blanks around it", "/users/1", { "X-API-Version": " 2 " }, "200 2 2"],
    [
      "five times over",
      "/api/v2/users/1?version=2",
      { "X-API-Version": "2", "Accept-Version": "2", Accept: "application/vnd.content.v2+json" },
      "200 2 2",
    ],
  ])("%s", async (_how, path, headers, expected) => expect(await versionOf(path, headers)).toBe(expected));

  test.each([
    ["the most wanted one", "application/vnd.content.v1+json;q=0.5, application/vnd.content.v2+json", "200 2 2"],
    [
      "the most wanted one, by q alone",
      "application/vnd.content.v2+json;q=0.1, application/vnd.content.v1+json;q=0.9",
      "200 1 1",
    ],
    ["not what is not wanted at all", "application/vnd.content.v2+json;q=0, application/json", "200 1 1"],
    [
      "the supported one of several",
      "application/vnd.content.v3+json, application/vnd.content.v2+json;q=0.9",
      "200 2 2",
    ],
    ["of every vendor", "application/vnd.acme.v2+json", "200 2 2"],
    ["of a vendor whose name has dots and hyphens", "application/vnd.video.acme-shop.v2+json", "200 2 2"],
    ["not of a vendor with more than 100 characters", `application/vnd.${"a".repeat(101)}.v2+json`, "200 1 1"],
    ["not one without a version", "application/vnd.content+json", "200 1 1"],
    ["not a type other than JSON", "application/vnd.content.v2+xml", "200 1 1"],
    ["beside other media types", "text/html, application/vnd.content.v2+json, */*;q=0.1", "200 2 2"],
  ])("by Accept: %s", async (_what, accept, expected) =>
    expect(await versionOf("/users/1", { Accept: accept })).toBe(expected),
  );
});

test.each([
  ["application/vnd.content.v2+json", "application/vnd.content.v2+json; charset=utf-8"],
  ["application/vnd.content.v1+json", "application/vnd.content.v1+json; charset=utf-8"],
  ["application/vnd.acme.v1+json", "application/vnd.acme.v1+json; charset=utf-8"],
  ["application/json", "application/json; charset=utf-8"],
  ["text/html", "application/json; charset=utf-8"],
])("Accept: %s has a response of type %s", async (accept, type) => {
  expect((await api("/users", { headers: { accept } })).headers.get("content-type")).toBe(type);
  expect((await api("/users/1", { headers: { accept } })).headers.get("content-type")).toBe(type);
});

describe("an unsupported version is 400 with the supported ones", () => {
  const message = (version: string) => `version ${version} is not supported: use 1 or 2`;
  test.each(["0", "3", "01", "2.1", "-1", "v2", "99999999999999999999999", "two", "1, 2"])("%s", async (version) => {
    const responses = [
      api("/users", { headers: { "X-API-Version": version } }),
      api("/users", { headers: { "Accept-Version": version } }),
      api(`/users?version=${encodeURIComponent(version)}`),
    ];
    for (const { status, json } of await Promise.all(responses)) {
      expect(status).toBe(400);
      expect(json).toMatchObject({ error: { code: "UNSUPPORTED_VERSION", message: message(version) } });
      expect(json.supportedVersions).toEqual([1, 2]);
    }
  });

  test.each(["0", "3", "01", "2.1", "-1", "99999999999999999999999"])(
    "%s in the path or the media type",
    async (version) => {
      const responses = [
        api(`/api/v${version}/users`),
        api(`/api/v${version}/users/1`),
        api("/users", { headers: { Accept: `application/vnd.content.v${version}+json` } }),
        api("/users", { headers: { Accept: `application/vnd.acme.v${version}+json` } }),
      ];
      for (const { status, json } of await Promise.all(responses)) {
        expect(status).toBe(400);
        expect(json.error).toMatchObject({ code: "UNSUPPORTED_VERSION", message: message(version) });
        expect(json.supportedVersions).toEqual([1, 2]);
      }
    },
  );

  test("an empty one", async () => {
    const received = [400, "UNSUPPORTED_VERSION", 'version "" is not supported: use 1 or 2'];
    expect(await failure("/users?version=")).toEqual(received);
    expect(await failure("/users", { headers: { "X-API-Version": "" } })).toEqual(received);
    expect(await failure("/users", { headers: { "Accept-Version": "" } })).toEqual(received);
  });

  test("a very long one is truncated in the message", async () => {
    const [status, , message] = await failure(`/users?version=${"9".repeat(3000)}`);
    expect([status, message.length < 200]).toEqual([400, true]);
  });

  test("on every method", async () => {
    for (const request of ["POST /users", "PUT /users/1", "PATCH /users/1", "DELETE /users/1", "OPTIONS /users"])
      expect((await api(request, { headers: { "X-API-Version": "3" } })).status).toBe(400);
  });
});

test.each([
  ["/api/v1/users?version=2", {}],
  ["/api/v2/users", { "X-API-Version": "1" }],
  ["/users", { "X-API-Version": "1", "Accept-Version": "2" }],
  ["/users?version=1", { Accept: "application/vnd.content.v2+json" }],
  ["/api/v1/users", { Accept: "application/vnd.content.v2+json" }],
])("two versions that disagree are 400: %s with %s", async (path, headers) => {
  const { status, json } = await api(path, { headers });
  expect([status, json.error.code]).toEqual([400, "BAD_REQUEST"]);
  expect(json.error.message).toMatch(/^the request names different versions, [12] and [12]: name only one$/);
  expect(json.supportedVersions).toEqual([1, 2]);
});

test.each([
  ["GET /users/1", 200],
  ["GET /users/999", 404],
  ["GET /users/abc", 400],
  ["GET /users/%ff", 400],
  ["GET /users?nope=1", 400],
  ["GET /users?limit=1&limit=2", 400],
  ["GET /users?sort=nope", 400],
  ["GET /nothing", 404],
  ["POST /users/1", 405],
  ["OPTIONS /users", 204],
  ["HEAD /users", 200],
  ["POST /articles/1/publish", 401],
  ["POST /users", 400],
])("%s (%i) responds in the requested version and names it", async (request, status) => {
  const [method, path] = request.split(" ") as [string, string];
  for (const version of ["1", "2"]) {
    const answer = await api(`${method} /api/v${version}${path}`);
    expect([answer.status, answer.headers.get("x-api-version")]).toEqual([status, version]);
  }
});

test("Vary lists the headers that a response depends on", async () => {
  const needed = ["accept", "x-api-version", "accept-version", "prefer", "authorization"];
  for (const path of ["/users", "/users/1", "/users/999", "/users?version=3"]) {
    const vary = (await api(path)).headers.get("vary")!.toLowerCase().split(/, */);
    expect(vary).toEqual(expect.arrayContaining(needed));
  }
});

describe("links in a response have its version", () => {
  const created = (path: string, headers = {}) =>
    api(`POST ${path}`, { headers, body: { name: "Zed", email: `zed${Math.random()}@example.com` } });

  test.each([
    ["/users", {}, "/users/"],
    ["/api/v1/users", {}, "/api/v1/users/"],
    ["/api/v2/users", {}, "/api/v2/users/"],
    ["/users", { "X-API-Version": "2" }, "/api/v2/users/"],
    ["/users", { "Accept-Version": "2" }, "/api/v2/users/"],
    ["/users", { Accept: "application/vnd.content.v2+json" }, "/api/v2/users/"],
  ])("Location after POST %s with %s begins with %s", async (path, headers, prefix) => {
    const { status, json, headers: answered } = await created(path, headers);
    expect([status, answered.get("location")]).toEqual([201, `${prefix}${json.id}`]);
    expect(await body(answered.get("location")!)).toEqual(json);
  });

  test("Location after POST /users?version=2", async () => {
    const { json, headers } = await created("/users?version=2");
    expect(headers.get("location")).toBe(`/api/v2/users/${json.id}`);
  });

  test.each([
    ["/users?version=2&limit=2", "/api/v2/users?limit=2&page=1"],
    ["/api/v2/users?version=2&limit=2", "/api/v2/users?limit=2&page=1"],
    ["/users?version=1&limit=2&page=1", "/users?limit=2&page=1"],
    ["/api/v1/users?version=1&limit=2&page=1", "/api/v1/users?limit=2&page=1"],
  ])("links of %s name it once: %s", async (path, first) => {
    expect((await body(path)).links.first).toBe(first);
  });

  test.each([
    ["/api/v2/users?limit=1", {}],
    ["/users?limit=1&version=2", {}],
    ["/users?limit=1", { "X-API-Version": "2" }],
  ])("links of %s with %s", async (path, headers) => {
    const { links, data } = await body(path, { headers });
    for (const href of [links.first, links.next, links.last, data[0]._links.self.href]) {
      const { status, headers: answered } = await api(href);
      expect([status, answered.get("x-api-version")]).toEqual([200, "2"]);
    }
  });
});
