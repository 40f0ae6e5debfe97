import type { Relationship } from "../../../db/catalog/catalog.ts";
import { QUERY_TYPE } from "../../../rest-gateway/table/request.ts";
import type { Content, JsonSchema, Operation, Parameter, PathItem, Reference, Response } from "../document.ts";
import { arrayOf, paragraphs, plainText, queryParameter, refer, shared } from "../schema-parts.ts";
import type { VisibleTable } from "../visible-catalog.ts";
import { profileParameters, RESERVED } from "./parameters.ts";
import { errors, headers, rowsContent } from "./responses.ts";
import { type DescribedSchema, INSERT, UPDATE } from "./table-schemas.ts";

/** The methods of `/posts` that the role may use. `filters` refer to those of the table. */
export function tablePath(schema: DescribedSchema, table: VisibleTable, filters: readonly Reference[]): PathItem {
  const { name, may, primaryKey } = table;
  const key = schema.tableKeys.get(name)!;
  const description = describeTable(schema, table);
  const operation = (
    verb: string,
    phrase: string,
    { parameters, ...parts }: Pick<Operation, "parameters" | "requestBody" | "responses">,
  ): Operation => ({
    operationId: `${verb}_${key}`,
    tags: [name],
    summary: `${phrase} ${name}`,
    ...(description && { description }),
    parameters: [
      ...parameters,
      ...profileParameters(schema, verb === "read" || verb === "find" ? "Accept-Profile" : "Content-Profile"),
    ],
    ...parts,
  });
  const [inserted, updated] = [refer("schemas", key + INSERT), refer("schemas", key + UPDATE)];
  // Callers who may not read the rows do not receive them.
  const rows = may.select && { content: rowsContent(refer("schemas", key)) };
  const foundRows = { ...headers("Content-Range", "Preference-Applied", "Change-Position"), ...rows };
  const found = {
    200: { description: "Returns the rows.", ...foundRows },
    206: { description: "Returns some of the rows; `Content-Range` has their total number.", ...foundRows },
  };
  const written = (about: string): Response => ({ description: about, ...headers("Preference-Applied"), ...rows });
  const done = (about: string) => ({ description: about, ...headers("Content-Range", "Preference-Applied") });
  return {
    ...(may.select && {
      get: operation("read", "Read", {
        parameters: [
          ...filters,
          ...shared("select", "order", "limit", "offset", "and", "or", "range", "rangeUnit", "preferRead"),
        ],
        responses: { ...found, ...errors(400, 401, 403, 404, 406, 416) },
      }),
      // Its query string is in the body, because it is too long for a URL.
      "x-query": operation("find", "With a query string in the body, read", {
        parameters: shared("range", "rangeUnit", "preferRead"),
        requestBody: bodyOf(QUERY_TYPE, QUERY_SCHEMA),
        responses: { ...found, ...errors(400, 401, 403, 404, 406, 413, 415, 416) },
      }),
    }),
    ...(may.insert && {
      post: operation("insert", "Insert into", {
        parameters: shared("select", "columns", "onConflict", "preferInsert"),
        requestBody: { required: true, content: insertContent(inserted) },
        responses: {
          200: written("All rows already existed. Returns them with `Prefer: return=representation`."),
          201: {
            ...written("Inserted. Returns the rows with `Prefer: return=representation`."),
            ...headers("Location", "Preference-Applied"),
          },
          ...errors(400, 401, 403, 404, 406, 409),
        },
      }),
    }),
    ...(isReplaceable(table) && {
      put: operation("replace", "Replace one of", {
        parameters: [...primaryKey.map(keyParameter), ...shared("select", "columns", "preferReplace")],
        requestBody: bodyOf("application/json", inserted),
        responses: {
          200: written("Replaced. Returns the row."),
          201: written("Inserted, because the row did not exist. Returns the row."),
          204: { description: "Replaced or inserted." },
          ...errors(400, 401, 403, 404, 405, 409),
        },
      }),
    }),
    ...(may.update && {
      patch: operation("update", "Update", {
        parameters: [...filters, ...shared("and", "or", "select", "columns", "preferUpdate")],
        requestBody: bodyOf("application/json", updated),
        responses: {
          200: written("Updated. Returns the rows with `Prefer: return=representation`."),
          204: done("Updated."),
          ...errors(400, 401, 403, 404, 406, 409),
        },
      }),
    }),
    ...(may.delete && {
      delete: operation("delete", "Delete from", {
        parameters: [...filters, ...shared("and", "or", "select", "preferDelete")],
        responses: {
          200: written("Deleted. Returns the rows with `Prefer: return=representation`."),
          204: done("Deleted."),
          ...errors(400, 401, 403, 404, 406, 409),
        },
      }),
    }),
  };
}

const QUERY_SCHEMA: JsonSchema = {
  type: "object",
  description: "The query parameters of GET.",
  additionalProperties: { type: "string" },
};

const bodyOf = (type: string, schema: JsonSchema) => ({ required: true, content: { [type]: { schema } } });

const insertContent = (row: JsonSchema): Content => ({
  "application/json": { schema: { anyOf: [row, arrayOf(row)] } },
  "application/x-www-form-urlencoded": { schema: row },
  "text/csv": { schema: { type: "string" } },
});

/** PUT identifies a row by its whole primary key, in the URL and in the body. */
function isReplaceable({ may, insertable, primaryKey }: VisibleTable): boolean {
  const writable = new Set(insertable.map(({ name }) => name));
  return may.update && primaryKey.length > 0 && primaryKey.every((name) => writable.has(name) && !RESERVED.has(name));
}

const keyParameter = (column: string): Parameter => ({
  ...queryParameter(column, "Identifies the row. The value must equal that in the body.", {
    type: "string",
    pattern: "^eq\\.",
  }),
  required: true,
});

/** The comment of a table, and the names that `select` can add to its columns: `Related rows: \`comments\`, \`users\`.` */
function describeTable(schema: DescribedSchema, { comment, relationships, computedFields }: VisibleTable): string {
  const related = relationships.filter((each) => isEmbeddable(schema, each));
  const names = related.map((each) => (each.kind === "computed" ? each.function.name : each.target.name));
  const computed = [...computedFields.values()].flatMap(({ name, isVolatile }) => (isVolatile ? [] : [name]));
  return paragraphs(
    plainText(comment),
    listed("Related rows", names),
    listed("Computed columns, returned only if `select` names them", computed),
  );
}

/** Whether the role may read the related rows. */
function isEmbeddable({ name, tables, functions }: DescribedSchema, relationship: Relationship): boolean {
  const { target } = relationship;
  if (target.schema !== name || !tables.get(target.name)?.may.select) return false;
  if (relationship.kind !== "computed") return true;
  const overloads = functions.get(relationship.function.name) ?? [];
  return overloads.some(({ volatility }) => volatility !== "volatile");
}

function listed(title: string, names: readonly string[]): string {
  const different = [...new Set(names)].sort();
  return different.length === 0 ? "" : `${title}: ${different.map((name) => `\`${name}\``).join(", ")}.`;
}
