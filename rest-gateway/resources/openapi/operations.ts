import {
  answered,
  type HeaderName,
  notModified,
  type ProblemStatus,
  problems,
} from "../../openapi/convention-responses.ts";
import type { JsonSchema, Operation, Parameter, Reference } from "../../openapi/document.ts";
import { arrayOf, refer } from "../../openapi/schema-parts.ts";
import type { ActionDescription } from "../description.ts";
import type { Resource } from "../resource.ts";
import { securityOf, securityOfAction } from "./access.ts";
import { fieldsParameter, listParameters, shared } from "./parameters.ts";
import { keyIn, ofParent, one, type Place, parentKey } from "./path.ts";
import { createSchema } from "./schemas.ts";
import { accepted } from "./tasks.ts";
import { type Edition, keyOf, pascalCase } from "./version.ts";

export function listOperation(edition: Edition, place: Place): Operation {
  const { resource, parent } = place;
  const { name } = resource.description;
  const list = refer("schemas", keyOf(edition, resource, "list"));
  return operation(edition, place, {
    operationId: `list${parentKey(edition, place)}${pascalCase(name)}`,
    summary: `List ${name}${ofParent(place)}`,
    parameters: [...listParameters(edition, resource), ...shared("prefer.list", "If-None-Match")],
    responses: {
      200: answered("A page.", list, "ETag", "X-Total-Count", "Link"),
      ...(edition.hasTasks && { 202: accepted() }),
      304: notModified(),
      ...problems(400, 401, 403, ...(parent ? ([404] as const) : []), ...ALWAYS),
    },
    ...securityOf(edition, resource, "select"),
  });
}

export function createOperation(edition: Edition, place: Place): Operation {
  const { resource, parent } = place;
  const { singular, name } = resource.description;
  const record = refer("schemas", keyOf(edition, resource, "record"));
  const input = parent
    ? createSchema(edition, resource, parent.field)
    : refer("schemas", keyOf(edition, resource, "create"));
  const many: JsonSchema = { ...arrayOf(input), minItems: 1, maxItems: edition.maxRecords };
  return operation(edition, place, {
    operationId: `create${keyIn(edition, place)}`,
    summary: `Create ${one(singular)}${ofParent(place)}, or several`,
    description: `An array makes all of its ${name}, or none.`,
    parameters: [fieldsParameter(resource), ...shared("prefer.create")],
    requestBody: jsonBody({ oneOf: [input, many] }),
    responses: {
      201: answered(
        `Created; \`Location\` is that of a single ${singular}.`,
        { oneOf: [record, arrayOf(record)] },
        "Location",
        ...validators(resource),
      ),
      ...(edition.hasTasks && { 202: accepted() }),
      ...problems(400, 401, 403, ...(parent ? ([404] as const) : []), 409, ...OF_BODIES[edition.version], ...ALWAYS),
    },
    ...securityOf(edition, resource, "insert"),
  });
}

export function readOperation(edition: Edition, place: Place): Operation {
  const { resource } = place;
  const { singular } = resource.description;
  const validated = validators(resource);
  return operation(edition, place, {
    operationId: `read${keyIn(edition, place)}`,
    summary: `Read ${one(singular)}${ofParent(place)}`,
    parameters: [
      fieldsParameter(resource),
      ...shared("prefer.read", "If-None-Match", ...(hasTimes(resource) ? ["If-Modified-Since"] : [])),
    ],
    responses: {
      200: answered(`The ${singular}.`, refer("schemas", keyOf(edition, resource, "record")), ...validated),
      304: notModified(...validated.slice(1)),
      ...problems(400, 401, 403, 404, ...ALWAYS),
    },
    ...securityOf(edition, resource, "select"),
  });
}

export const replaceOperation = (edition: Edition, place: Place): Operation =>
  changeOperation(edition, place, "replace", {
    verb: "Replace",
    description: "What the body leaves out goes back to its default.",
    preferences: "prefer.replace",
  });

export const updateOperation = (edition: Edition, place: Place): Operation =>
  changeOperation(edition, place, "update", {
    verb: "Change",
    description: "What the body leaves out stays as it is.",
    preferences: "prefer.read",
  });

type Change = { readonly verb: string; readonly description: string; readonly preferences: string };

function changeOperation(edition: Edition, place: Place, part: "replace" | "update", change: Change): Operation {
  const { resource } = place;
  const { singular } = resource.description;
  return operation(edition, place, {
    operationId: `${part}${keyIn(edition, place)}`,
    summary: `${change.verb} ${one(singular)}${ofParent(place)}`,
    description: change.description,
    parameters: [fieldsParameter(resource), ...shared(change.preferences), ...preconditions(resource)],
    requestBody: jsonBody(refer("schemas", keyOf(edition, resource, part))),
    responses: {
      200: answered(
        `The ${singular} as it is now.`,
        refer("schemas", keyOf(edition, resource, "record")),
        ...validators(resource),
      ),
      ...problems(400, 401, 403, 404, 409, 412, ...OF_BODIES[edition.version], ...ALWAYS),
    },
    ...securityOf(edition, resource, "update"),
  });
}

export function deleteOperation(edition: Edition, place: Place): Operation {
  const { resource } = place;
  const { singular, cascade } = resource.description;
  return operation(edition, place, {
    operationId: `delete${keyIn(edition, place)}`,
    summary: `Delete ${one(singular)}${ofParent(place)}`,
    parameters: [...shared(...(cascade.length > 0 ? ["cascade"] : []), "prefer.read"), ...preconditions(resource)],
    responses: { 204: answered("Deleted.", null), ...problems(400, 401, 403, 404, 409, 412, ...ALWAYS) },
    ...securityOf(edition, resource, "delete"),
  });
}

export function actOperation(edition: Edition, place: Place, name: string, action: ActionDescription): Operation {
  const { resource } = place;
  const { singular } = resource.description;
  return operation(edition, place, {
    operationId: `${name}${keyIn(edition, place)}`,
    summary: `${pascalCase(name)} ${one(singular)}`,
    description: action.about,
    parameters: [fieldsParameter(resource), ...shared("prefer.read"), ...preconditions(resource)],
    responses: {
      200: answered(
        `The ${singular} as it is now.`,
        refer("schemas", keyOf(edition, resource, "record")),
        ...validators(resource),
      ),
      ...problems(400, 401, 403, 404, 409, 412, ...ALWAYS),
    },
    ...securityOfAction(edition, resource, action),
  });
}

/** What no operation is safe from. */
const ALWAYS: readonly ProblemStatus[] = [429, 503, 504];

/** What may be wrong with a body: version 1 calls one that breaks a rule malformed. */
const OF_BODIES: Readonly<Record<Edition["version"], readonly ProblemStatus[]>> = { 1: [413, 415], 2: [413, 415, 422] };

type Parts = Omit<Operation, "tags">;

function operation({ isDeprecated }: Edition, { resource, ids }: Place, parts: Parts): Operation {
  const parameters: readonly (Parameter | Reference)[] = [
    ...ids,
    ...parts.parameters,
    ...shared("version", "X-API-Version"),
  ];
  return { ...parts, tags: [resource.description.name], parameters, ...(isDeprecated && { deprecated: true }) };
}

const hasTimes = ({ modified }: Resource) => modified.length > 0;

const validators = (resource: Resource): HeaderName[] => [
  "ETag",
  ...(hasTimes(resource) ? (["Last-Modified"] as const) : []),
];

const preconditions = (resource: Resource) =>
  shared("If-Match", ...(hasTimes(resource) ? ["If-Unmodified-Since"] : []));

const jsonBody = (schema: JsonSchema): NonNullable<Operation["requestBody"]> => ({
  required: true,
  content: { "application/json": { schema } },
});
