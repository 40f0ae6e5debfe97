import { describe, expect, test } from "vitest";
import { openRaw } from "../../support/raw-socket.ts";
import { useResources } from "../../support/resource-client.ts";

const MESSAGE = "version 1 is deprecated, and ends on 2027-06-30: use version 2";
const SUNSET = "Wed, 30 Jun 2027 00:00:00 GMT";
const GUIDE = "https://example.com/guide";

/** A response without the headers of a deprecated version. */
const NO_NOTICE = [null, null, null];
const noticeOf = (headers: Headers) => [headers.get("x-api-warn"), headers.get("x-api-sunset"), headers.get("link")];

describe("a deprecated version", () => {
  const settings = { API_V1_STATUS: `deprecated 2027-06-30 ${GUIDE}` };
  const { api, body, service } = useResources(settings);
  const successorOf = (path: string) => `<${path}>; rel=successor-version`;

  test.each([
    ["/users/1", "/api/v2/users/1"],
    ["/api/v1/users/1", "/api/v2/users/1"],
    ["/users/1?version=1", "/api/v2/users/1"],
    ["/articles/1/comments/1?fields=id", "/api/v2/articles/1/comments/1"],
    ["/users/999", "/api/v2/users/999"],
    ["/users/abc", "/api/v2/users/abc"],
    ["POST /users/1", "/api/v2/users/1"],
    ["POST /articles", "/api/v2/articles"],
    ["OPTIONS /users", "/api/v2/users"],
    ["HEAD /users/1", "/api/v2/users/1"],
  ])("is announced in the headers of %s", async (request, successor) => {
    const { headers } = await api(request);
    expect(noticeOf(headers)).toEqual([MESSAGE, SUNSET, successorOf(successor)]);
    expect(new Date(headers.get("x-api-sunset")!).toISOString()).toBe("2027-06-30T00:00:00.000Z");
  });

  test("has links only to its own successor, whatever the path", async () => {
    const raw = await openRaw(service().url);
    raw.write("GET /users/1>;rel=next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    await expect.poll(() => raw.text).toContain("\r\n\r\n");
    expect(raw.text).toContain("</api/v2/users/1%3E;rel=next>; rel=successor-version");
  });

  test("has the successor beside the page links", async () => {
    const { headers } = await api("/users?limit=1");
    expect(noticeOf(headers).slice(0, 2)).toEqual([MESSAGE, SUNSET]);
    const links = headers.get("link")!.split(/, (?=<)/);
    expect(links.map((link) => /rel="?([a-z-]+)"?/.exec(link)![1])).toEqual([
      "successor-version",
      ...["first", "next", "last"],
    ]);
    expect(links[0]).toBe(successorOf("/api/v2/users"));
  });

  test("has a successor that responds", async () => {
    const { headers } = await api("/articles/1");
    const successor = /<(.*?)>; rel=successor-version/.exec(headers.get("link")!)![1]!;
    const { status, headers: received } = await api(successor);
    expect([status, received.get("x-api-version")]).toEqual([200, "2"]);
  });

  test("is announced in bodies that are objects", async () => {
    const deprecation = {
      deprecated: true,
      message: MESSAGE,
      sunset: "2027-06-30T00:00:00.000Z",
      migrationGuide: GUIDE,
    };
    const user = await body("/users/1");
    expect(user).toMatchObject({ id: 1, name: "Ada Lovelace", deprecation });
    expect(Object.keys(await body("/articles"))).toEqual(["data", "pagination", "links", "deprecation"]);
    expect((await body("/users?page=0&size=1")).deprecation).toEqual(deprecation);
    expect((await body("/users?limit=1", { prefer: "dialect=envelope" })).deprecation).toEqual(deprecation);
    const made = await body("POST /users", { body: { name: "New", email: "new@example.com" } });
    expect(made.deprecation).toEqual(deprecation);
  });

  test("does not change bodies that are arrays", async () => {
    const users = await body("/users");
    expect(users).toBeInstanceOf(Array);
    expect(Object.keys(users[0])).toEqual(["id", "name", "email", "age", "created_at", "updated_at"]);
  });

  test("accepts its own announcement in a body", async () => {
    const user = await body("/users/2");
    expect((await api("PUT /users/2", { body: user, prefer: "handling=strict" })).status).toBe(200);
  });

  test("is announced with 304 and 204", async () => {
    const { headers } = await api("/users/1");
    const again = await api("/users/1", { headers: { "if-none-match": headers.get("etag")! } });
    expect([again.status, ...noticeOf(again.headers)]).toEqual([304, MESSAGE, SUNSET, successorOf("/api/v2/users/1")]);
    const { json } = await api("POST /users", { body: { name: "Gone", email: "gone@example.com" } });
    const gone = await api(`DELETE /users/${json.id}`);
    expect([gone.status, gone.text, gone.headers.get("x-api-warn")]).toEqual([204, "", MESSAGE]);
  });

  test("has a successor without an announcement", async () => {
    for (const path of ["/api/v2/users/1", "/users/1?version=2", "/api/v2/users/999"]) {
      const { headers, json } = await api(path);
      expect([...noticeOf(headers), json.deprecation]).toEqual([...NO_NOTICE, undefined]);
    }
  });
});

describe("a deprecated version without a sunset and a guide", () => {
  const { api, body } = useResources({ API_V1_STATUS: "deprecated" });

  test("has headers for neither", async () => {
    const message = "version 1 is deprecated: use version 2";
    expect(noticeOf((await api("/users/1")).headers)).toEqual([
      message,
      null,
      "</api/v2/users/1>; rel=successor-version",
    ]);
    expect((await body("/users/1")).deprecation).toEqual({ deprecated: true, message });
  });
});

describe("a retired version", () => {
  const { api, body } = useResources({ API_V1_STATUS: "retired 2020-01-01" });

  test.each([
    ["only by the default", "/users", {}],
    ["by the path", "/api/v1/users/1", {}],
    ["by the query", "/articles?version=1", {}],
    ["by a header", "/users", { "X-API-Version": "1" }],
    ["by the media type", "/users", { Accept: "application/vnd.content.v1+json" }],
  ])("is 400 if it is named %s", async (_how, path, headers) => {
    const { status, json, headers: received } = await api(path, { headers });
    expect([status, json.error.code, json.error.message]).toEqual([
      400,
      "UNSUPPORTED_VERSION",
      "version 1 is not supported: use 2",
    ]);
    expect(json.supportedVersions).toEqual([2]);
    expect(noticeOf(received)).toEqual(NO_NOTICE);
  });

  test("is not in the Location of a registration", async () => {
    const sent = { name: "Grace", email: "grace@example.com", password: "Correct-Horse-7!" };
    const { status, headers, json } = await api("POST /auth/register", { body: sent });
    expect([status, headers.get("location")]).toEqual([201, `/api/v2/users/${json.user.id}`]);
    expect((await body(headers.get("location")!)).name).toBe("Grace");
  });

  test("does not affect the other version", async () => {
    expect((await body("/api/v2/users/1")).name).toBe("Ada Lovelace");
    expect((await body("/users/1?version=2")).name).toBe("Ada Lovelace");
  });
});

describe("a version that is supported", () => {
  const { api } = useResources({ API_V1_STATUS: `supported 2027-06-30 ${GUIDE}` });

  test("announces nothing, whatever sunset is set", async () => {
    const { headers, json } = await api("/users/1");
    expect([...noticeOf(headers), json.deprecation]).toEqual([...NO_NOTICE, undefined]);
  });
});
