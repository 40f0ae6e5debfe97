import type { Relationship } from "../../../db/catalog/catalog.ts";
import { QUERY_TYPE } from "../../table/request.ts";
import type { JsonSchema, Operation, PathItem, Response } from "../document.ts";
import { plainText, refer } from "../schema-parts.ts";
import { filterReferences, keyParameter, profileParameters, RESERVED, shared } from "./parameters.ts";
import { errors, headers, rowsContent } from "./responses.ts";
import { INSERT, type NamedSchema, type TableAccess, UPDATE, type VisibleSchema } from "./visible-schema.ts";

/** `/posts`, with the methods that the role may use. */
export function tablePath(visible: NamedSchema, access: TableAccess): [string, PathItem] {
  const item = {
    ...(access.isReadable && { get: readOperation(visible, access), "x-query": queryOperation(visible, access) }),
    ...(access.isInsertable && { post: insertOperation(visible, access) }),
    ...(isReplaceable(access) && { put: replaceOperation(visible, access) }),
    ...(access.isUpdatable && { patch: updateOperation(visible, access) }),
    ...(access.isDeletable && { delete: deleteOperation(visible, access) }),
  };
  return [`/${encodeURIComponent(access.table.name)}`, item];
}

type Parts = Pick<Operation, "parameters" | "responses"> & Partial<Operation>;

function operation(visible: NamedSchema, access: TableAccess, verb: string, phrase: string, parts: Parts): Operation {
  const { table } = access;
  const description = describeTable(visible, access);
  return {
    operationId: `${verb}_${visible.tableKey(table)}`,
    tags: [table.name],
    summary: `${phrase} ${table.name}`,
    ...(description && { description }),
    ...parts,
  };
}

function readOperation(visible: NamedSchema, access: TableAccess): Operation {
  return operation(visible, access, "read", "Read", {
    parameters: [
      ...filterReferences(visible, access),
      ...shared("select", "order", "limit", "offset", "and", "or", "range", "rangeUnit", "preferRead"),
      ...profileParameters(visible, "Accept-Profile"),
    ],
    responses: { ...found(visible, access), ...errors(400, 401, 403, 404, 406, 416) },
  });
}

/** A read whose query string is in the body, because it is too long for a URL. */
const queryOperation = (visible: NamedSchema, access: TableAccess): Operation =>
  operation(visible, access, "find", "With a query string in the body, read", {
    parameters: [...shared("range", "rangeUnit", "preferRead"), ...profileParameters(visible, "Accept-Profile")],
    requestBody: { required: true, content: { [QUERY_TYPE]: { schema: QUERY_SCHEMA } } },
    responses: { ...found(visible, access), ...errors(400, 401, 403, 404, 406, 413, 415, 416) },
  });

const QUERY_SCHEMA: JsonSchema = {
  type: "object",
  description: "The query parameters of GET.",
  additionalProperties: { type: "string" },
};

function found(visible: NamedSchema, access: TableAccess): Operation["responses"] {
  const rows = {
    ...headers("contentRange", "preferenceApplied", "changePosition"),
    content: returned(visible, access),
  };
  return {
    200: { description: "Returns the rows.", ...rows },
    206: { description: "Returns some of the rows; `Content-Range` has their total number.", ...rows },
  };
}

function insertOperation(visible: NamedSchema, access: TableAccess): Operation {
  const row = refer("schemas", visible.tableKey(access.table) + INSERT);
  return operation(visible, access, "insert", "Insert into", {
    parameters: [
      ...shared("select", "columns", "onConflict", "preferInsert"),
      ...profileParameters(visible, "Content-Profile"),
    ],
    requestBody: {
      required: true,
      content: {
        "application/json": { schema: { anyOf: [row, { type: "array", items: row }] } },
        "application/x-www-form-urlencoded": { schema: row },
        "text/csv": { schema: { type: "string" } },
      },
    },
    responses: {
      200: written(visible, access, "All rows already existed. Returns them with `Prefer: return=representation`."),
      201: {
        ...written(visible, access, "Inserted. Returns the rows with `Prefer: return=representation`."),
        ...headers("location", "preferenceApplied"),
      },
      ...errors(400, 401, 403, 404, 406, 409),
    },
  });
}

function replaceOperation(visible: NamedSchema, access: TableAccess): Operation {
  const row = refer("schemas", visible.tableKey(access.table) + INSERT);
  return operation(visible, access, "replace", "Replace one of", {
    parameters: [
      ...access.table.primaryKey.map(keyParameter),
      ...shared("select", "columns", "preferReplace"),
      ...profileParameters(visible, "Content-Profile"),
    ],
    requestBody: { required: true, content: { "application/json": { schema: row } } },
    responses: {
      200: written(visible, access, "Replaced. Returns the row."),
      201: written(visible, access, "Inserted, because the row did not exist. Returns the row."),
      204: { description: "Replaced or inserted." },
      ...errors(400, 401, 403, 404, 405, 409),
    },
  });
}

function updateOperation(visible: NamedSchema, access: TableAccess): Operation {
  const row = refer("schemas", visible.tableKey(access.table) + UPDATE);
  return operation(visible, access, "update", "Update", {
    parameters: [
      ...filterReferences(visible, access),
      ...shared("and", "or", "select", "columns", "preferUpdate"),
      ...profileParameters(visible, "Content-Profile"),
    ],
    requestBody: { required: true, content: { "application/json": { schema: row } } },
    responses: {
      200: written(visible, access, "Updated. Returns the rows with `Prefer: return=representation`."),
      204: { description: "Updated.", ...headers("contentRange", "preferenceApplied") },
      ...errors(400, 401, 403, 404, 406, 409),
    },
  });
}

const deleteOperation = (visible: NamedSchema, access: TableAccess): Operation =>
  operation(visible, access, "delete", "Delete from", {
    parameters: [
      ...filterReferences(visible, access),
      ...shared("and", "or", "select", "preferDelete"),
      ...profileParameters(visible, "Content-Profile"),
    ],
    responses: {
      200: written(visible, access, "Deleted. Returns the rows with `Prefer: return=representation`."),
      204: { description: "Deleted.", ...headers("contentRange", "preferenceApplied") },
      ...errors(400, 401, 403, 404, 406, 409),
    },
  });

/** PUT identifies a row by its whole primary key, in the URL and in the body. */
function isReplaceable({ table, isUpdatable, insertable }: TableAccess): boolean {
  const writable = new Set(insertable.map(({ name }) => name));
  const { primaryKey } = table;
  return isUpdatable && primaryKey.length > 0 && primaryKey.every((name) => writable.has(name) && !RESERVED.has(name));
}

const returned = (visible: NamedSchema, { table }: TableAccess) =>
  rowsContent(refer("schemas", visible.tableKey(table)));

/** The response to a write. Callers who may not read the rows do not receive them. */
const written = (visible: NamedSchema, access: TableAccess, description: string): Response => ({
  description,
  ...headers("preferenceApplied"),
  ...(access.isReadable && { content: returned(visible, access) }),
});

/** The comment of a table, and the names that `select` can add to its columns: `Related rows: \`comments\`, \`users\`.` */
function describeTable(visible: VisibleSchema, { table }: TableAccess): string {
  const related = table.relationships.map((relationship) => embedName(visible, relationship));
  const computed = [...table.computedFields.keys()].filter((name) => visible.readOnlyFunctions.has(name));
  return [
    plainText(table.comment),
    listed("Related rows", related),
    listed("Computed columns, returned only if `select` names them", computed),
  ]
    .filter((text) => text !== "")
    .join("\n\n");
}

/** Null if the role may not read the related rows. */
function embedName(visible: VisibleSchema, relationship: Relationship): string | null {
  const { target } = relationship;
  if (target.schema !== visible.schema.name || !visible.tables.get(target.name)?.isReadable) return null;
  if (relationship.kind !== "computed") return target.name;
  return visible.readOnlyFunctions.has(relationship.function.name) ? relationship.function.name : null;
}

function listed(title: string, names: readonly (string | null)[]): string {
  const different = [...new Set(names)].filter((name) => name !== null).sort();
  return different.length === 0 ? "" : `${title}: ${different.map((name) => `\`${name}\``).join(", ")}.`;
}
