import { LINKS } from "../../../rest-gateway/resources/request.ts";
import { isWritable, type Resource, type ResourceField } from "../../../rest-gateway/resources/resource.ts";
import { ACCOUNT_PROPERTIES } from "../auth-paths.ts";
import { envelopeOf, pageObjectOf, skipAndLimitOf } from "../conventions/parameters.ts";
import type { JsonSchema } from "../document.ts";
import { columnDefault, columnSchema } from "../json-schema.ts";
import { arrayOf, defaultText, objectOf, refer, withOptional } from "../schema-parts.ts";
import { type ApiVersion, keyOf, nameIn, relationsOf } from "./version.ts";

/** `User`, a record in a response; `UserCreate`, `UserReplace` and `UserUpdate`, request bodies; `UserList`. */
export function resourceSchemas(api: ApiVersion, resource: Resource): [string, JsonSchema][] {
  const always = resource.fields.filter(({ write }) => write === "always");
  const { required: _, ...update } = inputSchema(api, resource, always, () => "");
  const schemas = {
    record: recordSchema(api, resource),
    create: createSchema(api, resource),
    replace: inputSchema(api, resource, always, usualText),
    update,
    list: listSchema(api, resource),
  };
  return Object.entries(schemas).map(([part, schema]) => [keyOf(api, resource, part as keyof typeof schemas), schema]);
}

/** Every field is present, unless `fields` selects others. */
export function recordSchema(api: ApiVersion, resource: Resource): JsonSchema {
  const { fields, description } = resource;
  const properties = fields.map((field): Property => {
    const readOnly = field.write === "never" && { readOnly: true };
    return [nameIn(field, api), { ...columnSchema(field.column, "toJson"), ...readOnly }];
  });
  const related = relationsOf(api, resource).map((relation): Property => {
    const other = relation.resource();
    const name = nameIn(relation, api);
    const record = refer("schemas", keyOf(api, other, "record"));
    const about = `If \`fields\` names it, or one of its fields such as \`${name}.${other.key.name}\`.`;
    return [name, { anyOf: [record, { type: "null" }], description: about, readOnly: true }];
  });
  return objectOf(
    Object.fromEntries([...properties, ...related, [LINKS, linksSchema(api, resource)]]),
    description.about,
    fields.map((field) => nameIn(field, api)),
  );
}

function linksSchema(api: ApiVersion, resource: Resource): JsonSchema {
  const { relations, collections, description } = resource;
  const link = refer("schemas", "Link");
  const related = relations.map((relation): Property => {
    const { isNullable } = relation.field.column;
    return [nameIn(relation, api), isNullable ? { anyOf: [link, { type: "null" }] } : link];
  });
  const changes = isWritable(resource) ? ["update", "delete"] : [];
  const others = [...collections.keys(), ...Object.keys(description.actions), ...changes];
  const properties = [["self", link], ...related, ...others.map((name) => [name, link])];
  const about = api.version === 2 ? "Available operations." : "Available operations, if `fields` names `_links`.";
  return { ...objectOf(Object.fromEntries(properties), about), readOnly: true };
}

/** `given` is the field whose value is in the path. */
export function createSchema(api: ApiVersion, resource: Resource, given: ResourceField | null = null): JsonSchema {
  const fields = resource.fields.filter((field) => field.write !== "never" && field !== given);
  const schema = inputSchema(api, resource, fields, usualText);
  return resource.description.hasAccount ? withOptional(schema, ACCOUNT_PROPERTIES) : schema;
}

type Property = readonly [name: string, schema: JsonSchema];

/** `about` is the last paragraph of the description of a field. */
const inputSchema = (
  api: ApiVersion,
  resource: Resource,
  fields: readonly ResourceField[],
  about: (field: ResourceField) => string,
): JsonSchema =>
  objectOf(
    Object.fromEntries(
      fields.map((field): Property => {
        const schema = columnSchema(field.column, "fromJson", ...rulesOf(api, resource, field), about(field));
        return [nameIn(field, api), schema];
      }),
    ),
    "",
    fields.filter(({ isRequired }) => isRequired).map((field) => nameIn(field, api)),
  );

/** The value of an absent field; "" for an expression that Postgres evaluates. */
function usualText({ column, isRequired }: ResourceField): string {
  if (isRequired) return "";
  const value = columnDefault(column);
  return defaultText(value === undefined && column.isNullable && !column.hasDefault ? null : value);
}

/** The checks of this field, with the messages of their errors. */
function rulesOf({ catalog }: ApiVersion, { table }: Resource, { column }: ResourceField): string[] {
  const prefix = `${table.schema}.${table.name}.`;
  return [...catalog.constraints].flatMap(([key, { message, check, columns }]) => {
    const isOfField = key.startsWith(prefix) && columns.length === 1 && columns[0] === column.name;
    return isOfField && check !== null && message !== null ? [`Rule: ${message}.`] : [];
  });
}

/** A page in each form of the version. In version 1 the paging parameters choose the form. */
function listSchema(api: ApiVersion, resource: Resource): JsonSchema {
  const records = arrayOf(refer("schemas", keyOf(api, resource, "record")));
  if (api.version === 2) return envelopeOf(records);
  const forms = [envelopeOf(records), pageObjectOf(records), skipAndLimitOf(records)];
  return { oneOf: resource.description.list === "array" ? [records, ...forms] : forms };
}
