import type { Catalog, Schema, Table } from "../../../db/catalog/catalog.ts";
import { functionType } from "./function.ts";
import { helpers } from "./helpers.ts";
import { layOut } from "./layout.ts";
import { tableType } from "./table.ts";
import { byName, inOrder, key, literal, type Member, openObject, type Type, tuple, union } from "./type.ts";
import { isView, nullableType } from "./value.ts";

/**
 * TypeScript types of all served schemas, in the shape and layout that `supabase gen types typescript` has, for
 * `createClient<Database>(…)`. The same catalog gives the same text. Where the database knows more, so do the types: null
 * in columns of views and in results of functions, text of types that the CLI calls unknown. Tables that are granted to the
 * service alone are for its readers.
 */
export function typesOf(catalog: Catalog, reader: Reader = "service"): string {
  const known = written[reader].get(catalog);
  if (known !== undefined) return known;
  const parts = [JSON_TYPE, databaseType(catalog, reader), helpers(defaultSchema(catalog)), constants(catalog)];
  const text = parts.join("\n");
  written[reader].set(catalog, text);
  return text;
}

export type Reader = "service" | "others";

/** A thousand tables take some tenths of a second, in which nobody else would be served. */
const written: Readonly<Record<Reader, WeakMap<Catalog, string>>> = { service: new WeakMap(), others: new WeakMap() };

/** The one that the client takes when it is told none, otherwise the service's own. */
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

/** Tells createClient what the service can do: of 14 on, to-many rows are spread and changes have a maxAffected. */
const INTERNAL: Member = {
  name: "__InternalSupabase",
  type: openObject([{ name: "PostgrestVersion", type: literal("14") }]),
};

function databaseType(catalog: Catalog, reader: Reader): string {
  const schemas = byName(catalog.schemas.values()).map((schema) => ({
    name: schema.name,
    type: schemaType(schema, catalog, reader),
  }));
  return `export type Database = ${layOut(openObject([INTERNAL, ...schemas]), 0, 0)}\n`;
}

function schemaType(schema: Schema, catalog: Catalog, reader: Reader): Type {
  const tables = byName(schema.tables.values()).filter((table) => reader === "service" || !isOfService(table));
  const membersOf = (some: typeof tables) =>
    some.map((table) => ({ name: table.name, type: tableType(table, catalog) }));
  return openObject([
    { name: "Tables", type: openObject(membersOf(tables.filter((table) => !isView(table)))) },
    { name: "Views", type: openObject(membersOf(tables.filter(isView))) },
    { name: "Functions", type: openObject(functionMembers(schema, catalog)) },
    { name: "Enums", type: openObject(enumMembers(schema)) },
    { name: "CompositeTypes", type: openObject(compositeMembers(schema, catalog)) },
  ]);
}

/** The owner of authentication is no caller. */
const isOfService = ({ grants, owner }: Table) =>
  grants.has("service_role") &&
  [...grants.keys()].every((role) => ["service_role", "auth_owner", owner].includes(role));

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

/** The labels of the enums as values: `Constants.public.Enums.mood` is `["happy", "sad"]`. */
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
