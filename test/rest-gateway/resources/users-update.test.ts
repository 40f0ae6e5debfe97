import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { newEmail, userMaker } from "./users.ts";

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
    ["nothing", () => ({})],
    ["an unknown field", () => ({ nickname: "Amazing Grace" })],
    ["what the service assigns", () => ({ id: 9, created_at: "x" })],
    ["equal values", (before: object) => before],
  ])("of %s is an update too and refreshes updated_at", async (_, inputOf) => {
    const before = await user({ age: 85 });
    const after = await body(`PATCH /users/${before.id}`, { body: inputOf(before) });
    expect(after).toEqual({ ...before, updated_at: expect.any(String) });
    expect(after.updated_at > before.updated_at).toBe(true);
  });

  test("of the user's own e-mail in another case is not a conflict", async () => {
    const { id, email } = await user();
    expect(await body(`PATCH /users/${id}`, { body: { email: email.toUpperCase() } })).toMatchObject({
      email: email.toUpperCase(),
    });
  });
});

describe("DELETE", () => {
  test("responds with 204 without a body and deletes the user", async () => {
    const { id } = await user();
    const { status, text, headers } = await api(`DELETE /users/${id}`);
    expect([status, text, headers.get("content-type"), headers.get("content-length")]).toEqual([204, "", null, null]);
    for (const request of ["GET", "DELETE"])
      expect(await failure(`${request} /users/${id}`)).toEqual([
        404,
        "USER_NOT_FOUND",
        "there is no user with this id",
      ]);
  });

  test("in parallel succeeds once", async () => {
    const { id } = await user();
    const answers = await Promise.all([1, 2, 3].map(() => api(`DELETE /users/${id}`)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 404, 404]);
  });
});
