import { z } from "zod";

/** The bodies of authentication by their key in the OpenAPI document, as zod describes them. */
export const NAMED = z.registry<{ readonly id: string }>();

/**
 * An object that is put into the OpenAPI document: `named("Login", { username: z.string(), … })`. `others` says what becomes of fields that
 * are not in its shape.
 */
export function named<Shape extends z.ZodRawShape>(
  id: string,
  shape: Shape,
  { others = "ignored", error }: { readonly others?: keyof typeof OBJECTS; readonly error?: string } = {},
): z.ZodObject<Shape> {
  const schema = OBJECTS[others](shape, error) as z.ZodObject<Shape>;
  NAMED.add(schema, { id });
  return schema;
}

const OBJECTS = { ignored: z.object, refused: z.strictObject, kept: z.looseObject };
