import { testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
const ada = await db.account("ada");
const bob = await db.account("bob");

test("authors read their drafts, and others do not", async () => {
  const [note] = await db.as(ada).query("insert into notes (text) values ('A new draft') returning id");
  expect(await db.as(ada).query("select text from notes where id = $1", [note!.id])).toEqual([{ text: "A new draft" }]);
  expect(await db.as(bob).query("select text from notes where id = $1", [note!.id])).toEqual([]);
  await db.owner.query("delete from notes where id = $1", [note!.id]);
});

test("authors do not give their notes away", () =>
  expect(db.as(ada).query("update notes set author_id = $1 where id = 1", [bob.id])).rejects.toMatchObject({
    code: "42501",
  }));

test("rights have not changed", async () => {
  await expect(await db.accessMatrix()).toMatchFileSnapshot("access.md");
});
