import { defineResource } from "content-service";

export const users = defineResource({
  name: "users",
  singular: "user",
  about: "The authors of articles and comments.",
  table: "public.users",
  fields: {
    id: {},
    name: { write: "always", isRequired: true },
    email: { write: "always", isRequired: true },
    age: { write: "always" },
    created_at: {},
    updated_at: {},
  },
  modified: ["updated_at"],
  missing: "USER_NOT_FOUND",
  list: "array",
  pageSize: 10,
  order: [{ field: "id", direction: "asc" }],
  sorts: ["id", "name", "email", "age", "created_at", "updated_at"],
  filters: {
    name: { field: "name", operator: "is", about: "Users of exactly this name." },
    email: { field: "email", operator: "alike", about: "The user with this e-mail, ignoring case." },
    age: { field: "age", operator: "is", about: "Users of this age." },
  },
  search: "internal.user_matches",
  collections: { articles: { resource: "articles", field: "author_id", isCreatable: false } },
  cascade: [
    { table: "public.comments", column: "author_id" },
    { table: "public.articles", column: "author_id" },
  ],
  hasAccount: true,
});
