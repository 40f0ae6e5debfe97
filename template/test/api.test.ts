import { testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
const { url } = await db.start();

test("GET /hello names the role of the caller", async () => {
  const headers = { authorization: `Bearer ${db.token(await db.user())}` };
  expect(await (await fetch(`${url}/hello`)).json()).toEqual({ role: "anon" });
  expect(await (await fetch(`${url}/hello`, { headers })).json()).toEqual({ role: "authenticated" });
});

test("a new user has a row, and adds a note", async () => {
  const grace = await db.user({ name: "Grace" });
  expect(await db.as(grace).query("select name from users")).toEqual([{ name: "Grace" }]);
  const headers = { authorization: `Bearer ${db.token(grace)}`, "content-type": "application/json" };
  const body = JSON.stringify({ text: "Call Ada" });
  const response = await fetch(`${url}/notes`, { method: "POST", headers, body });
  expect([response.status, await response.json()]).toMatchObject([201, { author_id: grace.id, text: "Call Ada" }]);
});
