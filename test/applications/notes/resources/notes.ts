import { defineResource } from "content-service";

export const notes = defineResource({
  name: "notes",
  singular: "note",
  about: "Short texts.",
  table: "public.notes",
  fields: { id: {}, author_id: {}, text: { write: "always", isRequired: true }, created_at: {} },
  order: [{ field: "id", direction: "desc" }],
});
