import { testDatabase } from "content-service/test";
import request from "supertest";
import { expect, test } from "vitest";

const db = await testDatabase();
const app = await db.start();

test("GET /hello names the role of the caller", async () => {
  const token = db.token(await db.user());
  await request(app.url).get("/hello").expect(200, { role: "anon" });
  await request(app.url).get("/hello").auth(token, { type: "bearer" }).expect(200, { role: "authenticated" });
});

test("a new user has a row, and adds a note", async () => {
  const grace = await db.user({ name: "Grace" });
  expect(await db.as(grace).query("select name from users")).toEqual([{ name: "Grace" }]);
  const adding = request(app.url).post("/notes").auth(db.token(grace), { type: "bearer" });
  const { body } = await adding.send({ text: "Call Ada" }).expect(201);
  expect(body).toMatchObject({ author_id: grace.id, text: "Call Ada" });
});
