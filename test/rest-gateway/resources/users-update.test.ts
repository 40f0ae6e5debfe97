import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { allUsers, newEmail, userMaker } from "./users.ts";

const client = useResources();
const { api, body, failure } = client;
const user = userMaker(client);

describe("PUT", () => {
  test("replaces name, email and age, keeps created_at and refreshes updated_at", async () => {
    const before = await user({ age: 85 });
    const input = { name: "Rear Admiral Hopper", email: newEmail(), age: 86 };
    const { status, json, headers } = await api(`PUT /users/${before.id}`, { body: input });
    expect([status, headers.get("location")]).toEqual([200, null]);
    expect(json).toEqual({ ...before, ...input, updated_at: expect.any(String) });
    expect(json.updated_at > before.updated_at).toBe(true);
    expect(await body(`/users/${before.id}`)).toEqual(json);
  });

  test("without an age sets it to null", async () => {
    const { id, name, email } = await user({ age: 85 });
    expect(await body(`PUT /users/${id}`, { body: { name, email } })).toMatchObject({ name, email, age: null });
  });

  test.each([
    [{ name: "Grace" }, "MISSING_FIELD", "email is required"],
    [{ email: "grace@test.example" }, "MISSING_FIELD", "name is required"],
    [{}, "MISSING_FIELD", "name is required; email is required"],
    [{ name: "Grace", email: null }, "VALIDATION_ERROR", "email must not be null"],
    [{ name: "Grace", email: "grace" }, "VALIDATION_ERROR", "email must be a valid address"],
    [{ name: "Grace", email: "grace@test.example", age: -1 }, "VALIDATION_ERROR", "age must be from 0 to 150"],
    [{ name: "Grace", email: "BOB@example.com" }, "RESOURCE_CONFLICT", "email already registered"],
  ])("of %j is rejected with %s and changes nothing", async (input, code, message) => {
    const before = await allUsers(client);
    const status = code === "RESOURCE_CONFLICT" ? 409 : 400;
    expect(await failure("PUT /users/1", { body: input })).toEqual([status, code, message]);
    expect(await allUsers(client)).toBe(before);
  });

  test("with dialect=partial changes only the fields in the body", async () => {
    const before = await user({ age: 85 });
    const { json, headers } = await api(`PUT /users/${before.id}`, {
      body: { name: "Grace" },
      prefer: "dialect=partial",
    });
    expect(headers.get("preference-applied")).toBe("dialect=partial");
    expect(json).toEqual({ ...before, name: "Grace", updated_at: expect.any(String) });
  });

  test("has the same effect twice", async () => {
    const { id } = await user();
    const input = { name: "Grace", email: newEmail(), age: 1 };
    const { updated_at: _, ...first } = await body(`PUT /users/${id}`, { body: input });
    expect(await body(`PUT /users/${id}`, { body: input })).toMatchObject(first);
  });
});

describe("PATCH", () => {
  test.each([{ name: "Grace" }, { email: "amazing@test.example" }, { age: 7 }, { age: null }])(
    "%j changes that alone",
    async (input) => {
      const before = await user({ age: 85 });
      const after = await body(`PATCH /users/${before.id}`, { body: input });
      expect(after).toEqual({ ...before, ...input, updated_at: expect.any(String) });
      expect(after.updated_at > before.updated_at).toBe(true);
    },
  );

  test.each([
    ["nothing", {}],
    ["an unknown field", { nickname: "Amazing Grace" }],
    ["what the service assigns", { id: 9, created_at: "x" }],
  ])("of %s is an update too and refreshes updated_at", async (_, input) => {
    const before = await user({ age: 85 });
    const after = await body(`PATCH /users/${before.id}`, { body: input });
    expect(after).toEqual({ ...before, updated_at: expect.any(String) });
    expect(after.updated_at > before.updated_at).toBe(true);
  });

  test("of equal values refreshes updated_at", async () => {
    const before = await user({ age: 85 });
    const after = await body(`PATCH /users/${before.id}`, { body: before });
    expect(after).toEqual({ ...before, updated_at: expect.any(String) });
    expect(after.updated_at > before.updated_at).toBe(true);
  });

  test("of the user's own e-mail in another case is not a conflict", async () => {
    const { id, email } = await user();
    expect(await body(`PATCH /users/${id}`, { body: { email: email.toUpperCase() } })).toMatchObject({
      email: email.toUpperCase(),
    });
  });

  test.each([
    [{ name: null }, "VALIDATION_ERROR", "name must not be null"],
    [{ email: null }, "VALIDATION_ERROR", "email must not be null"],
    [{ name: "" }, "VALIDATION_ERROR", "name must have 1 to 200 characters"],
    [{ name: "", age: 999 }, "VALIDATION_ERROR", "age must be from 0 to 150; name must have 1 to 200 characters"],
    [{ email: "x", age: 999 }, "VALIDATION_ERROR", "age must be from 0 to 150; email must be a valid address"],
    [{ age: 36.5 }, "VALIDATION_ERROR", "age must be a whole number"],
    [{ age: "36" }, "VALIDATION_ERROR", "age must be a whole number"],
    [{ age: true }, "VALIDATION_ERROR", "age must be a whole number"],
    [{ age: [36] }, "VALIDATION_ERROR", "age must be a whole number"],
    [{ age: 2147483648 }, "VALIDATION_ERROR", "age is out of range"],
    [{ age: 1e300 }, "VALIDATION_ERROR", "age is out of range"],
    [{ email: "Bob@Example.com" }, "RESOURCE_CONFLICT", "email already registered"],
  ])("of %j is rejected with %s and changes nothing", async (input, code, message) => {
    const before = await allUsers(client);
    const status = code === "RESOURCE_CONFLICT" ? 409 : 400;
    expect(await failure("PATCH /users/1", { body: input })).toEqual([status, code, message]);
    expect(await allUsers(client)).toBe(before);
  });
});

describe("DELETE", () => {
  test("responds with 204 without a body and deletes the user", async () => {
    const { id } = await user();
    const { status, text, headers } = await api(`DELETE /users/${id}`);
    expect([status, text, headers.get("content-type"), headers.get("content-length")]).toEqual([204, "", null, null]);
    expect(await failure(`/users/${id}`)).toEqual([404, "USER_NOT_FOUND", "there is no user with this id"]);
  });

  test("a second time is 404", async () => {
    const { id } = await user();
    await api(`DELETE /users/${id}`);
    expect(await failure(`DELETE /users/${id}`)).toEqual([404, "USER_NOT_FOUND", "there is no user with this id"]);
  });

  test("in parallel succeeds once", async () => {
    const { id } = await user();
    const answers = await Promise.all([1, 2, 3].map(() => api(`DELETE /users/${id}`)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 404, 404]);
  });
});

describe.each(["GET", "HEAD", "PUT", "PATCH", "DELETE"])("%s of an unknown id", (method) => {
  test.each(["999999", "0", "-1", "9223372036854775807", "99999999999999999999999"])("%s is 404", async (id) => {
    const input = method.startsWith("P") ? { body: { name: "Grace", email: newEmail() } } : {};
    const { status, json } = await api(`${method} /users/${id}`, input);
    expect([status, json?.error.code]).toEqual([404, method === "HEAD" ? undefined : "USER_NOT_FOUND"]);
  });
});
