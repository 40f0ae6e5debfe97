import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { type PlainReply, sendPlain } from "./plain-http.ts";

const { api, service } = useResources();

/** As it stands in the address, whatever a browser would make of it. */
async function plain(method: string, path: string): Promise<PlainReply & { readonly code: string | undefined }> {
  const reply = await sendPlain(service().url, { method, path });
  return { ...reply, code: reply.text === "" ? undefined : JSON.parse(reply.text).error?.code };
}

describe("an id that is not an integer is 400 INVALID_ID for every method", () => {
  test.each([
    ...["abc", "1.0", "1.5", "+1", "%2B1", "007", "00", "1e3", "0x1", "1,2", "1;2", "-", "--1", "null", "me", "1'--"],
    ...["%20", "1%20", "%201", "1%00", "%00", "%2F", "1%2F2", "..%2F1", "%EF%BC%91", "%D9%A1", "1)%20or%201=1"],
    ...["a".repeat(8000), "%F0%9F%91%A9".repeat(60)],
  ])("/users/%s", async (id) => {
    for (const method of ["GET", "PUT", "PATCH", "DELETE"]) {
      const { status, code } = await plain(method, `/users/${id}`);
      expect([method, status, code]).toEqual([method, 400, "INVALID_ID"]);
    }
  });

  test("and the message quotes a part of it", async () => {
    const { status, json } = await api(`/users/${"x".repeat(5000)}`);
    expect(status).toBe(400);
    expect(json.error.message).toBe(`"${"x".repeat(50)}" is not a valid id of users: it must be a whole number`);
    expect(json.error.fields).toEqual({ id: "must be a valid id" });
  });
});

test.each(["%31", "1?", "1?fields=id"])("/users/%s is user 1", async (path) => {
  const { status, text } = await plain("GET", `/users/${path}`);
  expect([status, JSON.parse(text).id]).toEqual([200, 1]);
});

type Row = [path: string, status: number, code: string];
const unknown = (path: string): Row => [path, 404, "RESOURCE_NOT_FOUND"];
const noUser = (path: string): Row => [path, 404, "USER_NOT_FOUND"];
const noText = (path: string): Row => [path, 400, "BAD_REQUEST"];
const noId = (path: string): Row => [path, 400, "INVALID_ID"];

test.each<Row>([
  ...["/users/0", "/users/-0", "/users/-1", "/users/999", "/users/9223372036854775807"].map(noUser),
  ...["/users/9223372036854775808", "/users/-9223372036854775809", `/users/${"9".repeat(8000)}`].map(noUser),
  ...["/users/999/articles", "/users/99999999999999999999/articles"].map(noUser),
  ...["/articles/999/comments", "/articles/999/comments?limit=0&skip=0"].map(unknown),
  ...["/users/", "/users/1/", "/users//", "/users//1", "//users", "/users%2F1", "/users/1/articles/"].map(unknown),
  ...["/users/1/nothing", "/users/1/comments", "/users/1/articles/1/comments", "/Users", "/USERS/1", "/user"].map(
    unknown,
  ),
  ...["/users.json", "/users/1/__proto__", "/__proto__", "/constructor", "/users/1/constructor"].map(unknown),
  ...["/api/v1/users/", "/api/v1", "/api/v1/", "/api/v1/__proto__", "/api/users", "/articles//comments"].map(unknown),
  ...["/articles/1/comments/", "/articles/1/comments/1/", "/articles/1/comments/1/author"].map(unknown),
  ...["/articles/1/authors", "/articles/1/comments/1/comments/2", "/comments/1/article"].map(unknown),
  ...["/articles/1/Publish", "/articles/1/publish/", "/articles/1/publish/now"].map(unknown),
  ...["/users/%", "/users/%zz", "/users/%FF", "/users/%C0%AF", "/users/%ED%A0%80"].map(noText),
  ...["/articles/abc/comments", "/articles/1/comments/abc", "/users/1.0/articles"].map(noId),
])("%s is %i %s", async (path, status, code) => {
  const reply = await plain("GET", path);
  expect([reply.status, reply.code]).toEqual([status, code]);
});
