import { type Catalog, type Column, type Table, tableOf } from "../../db/catalog/catalog.ts";
import { nothingHere } from "../conventions/problem.ts";
import type {
  CollectionDescription,
  Description,
  FilterDescription,
  RelationDescription,
  SortTerm,
} from "./description.ts";
import { outOfOrder } from "./problem.ts";

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

/** Fields of a body that belong to the account: written, and never read. */
export const ACCOUNT_FIELDS: readonly string[] = ["password", "username"];

export type Filter = Omit<FilterDescription, "field"> & { readonly name: string; readonly field: ResourceField };

/**
 * `resource` is looked up when it is needed, since descriptions may refer to each other. It throws RestError when the other
 * one is not served; `target` is its name.
 */
export type Relation = {
  readonly name: string;
  readonly camelName: string;
  readonly field: ResourceField;
  readonly target: string;
  resource(): Resource;
};
export type Collection = Omit<CollectionDescription, "resource"> & { readonly name: string; resource(): Resource };

export type Resources = ReadonlyMap<string, Resource>;

/** Whether there is anything that clients may write. */
export const isWritable = ({ fields }: Resource): boolean => fields.some(({ write }) => write !== "never");

/** The resources whose tables are there, and why others are not served although theirs are, by their names. */
export type Served = { readonly resources: Resources; readonly misfits: ReadonlyMap<string, string> };

/** A description that does not fit the database. */
class Misfit extends Error {}

/** Kinds of keys: text of them needs no escaping, neither in addresses nor in JSON. */
const KEY_TYPES = new Set(["int2", "int4", "int8", "uuid"]);

const TEXT_TYPES = new Set(["text", "varchar", "bpchar"]);

/** Descriptions, looked up in the catalog. */
export function resourcesOf(descriptions: readonly Description[], catalog: Catalog): Served {
  const resources = new Map<string, Resource>();
  const misfits = new Map<string, string>();
  const named = (name: string): Resource => {
    const resource = resources.get(name);
    if (resource) return resource;
    throw misfits.has(name) ? outOfOrder(name) : nothingHere();
  };
  for (const description of descriptions) {
    const table = tableOf(catalog, tableName(description.table));
    if (!table) continue;
    try {
      refuseUnknownReferences(description, descriptions, catalog);
      resources.set(description.name, resourceOf(description, table, named));
    } catch (error) {
      if (!(error instanceof Misfit)) throw error;
      misfits.set(description.name, error.message);
    }
  }
  return { resources, misfits };
}

/** What stands in the query string of every list, whatever resource it is of. */
const LIST_PARAMETERS = "fields sort order keyword skip limit page size version api_key".split(" ");

/** What a description says of other resources and tables. */
function refuseUnknownReferences(
  { name, relations, collections, filters, cascade }: Description,
  descriptions: readonly Description[],
  catalog: Catalog,
): void {
  for (const { resource } of [...Object.values(relations), ...Object.values(collections)]) {
    if (!descriptions.some((other) => other.name === resource))
      throw new Misfit(`the description of ${name} refers to ${resource}, which there is not`);
  }
  for (const { resource, field } of Object.values(collections)) {
    const other = descriptions.find((each) => each.name === resource)!;
    if (!Object.hasOwn(other.fields, field))
      throw new Misfit(`the description of ${name} names the field ${field} of ${resource}, which that has not`);
  }
  for (const filter of Object.keys(filters)) {
    if (LIST_PARAMETERS.includes(filter))
      throw new Misfit(`the description of ${name} has a filter ${filter}, which is a parameter of every list`);
  }
  for (const { table, column } of cascade) {
    const other = tableOf(catalog, tableName(table));
    if (other && !other.columns.has(column))
      throw new Misfit(`the description of ${name} has the column ${column}, which ${table} has not`);
  }
}

function resourceOf(description: Description, table: Table, named: (name: string) => Resource): Resource {
  const fields = Object.entries(description.fields).map(([name, { column = name, ...field }]): ResourceField => {
    const found = table.columns.get(column);
    if (!found) {
      throw new Misfit(
        `the description of ${description.name} has the column ${column}, which ${description.table} has not`,
      );
    }
    const { write = "never", isRequired = false } = field;
    return { name, camelName: camelCase(name), column: found, write, isRequired };
  });
  const field = (name: string): ResourceField => {
    const found = fields.find((each) => each.name === name);
    if (!found) throw new Misfit(`the description of ${description.name} names the field ${name}, which it has not`);
    return found;
  };
  const key = fields[0]!;
  if (key.column.shape.isArray || !KEY_TYPES.has(key.column.shape.name))
    throw new Misfit(`the key of ${description.name} is neither a whole number nor a UUID`);
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
        if ((filter.operator === "has") !== found.field.column.shape.isArray)
          throw new Misfit(`the filter ${name} of ${description.name} must be "has" for a list, and for nothing else`);
        if (filter.operator === "alike" && !TEXT_TYPES.has(found.field.column.shape.name))
          throw new Misfit(`the filter ${name} of ${description.name} is "alike", which is for texts`);
        return [
          [name, found],
          [camelCase(name), found],
        ] as const;
      }),
    ),
    relations: new Map(
      Object.entries(description.relations).map(([name, relation]: [string, RelationDescription]) => [
        name,
        {
          name,
          camelName: camelCase(name),
          field: field(relation.field),
          target: relation.resource,
          resource: () => named(relation.resource),
        },
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
export const camelCase = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
