import type { Catalog, Schema } from "../../../db/catalog/catalog.ts";
import { functionType } from "./function.ts";
import { layOut } from "./layout.ts";
import { catalogFor, type ShownCatalog, wholeCatalog } from "./role-catalog.ts";
import { tableType } from "./table.ts";
import {
  byName,
  inOrder,
  isView,
  key,
  literal,
  type Member,
  nullableType,
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
  const texts = cache.get(catalog) ?? new Map();
  cache.set(catalog, texts);
  const cached = texts.get(role);
  if (cached !== undefined) return cached;
  const shown = role === null ? wholeCatalog(catalog) : catalogFor(catalog, role);
  const parts = [JSON_TYPE, databaseType(shown), helpers(defaultSchema(shown.catalog)), constants(shown.catalog)];
  const text = parts.join("\n");
  texts.set(role, text);
  return text;
}

/** Without a cache, each request would block the event loop for some tenths of a second in a database with 1000 tables. */
const cache = new WeakMap<Catalog, Map<string | null, string>>();

/** The default schema of the client if it is served, otherwise that of the service. */
const defaultSchema = ({ schemas }: Catalog): string =>
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
const INTERNAL: Member = {
  name: "__InternalSupabase",
  type: openObject([{ name: "PostgrestVersion", type: literal("14") }]),
};

function databaseType(shown: ShownCatalog): string {
  const schemas = byName(shown.catalog.schemas.values()).map((schema) => ({
    name: schema.name,
    type: schemaType(schema, shown),
  }));
  return `export type Database = ${layOut(openObject([INTERNAL, ...schemas]), 0, 0)}\n`;
}

function schemaType(schema: Schema, { catalog, accessOf }: ShownCatalog): Type {
  const tables = byName(schema.tables.values());
  const membersOf = (group: typeof tables) =>
    group.map((table) => ({ name: table.name, type: tableType(table, accessOf(table), catalog) }));
  return openObject([
    { name: "Tables", type: openObject(membersOf(tables.filter((table) => !isView(table)))) },
    { name: "Views", type: openObject(membersOf(tables.filter(isView))) },
    { name: "Functions", type: openObject(functionMembers(schema, catalog)) },
    { name: "Enums", type: openObject(enumMembers(schema)) },
    { name: "CompositeTypes", type: openObject(compositeMembers(schema, catalog)) },
  ]);
}

const sorted = <Value>(map: ReadonlyMap<string, Value>) => inOrder(map, ([name]) => name);

const functionMembers = ({ functions }: Schema, catalog: Catalog): Member[] =>
  sorted(functions).flatMap(([name, overloads]) => {
    const type = functionType(overloads, catalog);
    return type === null ? [] : [{ name, type }];
  });

const enumMembers = ({ enums }: Schema): Member[] =>
  sorted(enums).map(([name, labels]) => ({ name, type: union(labels.map(literal)) }));

const compositeMembers = ({ composites }: Schema, catalog: Catalog): Member[] =>
  sorted(composites).map(([name, attributes]) => ({
    name,
    type: openObject(
      byName(attributes.values()).map(({ name, shape }) => ({ name, type: nullableType(shape, catalog) })),
    ),
  }));

/** The enum labels as values: `Constants.public.Enums.mood` is `["happy", "sad"]`. */
function constants({ schemas }: Catalog): string {
  const parts = byName(schemas.values()).map(
    (schema) => `  ${key(schema.name)}: {\n    Enums: ${enumConstants(schema)},\n  },\n`,
  );
  return `export const Constants = {\n${parts.join("")}} as const\n`;
}

function enumConstants({ enums }: Schema): string {
  const parts = sorted(enums).map(([name, labels]) => {
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
