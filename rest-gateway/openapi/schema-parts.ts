import type { JsonSchema } from "./document.ts";

/** An object that has all of these. */
export const objectOf = (properties: Readonly<Record<string, JsonSchema>>, description?: string): JsonSchema => ({
  type: "object",
  ...(description && { description }),
  properties,
  required: Object.keys(properties),
});

export const arrayOf = (items: JsonSchema): JsonSchema => ({ type: "array", items });
