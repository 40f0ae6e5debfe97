import { expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api } = useResources({ USERS_DIALECT: "detail,case" });

test("USERS_DIALECT is the default for clients that name no dialect", async () => {
  const { json, headers } = await api("/users/1");
  expect(Object.keys(json)).toEqual(["id", "name", "email", "age", "createdAt", "updatedAt"]);
  expect(headers.get("preference-applied")).toBe(null);
  expect((await api("/users/999")).json).toEqual({
    detail: { code: "USER_NOT_FOUND", message: "there is no user with this id" },
  });
});

test("Prefer: dialect=none selects the forms of the contract and is reported as applied", async () => {
  const { json, headers } = await api("/users/1", { prefer: "dialect=none" });
  expect(json).toHaveProperty("created_at");
  expect(headers.get("preference-applied")).toBe("dialect=none");
  expect((await api("/users/999", { prefer: "dialect=none" })).json.error.code).toBe("USER_NOT_FOUND");
});

test("Prefer with another dialect replaces the default", async () => {
  const { json } = await api("/users/999", { prefer: "dialect=flat" });
  expect(json.error).toBe("USER_NOT_FOUND");
  expect((await api("/users/1", { prefer: "dialect=flat" })).json).toHaveProperty("created_at");
});

test("Prefer without a known dialect keeps the default", async () => {
  expect((await api("/users/1", { prefer: "handling=strict" })).json).toHaveProperty("createdAt");
  expect((await api("/users/1", { prefer: "dialect=klingon" })).json).toHaveProperty("createdAt");
});

test("version 2 has its own form of records and the dialect of errors", async () => {
  expect((await api("/api/v2/users/999")).json).toHaveProperty("detail.code", "USER_NOT_FOUND");
});
