import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { expect, test } from "vitest";
import { DESCRIPTIONS } from "../../../rest-gateway/resources/descriptions/index.ts";
import { useOwnResources } from "../../support/own-resources.ts";

const GUIDE = readFileSync("docs/dba-guide.md", "utf8");

/** The blocks of code below a heading. */
function blocksOf(heading: string): string[] {
  const [section = ""] = GUIDE.slice(GUIDE.indexOf(`## ${heading}`) + 3).split("\n## ");
  return [...section.matchAll(/^```\w+\n([\s\S]*?)^```$/gm)].map(([, code]) => code!);
}

const [table] = blocksOf("Add a table");
const [search, description] = blocksOf("Add a resource");
const source = stripTypeScriptTypes(description!);
const { BOOKMARKS } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

const { api } = useOwnResources(`${table}${search}`, [...DESCRIPTIONS, BOOKMARKS]);

test("the resource in docs/dba-guide.md is served as documented", async () => {
  const made = await api("POST /bookmarks", { as: 1, body: { article_id: 2, text: "read again" } });
  expect([made.status, made.headers.get("location")]).toEqual([201, "/bookmarks/1"]);
  expect(made.json).toMatchObject({ id: 1, article_id: 2, text: "read again", created_at: expect.any(String) });
  const found = await api("/bookmarks?keyword=AGAIN&article=2&sort=created_at&fields=text,article.id", { as: 1 });
  expect(found.json.data).toEqual([{ text: "read again", article: { id: 2 } }]);
  const read = await api("/api/v2/bookmarks/1", { as: 1 });
  expect(read.json).toMatchObject({
    createdAt: made.json.created_at,
    _links: { article: { href: "/api/v2/articles/2" } },
  });
  expect((await api("PATCH /bookmarks/1", { as: 1, body: { text: "x".repeat(501) } })).json.error).toMatchObject({
    message: "note must have at most 500 characters",
    fields: { text: "note must have at most 500 characters" },
  });
  expect((await api("DELETE /bookmarks/1", { as: 2 })).status).toBe(404);
  expect((await api("DELETE /bookmarks/1", { as: 1 })).status).toBe(204);
  expect((await api("/bookmarks")).status).toBe(401);
});
