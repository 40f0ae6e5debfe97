import { defineResource } from "content-service";

export const articles = defineResource({
  name: "articles",
  singular: "article",
  about: "Texts by users.",
  table: "public.articles",
  fields: {
    id: {},
    author_id: {},
    title: { write: "always", isRequired: true },
    content: { write: "always", isRequired: true },
    status: { write: "always" },
    tags: { write: "always" },
    created_at: {},
    updated_at: {},
  },
  modified: ["updated_at", "created_at"],
  order: [
    { field: "created_at", direction: "desc" },
    { field: "id", direction: "desc" },
  ],
  sorts: ["id", "title", "status", "created_at", "updated_at"],
  filters: {
    status: { field: "status", operator: "is", about: "Articles with this status." },
    author: { field: "author_id", operator: "is", about: "Articles by the user with this id." },
    tag: { field: "tags", operator: "has", about: "Articles with this tag." },
    created_after: { field: "created_at", operator: "from", about: "Articles written at this time or later." },
    created_before: { field: "created_at", operator: "before", about: "Articles written before this time." },
  },
  search: "internal.article_matches",
  relations: { author: { resource: "users", field: "author_id" } },
  collections: { comments: { resource: "comments", field: "article_id", isCreatable: true } },
  actions: { publish: { function: "public.publish_article", about: "Sets the status to PUBLISHED." } },
});
