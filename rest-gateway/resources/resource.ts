import { type Catalog, type Column, type Table, tableOf } from "../../db/catalog/catalog.ts";
import { nothingHere } from "../conventions/problem.ts";
import type {
  CollectionDescription,
  Description,
  FilterDescription,
  RelationDescription,
  SortTerm,
} from "./descriptions/index.ts";
import { outOfOrder } from "./problem.ts";

/** A description with its table and columns from the catalog. */
export type Resource = {
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
 * `resource()` is looked up when it is needed, because descriptions may refer to each other. It throws RestError if the other
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

/** The resources that are served, and for others with a table why their description is invalid. Both by name. */
export type Served = { readonly resources: Resources; readonly invalid: ReadonlyMap<string, string> };

/** A description that does not match the database. */
class InvalidDescription extends Error {}

/** Types of keys. Their text needs no escaping, neither in URLs nor in JSON. */
const KEY_TYPES = new Set(["int2", "int4", "int8", "uuid"]);

const TEXT_TYPES = new Set(["text", "varchar", "bpchar"]);

/** Looks descriptions up in the catalog. */
export function resourcesOf(descriptions: readonly Description[], catalog: Catalog): Served {
  const resources = new Map<string, Resource>();
  const invalid = new Map<string, string>();
  const named = (name: string): Resource => {
    const resource = resources.get(name);
    if (resource) return resource;
    throw invalid.has(name) ? outOfOrder(name) : nothingHere();
  };
  for (const description of descriptions) {
    const table = tableOf(catalog, tableName(description.table));
    if (!table) continue;
    try {
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
const LIST_PARAMETERS = "fields sort order keyword skip limit page size version api_key".split(" ");

/** Refuses a description with unknown resources, tables or columns. */
function refuseUnknownReferences(
  { name, relations, collections, filters, cascade }: Description,
  descriptions: readonly Description[],
  catalog: Catalog,
): void {
  for (const { resource } of [...Object.values(relations), ...Object.values(collections)]) {
    if (!descriptions.some((other) => other.name === resource))
      throw new InvalidDescription(
        `the description of ${name} refers to the resource ${resource}, which does not exist`,
      );
  }
  for (const { resource, field } of Object.values(collections)) {
    const other = descriptions.find((each) => each.name === resource)!;
    if (!Object.hasOwn(other.fields, field))
      throw new InvalidDescription(
        `the description of ${name} names the field ${field} of ${resource}, which does not exist`,
      );
  }
  for (const filter of Object.keys(filters)) {
    if (LIST_PARAMETERS.includes(filter))
      throw new InvalidDescription(
        `the description of ${name} has the filter ${filter}, but that is a parameter of every list`,
      );
  }
  for (const { table, column } of cascade) {
    const other = tableOf(catalog, tableName(table));
    if (other && !other.columns.has(column))
      throw new InvalidDescription(`the description of ${name} has the column ${column}, which ${table} does not have`);
  }
}

function resourceOf(description: Description, table: Table, named: (name: string) => Resource): Resource {
  const fields = Object.entries(description.fields).map(([name, { column = name, ...field }]): ResourceField => {
    const found = table.columns.get(column);
    if (!found) {
      throw new InvalidDescription(
        `the description of ${description.name} has the column ${column}, which ${description.table} does not have`,
      );
    }
    const { write = "never", isRequired = false } = field;
    return { name, camelName: camelCase(name), column: found, write, isRequired };
  });
  const field = (name: string): ResourceField => {
    const found = fields.find((each) => each.name === name);
    if (!found)
      throw new InvalidDescription(
        `the description of ${description.name} names the field ${name}, which it does not define`,
      );
    return found;
  };
  const key = fields[0]!;
  if (key.column.shape.isArray || !KEY_TYPES.has(key.column.shape.name))
    throw new InvalidDescription(`the key of ${description.name} must be an integer or a UUID`);
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
          throw new InvalidDescription(
            `the operator of the filter ${name} of ${description.name} must be "has" if, and only if, its column is an array`,
          );
        if (filter.operator === "alike" && !TEXT_TYPES.has(found.field.column.shape.name))
          throw new InvalidDescription(
            `the filter ${name} of ${description.name} is "alike", but its column is not text`,
          );
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
