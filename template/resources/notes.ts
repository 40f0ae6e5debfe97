import { defineResource } from "content-service";

/** `GET /notes`, `POST /notes`, `PATCH /notes/1`, … for users who have signed in. */
export const notes = defineResource({
  name: "notes",
  singular: "note",
  about: "Short texts.",
  table: "public.notes",
  fields: { id: {}, author_id: {}, text: { write: "always", isRequired: true }, created_at: {} },
  order: [{ field: "id", direction: "desc" }],
});
