import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { allUsers, newEmail, type User } from "./users.ts";

const client = useResources({ apiMaxRecords: 50 });
const { api, failure } = client;

const several = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ name: `User ${i}`, email: newEmail(), age: i }));

test("POST of an array creates all records and returns them in the same order", async () => {
  const input = several(50);
  const { status, json, headers } = await api("POST /users", { body: input });
  expect([status, headers.get("location")]).toEqual([201, null]);
  expect(json).toMatchObject(input);
  const ids = json.map(({ id }: User) => id);
  expect(ids).toEqual(ids.toSorted((a: number, b: number) => a - b));
  expect(Object.keys(json[0])).toEqual(["id", "name", "email", "age", "created_at", "updated_at"]);
});

test("records may have different keys", async () => {
  const [first, second, third] = several(3);
  const input = [{ name: first!.name, email: first!.email }, second, { ...third, age: null, nickname: "x", id: 1 }];
  const { status, json } = await api("POST /users", { body: input });
  expect([status, json.map(({ age }: User) => age)]).toEqual([201, [null, 1, null]]);
});

test("an array of one record creates it and returns an array", async () => {
  const { status, json } = await api("POST /users", { body: several(1) });
  expect([status, json.length]).toEqual([201, 1]);
});

describe("all or nothing", () => {
  const GRACE = { name: "Grace", email: "grace@test.example" };

  const INVALID = [400, "VALIDATION_ERROR"] as const;
  const MISSING = [400, "MISSING_FIELD"] as const;
  const TAKEN = [409, "RESOURCE_CONFLICT", "[1].email: [1]: email already registered"] as const;
  test.each<[what: string, records: readonly unknown[], status: number, code: string, ...faults: string[]]>([
    ["a missing field", [GRACE, { name: "Bob" }], ...MISSING, "[1].email: [1].email is required"],
    ["a wrong type", [GRACE, { ...GRACE, age: "1" }], ...INVALID, "[1].age: [1].age must be a whole number"],
    [
      "several",
      [{}, 7, null, [], { name: 1, email: "x@test.example" }],
      ...MISSING,
      ...["[0].name: [0].name is required", "[0].email: [0].email is required"],
      ...["[1]: [1] must be an object", "[2]: [2] must be an object", "[3]: [3] must be an object"],
      "[4].name: [4].name must be a text",
    ],
    [
      "broken rules",
      [GRACE, { name: " ", email: "b@test.example", age: 200 }, { name: "Bob", email: "b" }],
      ...INVALID,
      ...["[1].age: [1]: age must be from 0 to 150", "[1].name: [1]: name must have 1 to 200 characters"],
      "[2].email: [2]: email must be a valid address",
    ],
    ["a taken e-mail", [GRACE, { ...GRACE, email: "Ada@example.com" }], ...TAKEN],
    ["one e-mail twice", [GRACE, { ...GRACE, email: "GRACE@test.example" }], ...TAKEN],
    [
      "a password",
      [{ ...GRACE, password: "Correct-Horse-7!" }],
      ...INVALID,
      "[0].password: [0].password must be sent one at a time",
    ],
    [
      "a password and a username",
      [{ ...GRACE, password: "Correct-Horse-7!", username: "g" }],
      ...INVALID,
      "[0].username: [0].username must be sent one at a time",
      "[0].password: [0].password must be sent one at a time",
    ],
  ])("%s", async (_, records, status, code, ...faults) => {
    const before = await allUsers(client);
    const { status: received, json } = await api("POST /users", { body: records });
    const fields = Object.entries(json.error.fields).map(([field, message]) => `${field}: ${message}`);
    expect([received, json.error.code, fields.toSorted()]).toEqual([status, code, faults.toSorted()]);
    expect(await allUsers(client)).toBe(before);
  });

  test("an empty array is 400", async () => {
    const message = "the body must be a JSON object, not an empty array";
    expect(await failure("POST /users", { body: [] })).toEqual([400, "VALIDATION_ERROR", message]);
  });

  test("more than apiMaxRecords are 413", async () => {
    const before = await allUsers(client);
    const message = "the list must not have more than 50 records: send them in several requests";
    expect(await failure("POST /users", { body: several(51) })).toEqual([413, "VALIDATION_ERROR", message]);
    expect(await allUsers(client)).toBe(before);
  });

  test("handling=strict rejects an unknown field in any record", async () => {
    const [first, second] = several(2);
    const body = [first, { ...second, nickname: "x" }];
    const { status, json } = await api("POST /users", { body, prefer: "handling=strict" });
    expect([status, json.error.code]).toEqual([400, "BAD_REQUEST"]);
  });
});
