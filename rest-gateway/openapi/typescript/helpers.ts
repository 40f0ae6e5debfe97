import { literal } from "./type.ts";

/**
 * Shorthands for parts of Database: `Tables<"articles">` is the Row of a table or view of the default schema,
 * `Tables<{ schema: "sales" }, "orders">` that of another schema; TablesInsert, TablesUpdate, Enums and CompositeTypes too.
 */
export const helpers = (defaultSchema: string): string => `\
type Schemas = Omit<Database, "__InternalSupabase">

type DefaultSchema = Schemas[Extract<keyof Schemas, ${literal(defaultSchema)}>]

type InSchema = { schema: keyof Schemas }

type SchemaOf<Choice> = Choice extends { schema: infer Name extends keyof Schemas }
  ? Schemas[Name]
  : DefaultSchema

type Part<Whole, Name> = Name extends keyof Whole ? Whole[Name] : never

type Relations<Schema> = Part<Schema, "Tables"> & Part<Schema, "Views">

export type Tables<
  Choice extends keyof Relations<DefaultSchema> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Relations<SchemaOf<Choice>>
    : never = never,
> = Part<
  Part<Relations<SchemaOf<Choice>>, Choice extends InSchema ? Name : Choice>,
  "Row"
>
${["Insert", "Update"].map(written).join("")}${["Enums", "CompositeTypes"].map(named).join("")}`;

function written(kind: string): string {
  return `
export type Tables${kind}<
  Choice extends keyof Part<DefaultSchema, "Tables"> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Part<SchemaOf<Choice>, "Tables">
    : never = never,
> = Part<
  Part<
    Part<SchemaOf<Choice>, "Tables">,
    Choice extends InSchema ? Name : Choice
  >,
  "${kind}"
>
`;
}

function named(kind: string): string {
  return `
export type ${kind}<
  Choice extends keyof Part<DefaultSchema, "${kind}"> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Part<SchemaOf<Choice>, "${kind}">
    : never = never,
> = Part<
  Part<SchemaOf<Choice>, "${kind}">,
  Choice extends InSchema ? Name : Choice
>
`;
}
