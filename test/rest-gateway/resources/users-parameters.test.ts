import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, failure } = useResources();

describe("an invalid parameter of a list is 400 BAD_REQUEST with its name", () => {
  test.each([
    ["skip=-1", "skip", "skip must be an integer of 0 or more"],
    ["limit=-1", "limit", "limit must be an integer of 0 or more"],
    ["page=-1", "page", "page must be an integer of 0 or more"],
    ["size=-1", "size", "size must be an integer of 0 or more"],
    ["limit=1e3", "limit", "limit must be an integer of 0 or more"],
    ["limit=1.0", "limit", "limit must be an integer of 0 or more"],
    ["limit=0x10", "limit", "limit must be an integer of 0 or more"],
    ["limit=+5", "limit", "limit must be an integer of 0 or more"],
    ["limit=%2B5", "limit", "limit must be an integer of 0 or more"],
    ["limit=%205", "limit", "limit must be an integer of 0 or more"],
    ["limit=%EF%BC%95", "limit", "limit must be an integer of 0 or more"],
    ["limit=all", "limit", "limit must be an integer of 0 or more"],
    ["limit=", "limit", "limit must be an integer of 0 or more"],
    ["limit", "limit", "limit must be an integer of 0 or more"],
    ["skip=", "skip", "skip must be an integer of 0 or more"],
    ["skip=true", "skip", "skip must be an integer of 0 or more"],
    ["limit=1&limit=2", "limit", "limit must not be given twice"],
    ["limit=1&limit=1", "limit", "limit must not be given twice"],
    ["page=0&limit=10", "page", "page must be 1 or more when used with limit"],
    ["page=1&limit=0", "limit", "limit must be 1 or more when used with page"],
    ["size=0", "size", "size must be 1 or more when used with page"],
    ["skip=0&page=0", undefined, "use either skip and limit, or page"],
    ["skip=0&limit=5&page=1", undefined, "use either skip and limit, or page"],
    ["size=5&limit=5", undefined, "use either page and size, or limit"],
    ["size=5&skip=5", undefined, "use either page and size, or limit"],
    ["limit=%FF", undefined, "parameters must be valid UTF-8 without NUL"],
    ["keyword=%00", undefined, "parameters must be valid UTF-8 without NUL"],
    [`keyword=${"x".repeat(10_001)}`, "keyword", "keyword may have at most 10000 characters"],
    ["keyword=%C0%AF", undefined, "parameters must be valid UTF-8 without NUL"],
  ])("?%s", async (query, field, message) => {
    const { status, json } = await api(`/users?${query}`);
    expect([status, json.error.code, json.error.message]).toEqual([400, "BAD_REQUEST", message]);
    expect(json.error.fields).toEqual(field && { [field]: message });
  });

  test("an unknown parameter is 400: a misspelled one would return wrong users", async () => {
    const [status, code, message] = await failure("/users?Limit=5");
    expect([status, code]).toEqual([400, "BAD_REQUEST"]);
    expect(message).toMatch(/^unknown parameter "Limit": use fields, sort, order, keyword, skip, limit, page, size,/);
    expect((await failure("/users?=1"))[0]).toBe(400);
    expect((await failure("/users?%FF=1"))[0]).toBe(400);
    expect((await failure("/users/1?limit=1"))[0]).toBe(400);
    expect((await failure("DELETE /users/1?force=true"))[0]).toBe(400);
    expect((await failure("POST /users?upsert=true", { body: { name: "x", email: "x@test.example" } }))[0]).toBe(400);
  });
});
