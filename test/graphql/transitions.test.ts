import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { article, data, errors, sql } = useService();

const STATES = ["DRAFT", "PUBLISHED", "ARCHIVED"] as const;
const CALLERS = ["ada", "admin"] as const;

const statusOf = async (id: string) => (await sql("select status from articles where id = $1", id))[0]?.status;

const CREATE = `mutation ($status: ArticleStatus) {
  createArticle(input: { title: "Title", content: "Some content.", status: $status }) {
    success message article { id status author { id } }
  }
}`;
const CREATE_PLAIN = `mutation {
  createArticle(input: { title: "Title", content: "Some content." }) { success message article { status author { id } } }
}`;
const UPDATE = `mutation ($id: ID!, $status: ArticleStatus) {
  updateArticle(id: $id, input: { status: $status }) { id status }
}`;
const PUBLISH = "mutation ($id: ID!) { publishArticle(id: $id) { id status } }";
const DELETE = "mutation ($id: ID!) { deleteArticle(id: $id) }";

describe("createArticle without an article before", () => {
  test.each(STATES)("sets the status %s of the input", async (status) => {
    const { createArticle } = await data(CREATE, { variables: { status }, as: "ada" });
    expect(createArticle).toEqual({
      success: true,
      message: "article created",
      article: { id: expect.any(String), status, author: { id: "1" } },
    });
    expect(await statusOf(createArticle.article.id)).toBe(status);
  });

  test("sets DRAFT when the status is omitted", async () => {
    const { createArticle } = await data(CREATE_PLAIN, { as: "ada" });
    expect(createArticle.article).toEqual({ status: "DRAFT", author: { id: "1" } });
    expect((await data(CREATE, { variables: {}, as: "ada" })).createArticle.article.status).toBe("DRAFT");
  });
});

describe.each(STATES)("%s", (from) => {
  test.each(CALLERS)(
    "becomes PUBLISHED by publishArticle, which returns the updated article (caller %s)",
    async (as) => {
      const id = await article({ author: 1, status: from });
      expect(await data(PUBLISH, { variables: { id }, as })).toEqual({ publishArticle: { id, status: "PUBLISHED" } });
      expect(await statusOf(id)).toBe("PUBLISHED");
    },
  );

  describe.each(STATES)("updateArticle with status %s", (to) => {
    test.each(CALLERS)("sets the given status and returns the updated article (caller %s)", async (as) => {
      const id = await article({ author: 1, status: from });
      expect(await data(UPDATE, { variables: { id, status: to }, as })).toEqual({ updateArticle: { id, status: to } });
      expect(await statusOf(id)).toBe(to);
    });
  });

  test("is kept by updateArticle without status", async () => {
    const id = await article({ author: 1, status: from });
    const query = `mutation ($id: ID!) { updateArticle(id: $id, input: { title: "Another title" }) { title status } }`;
    const updated = await data(query, { variables: { id }, as: "ada" });
    expect(updated).toEqual({ updateArticle: { title: "Another title", status: from } });
  });

  test.each(CALLERS)("allows deleteArticle, which removes the article and returns true (caller %s)", async (as) => {
    const id = await article({ author: 1, status: from });
    expect(await data(DELETE, { variables: { id }, as })).toEqual({ deleteArticle: true });
    expect(await statusOf(id)).toBeUndefined();
  });

  test.each([
    ["publishArticle", PUBLISH],
    ["updateArticle", UPDATE],
    ["deleteArticle", DELETE],
  ])("is kept when another caller tries %s", async (_, query) => {
    const id = await article({ author: 1, status: from });
    const variables = query === UPDATE ? { id, status: "ARCHIVED" } : { id };
    expect(await errors(query, { variables, as: "bob" })).toEqual([expect.stringMatching(/^PERMISSION_DENIED/)]);
    expect(await errors(query, { variables })).toEqual(["AUTH_REQUIRED: login required"]);
    expect(await statusOf(id)).toBe(from);
  });
});
