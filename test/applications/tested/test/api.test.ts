import { testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
const { url } = await db.start();

test("GET /count counts the notes that the caller reads", async () => {
  const carol = await db.user({ username: "carol", role: "admin" });
  const count = async (headers = {}) => (await fetch(`${url}/count`, { headers })).json();
  expect(await count()).toEqual({ notes: 2 });
  expect(await count({ authorization: `Bearer ${db.token(carol)}` })).toEqual({ notes: 6 });
});

test("a new user signs in", async () => {
  await db.user({ email: "dan@example.com", password: "Another-Horse-8!" });
  const body = JSON.stringify({ username: "dan@example.com", password: "Another-Horse-8!" });
  const response = await fetch(`${url}/auth/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  expect(response.status).toBe(200);
});

test("a copy belongs to one file", async () => {
  expect(await db.as("service_role").query("select count(*)::int from notes")).toEqual([{ count: 6 }]);
  expect(await db.as("anon").query("select count(*)::int from notes")).toEqual([{ count: 2 }]);
});
