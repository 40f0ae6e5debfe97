import type { Catalog } from "../../../db/catalog/catalog.ts";
import { type VisibleCatalog, type VisibleSchema, type VisibleTable, visibleCatalog } from "../visible-catalog.ts";
import { functionType, isUsable } from "./function.ts";
import { layOut } from "./layout.ts";
import { tableType } from "./table.ts";
import {
  byName,
  inOrder,
  isView,
  key,
  literal,
  type Member,
  nullableType,
  openEntries,
  openObject,
  type Type,
  tuple,
  union,
} from "./type.ts";

/**
 * TypeScript types of all served schemas, with the structure and layout of `supabase gen types typescript`, for
 * `createClient<Database>(…)`. The output depends only on the catalog. The types are more precise than those of the Supabase
 * CLI: columns of views and results of functions include null, and some types are string instead of unknown. With a role they
 * have only what it may use.
 */
export function typesOf(catalog: Catalog, role: string | null = null): string {
  const visible = visibleCatalog(catalog, role);
  return [JSON_TYPE, databaseType(visible), helpers(defaultSchema(visible)), constants(visible)].join("\n");
}

/** The default schema of the client if it is served, otherwise that of the service. */
const defaultSchema = ({ schemas }: VisibleCatalog): string =>
  schemas.has("public") ? "public" : (schemas.keys().next().value ?? "public");

const JSON_TYPE = `\
export type Json =
  | string
  | number
  | boolean
  | null
  | { [key: string]: Json | undefined }
  | Json[]
`;

/** Enables features in createClient: from version 14 on, it supports spreading to-many rows and `maxAffected`. */
const INTERNAL: Member = ["__InternalSupabase", openObject([["PostgrestVersion", literal("14")]])];

function databaseType(catalog: VisibleCatalog): string {
  const schemas = byName(catalog.schemas.values()).map((each): Member => [each.name, schemaType(each, catalog)]);
  return `export type Database = ${layOut(openObject([INTERNAL, ...schemas]), 0, 0)}\n`;
}

function schemaType({ tables, functions, enums, composites }: VisibleSchema, catalog: VisibleCatalog): Type {
  const relations = (isWanted: (table: VisibleTable) => boolean) =>
    openEntries(
      [...tables].filter(([, table]) => isWanted(table)),
      (table) => tableType(table, catalog),
    );
  const usable = [...functions].map(([name, overloads]) => [name, overloads.filter(isUsable)] as const);
  return openObject([
    ["Tables", relations((table) => !isView(table))],
    ["Views", relations(isView)],
    [
      "Functions",
      openEntries(
        usable.filter(([, overloads]) => overloads.length > 0),
        (overloads) => functionType(overloads, catalog),
      ),
    ],
    ["Enums", openEntries(enums, (labels) => union(labels.map(literal)))],
    [
      "CompositeTypes",
      openEntries(composites, (attributes) => openEntries(attributes, ({ shape }) => nullableType(shape, catalog))),
    ],
  ]);
}

/** The enum labels as values: `Constants.public.Enums.mood` is `["happy", "sad"]`. */
function constants({ schemas }: VisibleCatalog): string {
  const parts = byName(schemas.values()).map(
    (schema) => `  ${key(schema.name)}: {\n    Enums: ${enumConstants(schema)},\n  },\n`,
  );
  return `export const Constants = {\n${parts.join("")}} as const\n`;
}

function enumConstants({ enums }: VisibleSchema): string {
  const parts = inOrder(enums, ([name]) => name).map(([name, labels]) => {
    const start = `      ${key(name)}: `;
    return `${start}${layOut(tuple(labels.map(literal)), 6, start.length)},\n`;
  });
  return parts.length === 0 ? "{}" : `{\n${parts.join("")}    }`;
}

/**
 * Shorthands for parts of Database: `Tables<"posts">` is the Row of a table or view of the default schema,
 * `Tables<{ schema: "sales" }, "orders">` that of another schema; TablesInsert, TablesUpdate, Enums and CompositeTypes too.
 */
const helpers = (defaultSchema: string): string => `\
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
${["Insert", "Update"].map((part) => shorthand(`Tables${part}`, "Tables", part)).join("")}\
${["Enums", "CompositeTypes"].map((group) => shorthand(group, group, null)).join("")}`;

/** `TablesInsert<"posts">` is the part Insert of posts in the group Tables; without a part, the whole type of the group. */
function shorthand(name: string, group: string, part: string | null): string {
  const whole = `Part<
  Part<SchemaOf<Choice>, "${group}">,
  Choice extends InSchema ? Name : Choice
>`;
  const type = part === null ? whole : `Part<\n  ${whole.replaceAll("\n", "\n  ")},\n  "${part}"\n>`;
  return `
export type ${name}<
  Choice extends keyof Part<DefaultSchema, "${group}"> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Part<SchemaOf<Choice>, "${group}">
    : never = never,
> = ${type}
`;
}
