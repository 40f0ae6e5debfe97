import { ACCOUNT_PROPERTIES } from "../../auth/responses.ts";
import { plainText } from "../../openapi/comment.ts";
import type { JsonSchema } from "../../openapi/document.ts";
import { defaultValue, nullable, valueSchema } from "../../openapi/json-schema.ts";
import { arrayOf, objectOf, refer } from "../../openapi/schema-parts.ts";
import { LINKS, nameIn } from "../request.ts";
import { isWritable, type Resource, type ResourceField } from "../resource.ts";
import { type ApiVersion, keyOf, relationsOf } from "./version.ts";

/** `User`, a record in a response; `UserCreate`, `UserReplace` and `UserUpdate`, request bodies; `UserList`. */
export function resourceSchemas(api: ApiVersion, resource: Resource): [string, JsonSchema][] {
  return [
    [keyOf(api, resource, "record"), recordSchema(api, resource)],
    [keyOf(api, resource, "create"), createSchema(api, resource)],
    [keyOf(api, resource, "replace"), replaceSchema(api, resource)],
    [keyOf(api, resource, "update"), updateSchema(api, resource)],
    [keyOf(api, resource, "list"), listSchema(api, resource)],
  ];
}

/** Every field is present, unless `fields` selects others. */
function recordSchema(api: ApiVersion, resource: Resource): JsonSchema {
  const { fields, description } = resource;
  const properties = fields.map((field): Property => {
    const readOnly = field.write === "never" && { readOnly: true };
    return [nameIn(field, api), { ...fieldSchema(field, "toJson"), ...readOnly }];
  });
  const related = relationsOf(api, resource).map((relation): Property => {
    const other = relation.resource();
    const name = nameIn(relation, api);
    const record = refer("schemas", keyOf(api, other, "record"));
    const about = `If \`fields\` names it, or one of its fields such as \`${name}.${other.key.name}\`.`;
    return [name, { anyOf: [record, { type: "null" }], description: about, readOnly: true }];
  });
  return {
    type: "object",
    description: description.about,
    properties: Object.fromEntries([...properties, ...related, [LINKS, linksSchema(api, resource)]]),
    required: fields.map((field) => nameIn(field, api)),
  };
}

function linksSchema(api: ApiVersion, resource: Resource): JsonSchema {
  const { relations, collections, description } = resource;
  const link = refer("schemas", "Link");
  const related = [...relations.values()].map((relation): Property => {
    const { isNullable } = relation.field.column;
    return [nameIn(relation, api), isNullable ? { anyOf: [link, { type: "null" }] } : link];
  });
  const others = [...collections.keys(), ...Object.keys(description.actions)];
  const changes = isWritable(resource) ? ["update", "delete"] : [];
  const named = [...others, ...changes].map((name): Property => [name, link]);
  const properties = Object.fromEntries([["self", link], ...related, ...named]);
  return {
    type: "object",
    description: api.version === 2 ? "Available operations." : "Available operations, if `fields` names `_links`.",
    properties,
    required: Object.keys(properties),
    readOnly: true,
  };
}

/** `given` is the field whose value is in the path. */
export function createSchema(api: ApiVersion, resource: Resource, given: ResourceField | null = null): JsonSchema {
  const fields = resource.fields.filter((field) => field.write !== "never" && field !== given);
  const account = api.hasAccounts && resource.description.hasAccount ? ACCOUNT_PROPERTIES : {};
  return inputSchema(api, resource, fields, { withDefaults: true, more: account });
}

const replaceSchema = (api: ApiVersion, resource: Resource) =>
  inputSchema(api, resource, alwaysWritten(resource), { withDefaults: true });

function updateSchema(api: ApiVersion, resource: Resource): JsonSchema {
  const { required: _, ...schema } = inputSchema(api, resource, alwaysWritten(resource), { withDefaults: false });
  return schema;
}

const alwaysWritten = ({ fields }: Resource) => fields.filter(({ write }) => write === "always");

type Property = readonly [name: string, schema: JsonSchema];
type InputOptions = { readonly withDefaults: boolean; readonly more?: Readonly<Record<string, JsonSchema>> };

function inputSchema(
  api: ApiVersion,
  resource: Resource,
  fields: readonly ResourceField[],
  { withDefaults, more = {} }: InputOptions,
): JsonSchema {
  const properties = fields.map((field): Property => {
    const schema = fieldSchema(field, "fromJson");
    const usual = withDefaults ? usualValue(field) : undefined;
    const rules = rulesOf(api, resource, field);
    const description = [schema.description ?? "", ...rules].filter((text) => text !== "").join("\n\n");
    return [
      nameIn(field, api),
      { ...schema, ...(description && { description }), ...(usual !== undefined && { default: usual }) },
    ];
  });
  const required = fields.filter(({ isRequired }) => isRequired).map((field) => nameIn(field, api));
  return {
    type: "object",
    properties: { ...Object.fromEntries(properties), ...more },
    ...(required.length > 0 && { required }),
  };
}

function fieldSchema({ column }: ResourceField, cast: "toJson" | "fromJson"): JsonSchema {
  const value = valueSchema(column, cast);
  const description = plainText(column.comment);
  return { ...(column.isNullable ? nullable(value) : value), ...(description && { description }) };
}

/** The value of an absent field; undefined for an expression that Postgres evaluates. */
function usualValue({ column, isRequired }: ResourceField): unknown {
  if (isRequired) return undefined;
  const value = defaultValue(column.defaultExpression, valueSchema(column, "fromJson"));
  return value === undefined && column.isNullable && !column.hasDefault ? null : value;
}

/** The checks of this field, with the messages of their errors. */
function rulesOf({ catalog }: ApiVersion, { table }: Resource, { column }: ResourceField): string[] {
  const prefix = `${table.schema}.${table.name}.`;
  return [...catalog.constraints].flatMap(([key, { message, check, columns }]) => {
    const isOfField = key.startsWith(prefix) && columns.length === 1 && columns[0] === column.name;
    return isOfField && check !== null && message !== null ? [`Rule: ${message}.`] : [];
  });
}

const count = (description: string): JsonSchema => ({ type: "integer", minimum: 0, description });
const TOTAL = count("Records in all.");
const TOTAL_PAGES = count("Pages in all.");

/** A page in each form of the version. In version 1 the paging parameters choose the form. */
export function listSchema(api: ApiVersion, resource: Resource): JsonSchema {
  const records = arrayOf(refer("schemas", keyOf(api, resource, "record")));
  if (api.version === 2) return envelopeOf(records);
  const forms = [envelopeOf(records), pageObjectOf(records), skipAndLimitOf(records)];
  return { oneOf: resource.description.list === "array" ? [records, ...forms] : forms };
}

export const envelopeOf = (records: JsonSchema): JsonSchema =>
  objectOf(
    { data: records, pagination: refer("schemas", "Pagination"), links: refer("schemas", "PageLinks") },
    "The envelope: `page` from 1, and `limit`.",
  );

const pageObjectOf = (records: JsonSchema) =>
  objectOf(
    {
      content: records,
      page: count("From 0."),
      size: count("Records on a page."),
      totalElements: TOTAL,
      totalPages: TOTAL_PAGES,
    },
    "The page object: `page` from 0, and `size`.",
  );

const skipAndLimitOf = (records: JsonSchema) =>
  objectOf(
    {
      data: records,
      pagination: objectOf({ skip: count("Records before these."), limit: count("Records on a page."), total: TOTAL }),
    },
    "`skip` and `limit`, in an envelope.",
  );

const pageUrl: JsonSchema = {
  type: ["string", "null"],
  description: "A URL without the host; null if there is no such page.",
};

/** Shared by the pages of all lists. */
export const PAGE_SCHEMAS: Readonly<Record<"Pagination" | "PageLinks", JsonSchema>> = {
  Pagination: objectOf({
    page: { type: "integer", minimum: 1, description: "From 1." },
    limit: count("Records on a page."),
    total: TOTAL,
    totalPages: TOTAL_PAGES,
  }),
  PageLinks: objectOf({ first: pageUrl, prev: pageUrl, next: pageUrl, last: pageUrl }),
};

/** The body of every problem: the form of the convention, or one that `Prefer: dialect` chooses. */
export const problemSchema = (): JsonSchema => ({
  description: "The error. `/docs/errors` explains the codes.",
  oneOf: [nestedProblem(), detailProblem(), flatProblem()],
});

const text: JsonSchema = { type: "string" };
const about = (description: string, schema: JsonSchema = text): JsonSchema => ({ ...schema, description });
const time = about("When it happened.", { type: "string", format: "date-time" });
const faults = arrayOf(
  objectOf({ field: about("Such as `email`, `tags[0]` or `[3].email`."), message: about("The fault.") }),
);
const code = about("For programs, such as `USER_NOT_FOUND`.");
const message = about("For people.");
const more = {
  supportedVersions: about("If the version is not supported.", arrayOf({ type: "integer" })),
  challenge: about("With `MFA_REQUIRED`: send it with the code to complete the login."),
};

function nestedProblem(): JsonSchema {
  const error = objectOf({
    code,
    message,
    requestId: about("The same as `X-Request-Id`."),
    timestamp: time,
    documentation: about("Where the codes are explained."),
  });
  const optional = {
    hint: about("What to do."),
    details: about("Every fault of a field.", faults),
    fields: about("The first message of each field.", { type: "object", additionalProperties: text }),
  };
  const whole = objectOf({
    error: { ...error, properties: { ...error.properties, ...optional } },
    timestamp: time,
    status: about("The status of the response.", { type: "integer" }),
  });
  return {
    ...whole,
    properties: { ...whole.properties, errors: about("With 422: the same as `details`.", faults), ...more },
  };
}

function detailProblem(): JsonSchema {
  const whole = objectOf({ detail: objectOf({ code, message }) }, "With `Prefer: dialect=detail`.");
  return { ...whole, properties: { ...whole.properties, ...more } };
}

function flatProblem(): JsonSchema {
  const field = about("The first field with a fault.", { type: ["string", "null"] });
  const whole = objectOf({ error: code, message, field }, "With `Prefer: dialect=flat`.");
  return { ...whole, properties: { ...whole.properties, ...more } };
}
