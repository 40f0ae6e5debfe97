import { expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api } = useResources({ USERS_DIALECT: "detail,case" });

test("USERS_DIALECT is what a client gets that names no dialect", async () => {
  const { json, headers } = await api("/users/1");
  expect(Object.keys(json)).toEqual(["id", "name", "email", "age", "createdAt", "updatedAt"]);
  expect(headers.get("preference-applied")).toBe(null);
  expect((await api("/users/999")).json).toEqual({
    detail: { code: "USER_NOT_FOUND", message: "there is no user with this id" },
  });
});

test("Prefer: dialect=none gives the usual forms, and says so", async () => {
  const { json, headers } = await api("/users/1", { prefer: "dialect=none" });
  expect(json).toHaveProperty("created_at");
  expect(headers.get("preference-applied")).toBe("dialect=none");
  expect((await api("/users/999", { prefer: "dialect=none" })).json.error.code).toBe("USER_NOT_FOUND");
});

test("Prefer with another dialect has that one alone", async () => {
  const { json } = await api("/users/999", { prefer: "dialect=flat" });
  expect(json.error).toBe("USER_NOT_FOUND");
  expect((await api("/users/1", { prefer: "dialect=flat" })).json).toHaveProperty("created_at");
});

test("Prefer without a dialect, or with one that nobody knows, leaves the usual ones", async () => {
  expect((await api("/users/1", { prefer: "handling=strict" })).json).toHaveProperty("createdAt");
  expect((await api("/users/1", { prefer: "dialect=klingon" })).json).toHaveProperty("createdAt");
});

test("version 2 has its own form of records, and the dialect of failures", async () => {
  expect((await api("/api/v2/users/999")).json).toHaveProperty("detail.code", "USER_NOT_FOUND");
});
