import { testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
const ada = await db.account("ada");
const bob = await db.account("bob");

test("users neither read nor delete the notes of others", async () => {
  expect(await db.as(bob).query("select text from notes where author_id = $1", [ada.id])).toEqual([]);
  expect(await db.as(bob).query("delete from notes where author_id = $1 returning id", [ada.id])).toEqual([]);
});

test("users do not add notes for others", () =>
  expect(
    db.as(bob).query("insert into notes (author_id, text) values ($1, 'Not mine')", [ada.id]),
  ).rejects.toMatchObject({ code: "42501" }));

// After a change that you want: npx content-service test -u
test("rights have not changed", async () => {
  await expect(await db.accessMatrix()).toMatchFileSnapshot("access.md");
});
