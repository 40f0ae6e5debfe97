import type { Description } from "./index.ts";

export const COMMENTS: Description = {
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
  modified: [],
  missing: "RESOURCE_NOT_FOUND",
  list: "envelope",
  pageSize: 20,
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
  collections: {},
  actions: {},
  cascade: [],
  editor: null,
  hasAccount: false,
};
