import { z } from "zod";
import { NAMED } from "../../rest-gateway/auth/schemas.ts";
import type { JsonSchema } from "./document.ts";
import { defaultText, paragraphs } from "./schema-parts.ts";

/** The key of a body that was passed to `named`. */
export const keyOf = (schema: z.ZodType): string => NAMED.get(schema)!.id;

const OPTIONS = {
  io: "input",
  override: ({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }) => {
    mergeNull(jsonSchema);
    describeDefault(jsonSchema);
  },
} as const;

/** The OpenAPI schema of a body. */
export function schemaOf(body: z.ZodType): JsonSchema {
  const { $schema, ...schema } = z.toJSONSchema(body, OPTIONS);
  return schema as JsonSchema;
}

/** The OpenAPI schemas of all bodies that were passed to `named`, by key; those of a part, once it is loaded. */
export function namedSchemas(): Readonly<Record<string, JsonSchema>> {
  const { schemas } = z.toJSONSchema(NAMED, { ...OPTIONS, uri: (id) => `#/components/schemas/${id}` });
  return Object.fromEntries(
    Object.entries(schemas).map(([key, { $schema, $id, ...schema }]) => [key, schema as JsonSchema]),
  );
}

function describeDefault(schema: z.core.JSONSchema.BaseSchema): void {
  const description = paragraphs(schema.description ?? "", defaultText(schema.default));
  if (description) schema.description = description;
  delete schema.default;
}

/** Writes `type: ["string", "null"]` instead of anyOf. */
function mergeNull(schema: z.core.JSONSchema.BaseSchema): void {
  const [value, nothing] = schema.anyOf ?? [];
  if (typeof value !== "object" || typeof nothing !== "object") return;
  if (value.type === undefined || nothing.type !== "null") return;
  const { anyOf, ...rest } = schema;
  for (const name of Object.keys(schema)) delete schema[name];
  Object.assign(schema, { ...value, ...rest, type: [value.type, "null"] });
}
