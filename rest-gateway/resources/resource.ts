import { camelCase } from "../../config/setting-types.ts";
import { type Catalog, type Column, type Table, tableOf } from "../../db/catalog/catalog.ts";
import { problem } from "../../problems/problem.ts";
import type {
  CollectionDescription,
  Description,
  FieldDescription,
  FilterDescription,
  SortTerm,
} from "./description.ts";

/** A description whose table and columns were found in the catalog. */
export type Resource = {
  /** The same as in the description. */
  readonly name: string;
  readonly description: Description;
  readonly table: Table;
  readonly key: ResourceField;
  readonly fields: readonly ResourceField[];
  /** By name, in either spelling. */
  readonly fieldNamed: ReadonlyMap<string, ResourceField>;
  readonly modified: readonly ResourceField[];
  readonly order: readonly { readonly field: ResourceField; readonly direction: SortTerm["direction"] }[];
  readonly sorts: ReadonlySet<ResourceField>;
  /** By name, in either spelling. */
  readonly filterNamed: ReadonlyMap<string, Filter>;
  readonly relations: readonly Relation[];
  /** By name, in either spelling. */
  readonly relationNamed: ReadonlyMap<string, Relation>;
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

/** Fields of a body that belong to the account. They are never returned. */
export const ACCOUNT_FIELDS: readonly string[] = ["password", "username"];

export type Filter = Omit<FilterDescription, "field"> & { readonly name: string; readonly field: ResourceField };

/**
 * `resource()` is looked up when it is needed, because descriptions may refer to each other. It throws Problem if the other
 * resource is not served. `target` is its name.
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

/** Whether clients may write any field. */
export const isWritable = ({ fields }: Resource): boolean => fields.some(({ write }) => write !== "never");

/** Both by name. `invalid` has the reason why a description does not match its table. */
export type Served = { readonly resources: Resources; readonly invalid: ReadonlyMap<string, string> };

export const outOfOrder = (name: string) => problem("resource out of order", { name });

/** A description that does not match the database. */
class InvalidDescription extends Error {}

/** Types of keys. Their text needs no escaping, neither in URLs nor in JSON. */
const KEY_TYPES = new Set(["int2", "int4", "int8", "uuid"]);

const TEXT_TYPES = new Set(["text", "varchar", "bpchar"]);

/** Looks descriptions up in the catalog. `expected` are the names of those whose tables should exist. */
export function resourcesOf(
  descriptions: readonly Description[],
  catalog: Catalog,
  expected: ReadonlySet<string>,
): Served {
  const resources = new Map<string, Resource>();
  const invalid = new Map<string, string>();
  const named = (name: string): Resource => {
    const resource = resources.get(name);
    if (resource) return resource;
    throw invalid.has(name) ? outOfOrder(name) : problem("no such path");
  };
  for (const description of descriptions) {
    const table = tableOf(catalog, tableName(description.table));
    if (!table && !expected.has(description.name)) continue;
    try {
      if (!table) fail(description.name, `has the table ${description.table}, which does not exist`);
      refuseUnknownReferences(description, descriptions, catalog);
      resources.set(description.name, resourceOf(description, table, named));
    } catch (error) {
      if (!(error instanceof InvalidDescription)) throw error;
      invalid.set(description.name, error.message);
    }
  }
  return { resources, invalid };
}

/** Parameters of every list. */
const LIST_PARAMETERS = "fields sort order keyword skip limit page size version api_key apikey".split(" ");

function refuseUnknownReferences(
  { name, relations, collections, filters, cascade }: Description,
  descriptions: readonly Description[],
  catalog: Catalog,
): void {
  const described = new Map(descriptions.map((each) => [each.name, each]));
  for (const { resource } of [...Object.values(relations), ...Object.values(collections)]) {
    if (!described.has(resource)) fail(name, `refers to the resource ${resource}, which does not exist`);
  }
  for (const { resource, field } of Object.values(collections)) {
    if (!Object.hasOwn(described.get(resource)!.fields, field))
      fail(name, `names the field ${field} of ${resource}, which does not exist`);
  }
  for (const filter of Object.keys(filters)) {
    if (LIST_PARAMETERS.includes(filter)) fail(name, `has the filter ${filter}, but that is a parameter of every list`);
  }
  for (const { table, column } of cascade) {
    const other = tableOf(catalog, tableName(table));
    if (other && !other.columns.has(column)) fail(name, `has the column ${column}, which ${table} does not have`);
  }
}

function fail(name: string, reason: string): never {
  throw new InvalidDescription(`the description of ${name} ${reason}`);
}

function resourceOf(description: Description, table: Table, named: (name: string) => Resource): Resource {
  const { name, modified, order, sorts, filters, collections } = description;
  const fields = Object.entries(description.fields).map(([each, field]) => fieldOf(each, field, description, table));
  const field = (text: string): ResourceField =>
    fields.find((each) => each.name === text) ?? fail(name, `names the field ${text}, which it does not define`);
  const relations = Object.entries(description.relations).map(([each, { resource: target, field: own }]) => ({
    ...{ name: each, camelName: camelCase(each), field: field(own), target },
    resource: () => named(target),
  }));
  const key = fields[0]!;
  if (key.column.shape.isArray || !KEY_TYPES.has(key.column.shape.name))
    throw new InvalidDescription(`the key of ${name} must be an integer or a UUID`);
  return {
    name,
    description,
    table,
    key,
    fields,
    fieldNamed: inBothSpellings(fields),
    modified: modified.map(field),
    order: order.map((term) => ({ ...term, field: field(term.field) })),
    sorts: new Set(sorts.map(field)),
    filterNamed: inBothSpellings(
      Object.entries(filters).map(([each, filter]) =>
        filterOf(name, { ...filter, name: each, field: field(filter.field) }),
      ),
    ),
    relations,
    relationNamed: inBothSpellings(relations),
    collections: new Map(
      Object.entries(collections).map(([each, collection]) => [
        each,
        { ...collection, name: each, resource: () => named(collection.resource) },
      ]),
    ),
  };
}

function fieldOf(name: string, field: FieldDescription, description: Description, table: Table): ResourceField {
  const { column = name, write = "never", isRequired = false } = field;
  const found =
    table.columns.get(column) ??
    fail(description.name, `has the column ${column}, which ${description.table} does not have`);
  return { name, camelName: camelCase(name), column: found, write, isRequired };
}

function filterOf(resource: string, filter: Filter): Filter {
  const { name, operator } = filter;
  const { shape } = filter.field.column;
  if ((operator === "has") !== shape.isArray)
    throw new InvalidDescription(
      `the operator of the filter ${name} of ${resource} must be "has" if, and only if, its column is an array`,
    );
  if (operator === "alike" && !TEXT_TYPES.has(shape.name))
    throw new InvalidDescription(`the filter ${name} of ${resource} is "alike", but its column is not text`);
  return filter;
}

/** In snake_case and in camelCase. */
const inBothSpellings = <Named extends { readonly name: string }>(all: readonly Named[]): ReadonlyMap<string, Named> =>
  new Map(all.flatMap((each) => [[each.name, each] as const, [camelCase(each.name), each] as const]));

/** `public.posts` → `{ schema: "public", name: "posts" }` */
export function tableName(text: string): { readonly schema: string; readonly name: string } {
  const [schema = "", name = ""] = text.split(".");
  return { schema, name };
}
