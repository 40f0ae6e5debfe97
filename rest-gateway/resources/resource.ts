import { type Catalog, type Column, type Table, tableOf } from "../../db/catalog/catalog.ts";
import type {
  CollectionDescription,
  Description,
  FilterDescription,
  RelationDescription,
  SortTerm,
} from "./description.ts";

/** A description together with what the database says of its table. */
export type Resource = {
  readonly description: Description;
  readonly table: Table;
  readonly key: ResourceField;
  readonly fields: readonly ResourceField[];
  /** By each spelling of their names. */
  readonly fieldNamed: ReadonlyMap<string, ResourceField>;
  readonly modified: readonly ResourceField[];
  readonly order: readonly { readonly field: ResourceField; readonly direction: SortTerm["direction"] }[];
  readonly sorts: ReadonlySet<ResourceField>;
  /** By each spelling. */
  readonly filterNamed: ReadonlyMap<string, Filter>;
  readonly relations: ReadonlyMap<string, Relation>;
  readonly collections: ReadonlyMap<string, Collection>;
};

export type ResourceField = {
  /** `created_at` */
  readonly name: string;
  /** `createdAt` */
  readonly camelName: string;
  readonly column: Column;
  readonly write: "never" | "on create" | "always";
  readonly isRequired: boolean;
};

export type Filter = Omit<FilterDescription, "field"> & { readonly name: string; readonly field: ResourceField };

/** `resource` is looked up when it is needed: descriptions may refer to each other. */
export type Relation = { readonly name: string; readonly field: ResourceField; resource(): Resource };
export type Collection = Omit<CollectionDescription, "resource"> & { readonly name: string; resource(): Resource };

export type Resources = ReadonlyMap<string, Resource>;

/** Kinds of keys: text of them needs no escaping, neither in addresses nor in JSON. */
const KEY_TYPES = new Set(["int2", "int4", "int8", "uuid"]);

/**
 * The resources whose tables are there. Throws an Error that names the place when a description does not fit its table:
 * a slip in it should be found at start.
 */
export function resourcesOf(descriptions: readonly Description[], catalog: Catalog): Resources {
  const resources = new Map<string, Resource>();
  const present = descriptions.filter(({ table }) => tableOf(catalog, tableName(table)) !== undefined);
  const named = (name: string, from: Description): Resource => {
    const resource = resources.get(name);
    if (!resource) throw new Error(`the description of ${from.name} refers to ${name}, which there is not`);
    return resource;
  };
  for (const description of present) {
    resources.set(
      description.name,
      resourceOf(description, catalog, (name) => named(name, description)),
    );
  }
  return resources;
}

function resourceOf(description: Description, catalog: Catalog, named: (name: string) => Resource): Resource {
  const table = tableOf(catalog, tableName(description.table))!;
  const fields = Object.entries(description.fields).map(([name, { column = name, ...field }]): ResourceField => {
    const found = table.columns.get(column);
    if (!found) {
      throw new Error(`the description of ${description.name} has the column ${column}, which ${table.name} has not`);
    }
    const { write = "never", isRequired = false } = field;
    return { name, camelName: camelCase(name), column: found, write, isRequired };
  });
  const field = (name: string): ResourceField => {
    const found = fields.find((each) => each.name === name);
    if (!found) throw new Error(`the description of ${description.name} names the field ${name}, which it has not`);
    return found;
  };
  const key = fields[0]!;
  if (!KEY_TYPES.has(key.column.shape.name))
    throw new Error(`the key of ${description.name} is neither a whole number nor a UUID`);
  return {
    description,
    table,
    key,
    fields,
    fieldNamed: new Map(
      fields.flatMap(
        (each) =>
          [
            [each.name, each],
            [each.camelName, each],
          ] as const,
      ),
    ),
    modified: description.modified.map(field),
    order: description.order.map((term) => ({ ...term, field: field(term.field) })),
    sorts: new Set(description.sorts.map(field)),
    filterNamed: new Map(
      Object.entries(description.filters).flatMap(([name, filter]) => {
        const found: Filter = { ...filter, name, field: field(filter.field) };
        return [
          [name, found],
          [camelCase(name), found],
        ] as const;
      }),
    ),
    relations: new Map(
      Object.entries(description.relations).map(([name, relation]: [string, RelationDescription]) => [
        name,
        { name, field: field(relation.field), resource: () => named(relation.resource) },
      ]),
    ),
    collections: new Map(
      Object.entries(description.collections).map(([name, collection]) => [
        name,
        { ...collection, name, resource: () => named(collection.resource) },
      ]),
    ),
  };
}

/** `public.articles` → `{ schema: "public", name: "articles" }` */
export function tableName(text: string): { readonly schema: string; readonly name: string } {
  const [schema = "", name = ""] = text.split(".");
  return { schema, name };
}

/** `created_at` → `createdAt` */
const camelCase = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
