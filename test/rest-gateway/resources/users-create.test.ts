import { expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { allUsers, newEmail, userMaker } from "./users.ts";

const client = useResources();
const { api, body, failure } = client;
const user = userMaker(client);
const ISO_8601 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$/;

test("POST responds with 201, the user and its Location", async () => {
  const email = newEmail();
  const { status, json, headers } = await api("POST /users", { body: { name: "Grace Hopper", email, age: 85 } });
  expect([status, headers.get("location")]).toEqual([201, `/users/${json.id}`]);
  expect(json).toEqual({
    id: expect.any(Number),
    name: "Grace Hopper",
    email,
    age: 85,
    created_at: expect.stringMatching(ISO_8601),
    updated_at: json.created_at,
  });
  expect(await body(headers.get("location")!)).toEqual(json);
});

test("a response has the fields of the contract in its order, and the age may be absent or null", async () => {
  const made = await user();
  for (const each of [made, await user({ age: null }), await body(`/users/${made.id}`)]) {
    expect(Object.keys(each)).toEqual(["id", "name", "email", "age", "created_at", "updated_at"]);
    expect(each.age).toBeNull();
  }
});

test("ids increase, also after a rejected POST", async () => {
  const first = await user();
  await failure("POST /users", { body: { name: "Grace", email: first.email } });
  const second = await user();
  expect(second.id).toBeGreaterThan(first.id);
  expect((await user()).id).toBeGreaterThan(second.id);
});

test("fields that the service assigns are ignored in a body", async () => {
  const sent = { id: 1, created_at: "2001-01-01T00:00:00Z", updated_at: null, createdAt: 7, _links: {}, role: "admin" };
  const made = await user(sent);
  expect(made.id).toBeGreaterThan(4);
  expect(made.created_at > "2020").toBe(true);
  expect(made).not.toHaveProperty("role");
});

const TAKEN = "RESOURCE_CONFLICT";

test.each([
  [{}, "MISSING_FIELD", { name: "name is required", email: "email is required" }],
  [{ name: "Grace" }, "MISSING_FIELD", { email: "email is required" }],
  [{ email: "grace@test.example" }, "MISSING_FIELD", { name: "name is required" }],
  [
    { email: "grace", age: "old" },
    "MISSING_FIELD",
    {
      name: "name is required",
      age: "age must be a whole number",
      email: "email must be a valid address",
    },
  ],
  [{ email: "ADA@example.com" }, "MISSING_FIELD", { name: "name is required", email: "email already registered" }],
  [
    { name: " ", email: "ada@example.com" },
    "VALIDATION_ERROR",
    { name: "name must have 1 to 200 characters", email: "email already registered" },
  ],
  [{ name: 1, email: ["a"] }, "VALIDATION_ERROR", { name: "name must be a text", email: "email must be a text" }],
  [
    { name: " ", email: "grace", age: 151 },
    "VALIDATION_ERROR",
    {
      name: "name must have 1 to 200 characters",
      email: "email must be a valid address",
      age: "age must be from 0 to 150",
    },
  ],
])("POST and PUT of %j are 400 %s and list every fault", async (input, code, fields) => {
  const before = await allUsers(client);
  const codeOf = (message: string) =>
    message.endsWith("is required") ? "MISSING_FIELD" : message.endsWith("registered") ? TAKEN : "VALIDATION_ERROR";
  const details = Object.entries(fields).map(([field, message]) => ({ field, code: codeOf(message), message }));
  for (const request of ["POST /users", "PUT /users/2"]) {
    const { status, json } = await api(request, { body: input });
    expect([status, json.error.code, json.error.fields]).toEqual([400, code, fields]);
    expect(json.error.details).toEqual(expect.arrayContaining(details));
    expect(json.error.details).toHaveLength(Object.keys(fields).length);
    expect(json.error.message.split("; ").toSorted()).toEqual(Object.values(fields).toSorted());
  }
  expect(await allUsers(client)).toBe(before);
});

test("of concurrent POSTs with the same e-mail one creates a user", async () => {
  const email = newEmail();
  const sent = ["Grace", "Hopper"].map((name, i) =>
    api("POST /users", { body: { name, email: i === 0 ? email : email.toUpperCase() } }),
  );
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(statuses.toSorted()).toEqual([201, 409]);
  expect(await client.sql("select count(*)::int from users where lower(email) = $1", email)).toEqual([{ count: 1 }]);
});

test.each([
  ["žluťoučký kůň", "name"],
  ["ﷺ 名前 👩‍👩‍👧‍👦 \u202eabc", "name"],
  [`"'; drop table users; -- \\ <b>&amp;`, "name"],
  ["\t tab and\nline ", "name"],
  ["👩".repeat(200), "name"],
  ["üñï@exämple.test", "email"],
  ["o'brien+tag%20@sub.test.example", "email"],
  [0, "age"],
  [150, "age"],
  [36.0, "age"],
])("a value is stored unchanged: %j as %s", async (value, field) => {
  const made = await user({ [field]: value });
  expect(await body(`/users/${made.id}`)).toMatchObject({ [field]: value });
});
