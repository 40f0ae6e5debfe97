import { MAX_PASSWORD, MIN_PASSWORD } from "../../auth/passwords.ts";
import { MAX_USERNAME, USERNAME } from "../../auth/registration.ts";
import { plainText } from "../../openapi/comment.ts";
import type { JsonSchema } from "../../openapi/document.ts";
import { defaultValue, nullable, valueSchema } from "../../openapi/json-schema.ts";
import { refer } from "../../openapi/schema-parts.ts";
import { LINKS } from "../request.ts";
import { isWritable, type Resource, type ResourceField } from "../resource.ts";
import { listSchema } from "./lists.ts";
import { type Edition, keyOf, nameIn, relationsOf } from "./version.ts";

/** `User`, a record as it is read; `UserCreate`, `UserReplace`, `UserUpdate`, what is sent; `UserList`. */
export function resourceSchemas(edition: Edition, resource: Resource): [string, JsonSchema][] {
  return [
    [keyOf(edition, resource, "record"), recordSchema(edition, resource)],
    [keyOf(edition, resource, "create"), createSchema(edition, resource)],
    [keyOf(edition, resource, "replace"), replaceSchema(edition, resource)],
    [keyOf(edition, resource, "update"), updateSchema(edition, resource)],
    [keyOf(edition, resource, "list"), listSchema(edition, resource)],
  ];
}

/** Every field is there, unless `fields` asks for others. */
function recordSchema(edition: Edition, resource: Resource): JsonSchema {
  const { fields, description } = resource;
  const properties = fields.map((field): Property => {
    const readOnly = field.write === "never" && { readOnly: true };
    return [nameIn(edition, field), { ...fieldSchema(field, "toJson"), ...readOnly }];
  });
  const related = relationsOf(edition, resource).map((relation): Property => {
    const other = relation.resource();
    const name = nameIn(edition, relation);
    const record = refer("schemas", keyOf(edition, other, "record"));
    const about = `When \`fields\` names it, or fields of it such as \`${name}.${other.key.name}\`.`;
    return [name, { anyOf: [record, { type: "null" }], description: about, readOnly: true }];
  });
  return {
    type: "object",
    description: description.about,
    properties: Object.fromEntries([...properties, ...related, [LINKS, linksSchema(edition, resource)]]),
    required: fields.map((field) => nameIn(edition, field)),
  };
}

function linksSchema(edition: Edition, resource: Resource): JsonSchema {
  const { relations, collections, description } = resource;
  const link = refer("schemas", "Link");
  const related = [...relations.values()].map((relation): Property => {
    const { isNullable } = relation.field.column;
    return [nameIn(edition, relation), isNullable ? { anyOf: [link, { type: "null" }] } : link];
  });
  const others = [...collections.keys(), ...Object.keys(description.actions)];
  const changes = isWritable(resource) ? ["update", "delete"] : [];
  const named = [...others, ...changes].map((name): Property => [name, link]);
  const properties = Object.fromEntries([["self", link], ...related, ...named]);
  return {
    type: "object",
    description: edition.version === 2 ? "What can be done next." : "What can be done next, when `fields` names it.",
    properties,
    required: Object.keys(properties),
    readOnly: true,
  };
}

/** `given` is the field whose value stands in the address. */
export function createSchema(edition: Edition, resource: Resource, given: ResourceField | null = null): JsonSchema {
  const fields = resource.fields.filter((field) => field.write !== "never" && field !== given);
  const account = edition.hasAccounts && resource.description.hasAccount ? ACCOUNT : {};
  return inputSchema(edition, resource, fields, { withDefaults: true, more: account });
}

const replaceSchema = (edition: Edition, resource: Resource) =>
  inputSchema(edition, resource, alwaysWritten(resource), { withDefaults: true });

function updateSchema(edition: Edition, resource: Resource): JsonSchema {
  const { required: _, ...schema } = inputSchema(edition, resource, alwaysWritten(resource), { withDefaults: false });
  return schema;
}

const alwaysWritten = ({ fields }: Resource) => fields.filter(({ write }) => write === "always");

type Property = readonly [name: string, schema: JsonSchema];
type InputOptions = { readonly withDefaults: boolean; readonly more?: Readonly<Record<string, JsonSchema>> };

function inputSchema(
  edition: Edition,
  resource: Resource,
  fields: readonly ResourceField[],
  { withDefaults, more = {} }: InputOptions,
): JsonSchema {
  const properties = fields.map((field): Property => {
    const schema = fieldSchema(field, "fromJson");
    const usual = withDefaults ? usualValue(field) : undefined;
    const rules = rulesOf(edition, resource, field);
    const description = [schema.description ?? "", ...rules].filter((text) => text !== "").join("\n\n");
    return [
      nameIn(edition, field),
      { ...schema, ...(description && { description }), ...(usual !== undefined && { default: usual }) },
    ];
  });
  const required = fields.filter(({ isRequired }) => isRequired).map((field) => nameIn(edition, field));
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

/** What a field is that is left out; undefined for what Postgres works out. */
function usualValue({ column, isRequired }: ResourceField): unknown {
  if (isRequired) return undefined;
  const value = defaultValue(column.defaultExpression, valueSchema(column, "fromJson"));
  return value === undefined && column.isNullable && !column.hasDefault ? null : value;
}

/** The checks of this field alone, in the words that clients get who break them. */
function rulesOf({ catalog }: Edition, { table }: Resource, { column }: ResourceField): string[] {
  const prefix = `${table.schema}.${table.name}.`;
  return [...catalog.constraints].flatMap(([key, { message, check, columns }]) => {
    const isOfField = key.startsWith(prefix) && columns.length === 1 && columns[0] === column.name;
    return isOfField && check !== null && message !== null ? [`Rule: ${message}.`] : [];
  });
}

/** What makes a new user somebody who can sign in. */
const ACCOUNT: Readonly<Record<string, JsonSchema>> = {
  password: {
    type: "string",
    format: "password",
    minLength: MIN_PASSWORD,
    maxLength: MAX_PASSWORD,
    description:
      "Makes an account to sign in with, for one user at a time. With upper case, lower case, digit and special character.",
    writeOnly: true,
  },
  username: {
    type: ["string", "null"],
    minLength: 1,
    maxLength: MAX_USERNAME,
    pattern: USERNAME,
    description: "The name to sign in with, beside a password; the e-mail when it is left out.",
    writeOnly: true,
  },
};
