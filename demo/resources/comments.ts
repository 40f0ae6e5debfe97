import { defineResource } from "content-service";

export const comments = defineResource({
  name: "comments",
  singular: "comment",
  about: "Comments by users on articles.",
  table: "public.comments",
  fields: {
    id: {},
    article_id: { write: "on create", isRequired: true },
    author_id: {},
    content: { write: "always", isRequired: true },
    created_at: {},
  },
  order: [
    { field: "created_at", direction: "desc" },
    { field: "id", direction: "desc" },
  ],
  sorts: ["id", "created_at"],
  filters: {
    article: { field: "article_id", operator: "is", about: "Comments on the article with this id." },
    author: { field: "author_id", operator: "is", about: "Comments by the user with this id." },
  },
  search: "internal.comment_matches",
  relations: {
    article: { resource: "articles", field: "article_id" },
    author: { resource: "users", field: "author_id" },
  },
});
