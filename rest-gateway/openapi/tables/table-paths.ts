import type { Relationship } from "../../../db/catalog/catalog.ts";
import { plainText } from "../comment.ts";
import type { Operation, PathItem, Response } from "../document.ts";
import { refer } from "../schema-parts.ts";
import { filterReferences, keyParameter } from "./filters.ts";
import { profileParameters, RESERVED, shared } from "./parameters.ts";
import { errors, headers, rowsContent } from "./responses.ts";
import { INSERT, type NamedOffer, type Offer, type OfferedTable, UPDATE } from "./visible-schema.ts";

/** `/articles`, with the methods that the role may use. */
export function tablePath(offer: NamedOffer, offered: OfferedTable): [string, PathItem] {
  const item = {
    ...(offered.isReadable && { get: readOperation(offer, offered) }),
    ...(offered.isInsertable && { post: insertOperation(offer, offered) }),
    ...(isReplaceable(offered) && { put: replaceOperation(offer, offered) }),
    ...(offered.isUpdatable && { patch: updateOperation(offer, offered) }),
    ...(offered.isDeletable && { delete: deleteOperation(offer, offered) }),
  };
  return [`/${encodeURIComponent(offered.table.name)}`, item];
}

type Parts = Pick<Operation, "parameters" | "responses"> & Partial<Operation>;

function operation(offer: NamedOffer, offered: OfferedTable, verb: string, phrase: string, parts: Parts): Operation {
  const { table } = offered;
  const description = describeTable(offer, offered);
  return {
    operationId: `${verb}_${offer.tableKey(table)}`,
    tags: [table.name],
    summary: `${phrase} ${table.name}`,
    ...(description && { description }),
    ...parts,
  };
}

function readOperation(offer: NamedOffer, offered: OfferedTable): Operation {
  const rows = { ...headers("contentRange", "preferenceApplied"), content: returned(offer, offered) };
  return operation(offer, offered, "read", "Read", {
    parameters: [
      ...filterReferences(offer, offered),
      ...shared("select", "order", "limit", "offset", "and", "or", "range", "rangeUnit", "preferRead"),
      ...profileParameters(offer, "Accept-Profile"),
    ],
    responses: {
      200: { description: "The rows.", ...rows },
      206: { description: "Some of the rows that there are, when they were counted.", ...rows },
      ...errors(400, 401, 403, 404, 406, 416),
    },
  });
}

function insertOperation(offer: NamedOffer, offered: OfferedTable): Operation {
  const row = refer("schemas", offer.tableKey(offered.table) + INSERT);
  return operation(offer, offered, "insert", "Insert into", {
    parameters: [
      ...shared("select", "columns", "onConflict", "preferInsert"),
      ...profileParameters(offer, "Content-Profile"),
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
      200: written(offer, offered, "All rows were there already; returned when they are asked for."),
      201: {
        ...written(offer, offered, "Inserted; returned when they are asked for."),
        ...headers("location", "preferenceApplied"),
      },
      ...errors(400, 401, 403, 404, 406, 409),
    },
  });
}

function replaceOperation(offer: NamedOffer, offered: OfferedTable): Operation {
  const row = refer("schemas", offer.tableKey(offered.table) + INSERT);
  return operation(offer, offered, "replace", "Replace one of", {
    parameters: [
      ...offered.table.primaryKey.map(keyParameter),
      ...shared("select", "columns", "preferReplace"),
      ...profileParameters(offer, "Content-Profile"),
    ],
    requestBody: { required: true, content: { "application/json": { schema: row } } },
    responses: {
      200: written(offer, offered, "Replaced, and returned."),
      201: written(offer, offered, "Inserted, for it was not there, and returned."),
      204: { description: "Written." },
      ...errors(400, 401, 403, 404, 405, 409),
    },
  });
}

function updateOperation(offer: NamedOffer, offered: OfferedTable): Operation {
  const row = refer("schemas", offer.tableKey(offered.table) + UPDATE);
  return operation(offer, offered, "update", "Update", {
    parameters: [
      ...filterReferences(offer, offered),
      ...shared("and", "or", "select", "columns", "preferUpdate"),
      ...profileParameters(offer, "Content-Profile"),
    ],
    requestBody: { required: true, content: { "application/json": { schema: row } } },
    responses: {
      200: written(offer, offered, "The updated rows, when they are asked for."),
      204: { description: "Updated.", ...headers("contentRange", "preferenceApplied") },
      ...errors(400, 401, 403, 404, 406, 409),
    },
  });
}

const deleteOperation = (offer: NamedOffer, offered: OfferedTable): Operation =>
  operation(offer, offered, "delete", "Delete from", {
    parameters: [
      ...filterReferences(offer, offered),
      ...shared("and", "or", "select", "preferDelete"),
      ...profileParameters(offer, "Content-Profile"),
    ],
    responses: {
      200: written(offer, offered, "The deleted rows, when they are asked for."),
      204: { description: "Deleted.", ...headers("contentRange", "preferenceApplied") },
      ...errors(400, 401, 403, 404, 406, 409),
    },
  });

/** A row is replaced by all of its primary key, which must be named in the URL and given in the body. */
function isReplaceable({ table, isUpdatable, insertable }: OfferedTable): boolean {
  const given = new Set(insertable.map(({ name }) => name));
  const { primaryKey } = table;
  return isUpdatable && primaryKey.length > 0 && primaryKey.every((name) => given.has(name) && !RESERVED.has(name));
}

const returned = (offer: NamedOffer, { table }: OfferedTable) => rowsContent(refer("schemas", offer.tableKey(table)));

/** The answer of a write: who may not read the rows is told nothing of them. */
const written = (offer: NamedOffer, offered: OfferedTable, description: string): Response => ({
  description,
  ...headers("preferenceApplied"),
  ...(offered.isReadable && { content: returned(offer, offered) }),
});

/** The comment of a table, and what `select` can bring besides its columns: `Related rows: \`comments\`, \`users\`.` */
export function describeTable(offer: Offer, { table }: OfferedTable): string {
  const related = table.relationships.map((relationship) => embedName(offer, relationship));
  const computed = [...table.computedFields.keys()].filter((name) => offer.readers.has(name));
  return [
    plainText(table.comment),
    listed("Related rows", related),
    listed("Computed columns, which are returned when `select` names them", computed),
  ]
    .filter((text) => text !== "")
    .join("\n\n");
}

/** Null where the role does not get there. */
function embedName(offer: Offer, relationship: Relationship): string | null {
  const { target } = relationship;
  if (target.schema !== offer.schema.name || !offer.tables.get(target.name)?.isReadable) return null;
  if (relationship.kind !== "computed") return target.name;
  return offer.readers.has(relationship.function.name) ? relationship.function.name : null;
}

function listed(title: string, names: readonly (string | null)[]): string {
  const different = [...new Set(names)].filter((name) => name !== null).sort();
  return different.length === 0 ? "" : `${title}: ${different.map((name) => `\`${name}\``).join(", ")}.`;
}
