import {
  answered,
  type HeaderName,
  notModified,
  type ProblemStatus,
  problems,
} from "../../openapi/convention-responses.ts";
import type { JsonSchema, Operation, Parameter, PathItem, Reference, Response } from "../../openapi/document.ts";
import { arrayOf, refer } from "../../openapi/schema-parts.ts";
import type { ActionDescription } from "../descriptions/index.ts";
import { isWritable, type Resource } from "../resource.ts";
import { securityOf, securityOfAction } from "./access.ts";
import { fieldsParameter, idName, idParameter, listParameters, shared } from "./parameters.ts";
import { createSchema } from "./schemas.ts";
import { accepted } from "./tasks.ts";
import {
  type ApiVersion,
  collectionsOf,
  keyIn,
  keyOf,
  type OperationPath,
  ofParent,
  one,
  parentKey,
  pascalCase,
} from "./version.ts";

/** `/articles`, `/articles/{articleId}`, `/articles/{articleId}/publish`. */
export function resourcePaths(api: ApiVersion, resource: Resource): [string, PathItem][] {
  const { name, actions } = resource.description;
  const own: OperationPath = { resource, ids: [], parent: null };
  const ofRecord: OperationPath = { ...own, ids: [idParameter(resource)] };
  const record = recordPath(`/${name}`, resource);
  return [
    [`/${name}`, collectionItem(api, own, true)],
    [record, recordItem(api, ofRecord)],
    ...Object.entries(actions).map(([action, description]): [string, PathItem] => [
      `${record}/${action}`,
      { post: actOperation(api, ofRecord, action, description) },
    ]),
  ];
}

/** `/articles/{articleId}/comments`, `/articles/{articleId}/comments/{commentId}`. */
export const collectionPaths = (api: ApiVersion, resource: Resource): [string, PathItem][] =>
  collectionsOf(api, resource).flatMap((collection) => {
    const inner = collection.resource();
    const parent = { resource, field: inner.fieldNamed.get(collection.field)! };
    const all: OperationPath = { resource: inner, ids: [idParameter(resource)], parent };
    const ofRecord: OperationPath = { ...all, ids: [...all.ids, idParameter(inner)] };
    const url = `${recordPath(`/${resource.description.name}`, resource)}/${collection.name}`;
    return [
      [url, collectionItem(api, all, collection.isCreatable)],
      [recordPath(url, inner), recordItem(api, ofRecord)],
    ];
  });

const recordPath = (path: string, { description }: Resource) => `${path}/{${idName(description.singular)}}`;

const collectionItem = (api: ApiVersion, path: OperationPath, isCreatable: boolean): PathItem => ({
  get: listOperation(api, path),
  ...(isCreatable && isWritable(path.resource) && { post: createOperation(api, path) }),
});

const recordItem = (api: ApiVersion, path: OperationPath): PathItem => ({
  get: readOperation(api, path),
  ...(isWritable(path.resource) && {
    put: changeOperation(api, path, "replace"),
    patch: changeOperation(api, path, "update"),
    delete: deleteOperation(api, path),
  }),
});

function listOperation(api: ApiVersion, path: OperationPath): Operation {
  const { resource } = path;
  const { name } = resource.description;
  const list = refer("schemas", keyOf(api, resource, "list"));
  return operation(api, path, {
    operationId: `list${parentKey(api, path)}${pascalCase(name)}`,
    summary: `List ${name}${ofParent(path)}`,
    parameters: [...listParameters(api, resource), ...shared("prefer.list", "If-None-Match")],
    responses: {
      200: answered("A page.", list, "ETag", "X-Total-Count", "Link"),
      ...(api.hasTasks && { 202: accepted() }),
      304: notModified(),
      ...problems(400, 401, 403, ...missingParent(path), ...ALWAYS),
    },
    ...securityOf(api, resource, "select"),
  });
}

function createOperation(api: ApiVersion, path: OperationPath): Operation {
  const { resource, parent } = path;
  const { singular, name } = resource.description;
  const record = refer("schemas", keyOf(api, resource, "record"));
  const input = parent ? createSchema(api, resource, parent.field) : refer("schemas", keyOf(api, resource, "create"));
  const many: JsonSchema = { ...arrayOf(input), minItems: 1, maxItems: api.maxRecords };
  return operation(api, path, {
    operationId: `create${keyIn(api, path)}`,
    summary: `Create ${one(singular)}${ofParent(path)}, or several`,
    description: `An array creates all of its ${name}, or none.`,
    parameters: [fieldsParameter(resource), ...shared("prefer.create")],
    requestBody: jsonBody({ oneOf: [input, many] }),
    responses: {
      201: answered(
        `Created. \`Location\` is the URL of a single ${singular}.`,
        { oneOf: [record, arrayOf(record)] },
        "Location",
        ...validators(resource),
      ),
      ...(api.hasTasks && { 202: accepted() }),
      ...problems(400, 401, 403, ...missingParent(path), 409, ...OF_BODIES[api.version], ...ALWAYS),
    },
    ...securityOf(api, resource, "insert"),
  });
}

function readOperation(api: ApiVersion, path: OperationPath): Operation {
  const { resource } = path;
  const { singular } = resource.description;
  return operation(api, path, {
    operationId: `read${keyIn(api, path)}`,
    summary: `Read ${one(singular)}${ofParent(path)}`,
    parameters: [
      fieldsParameter(resource),
      ...shared("prefer.read", "If-None-Match", ...(hasTimes(resource) ? ["If-Modified-Since"] : [])),
    ],
    responses: {
      200: answeredRecord(api, resource, `The ${singular}.`),
      304: notModified(...validators(resource).slice(1)),
      ...problems(400, 401, 403, 404, ...ALWAYS),
    },
    ...securityOf(api, resource, "select"),
  });
}

const CHANGES = {
  replace: {
    verb: "Replace",
    description: "Fields that are absent from the body are set to their defaults.",
    preferences: "prefer.replace",
  },
  update: {
    verb: "Change",
    description: "Fields that are absent from the body keep their values.",
    preferences: "prefer.read",
  },
} as const;

function changeOperation(api: ApiVersion, path: OperationPath, part: keyof typeof CHANGES): Operation {
  const { resource } = path;
  const { singular } = resource.description;
  const { verb, description, preferences } = CHANGES[part];
  return operation(api, path, {
    operationId: `${part}${keyIn(api, path)}`,
    summary: `${verb} ${one(singular)}${ofParent(path)}`,
    description,
    parameters: [fieldsParameter(resource), ...shared(preferences), ...preconditions(resource)],
    requestBody: jsonBody(refer("schemas", keyOf(api, resource, part))),
    responses: {
      200: answeredRecord(api, resource, `The ${singular} as it is now.`),
      ...problems(400, 401, 403, 404, 409, 412, ...OF_BODIES[api.version], ...ALWAYS),
    },
    ...securityOf(api, resource, "update"),
  });
}

function deleteOperation(api: ApiVersion, path: OperationPath): Operation {
  const { resource } = path;
  const { singular, cascade } = resource.description;
  return operation(api, path, {
    operationId: `delete${keyIn(api, path)}`,
    summary: `Delete ${one(singular)}${ofParent(path)}`,
    parameters: [...shared(...(cascade.length > 0 ? ["cascade"] : []), "prefer.read"), ...preconditions(resource)],
    responses: { 204: answered("Deleted.", null), ...problems(400, 401, 403, 404, 409, 412, ...ALWAYS) },
    ...securityOf(api, resource, "delete"),
  });
}

function actOperation(api: ApiVersion, path: OperationPath, name: string, action: ActionDescription): Operation {
  const { resource } = path;
  const { singular } = resource.description;
  return operation(api, path, {
    operationId: `${name}${keyIn(api, path)}`,
    summary: `${pascalCase(name)} ${one(singular)}`,
    description: action.about,
    parameters: [fieldsParameter(resource), ...shared("prefer.read"), ...preconditions(resource)],
    responses: {
      200: answeredRecord(api, resource, `The ${singular} as it is now.`),
      ...problems(400, 401, 403, 404, 409, 412, ...ALWAYS),
    },
    ...securityOfAction(api, resource, action),
  });
}

/** Possible for every operation. */
const ALWAYS: readonly ProblemStatus[] = [429, 503, 504];

/** Possible for operations with a body. In version 1 an invalid body is 400. */
const OF_BODIES: Readonly<Record<ApiVersion["version"], readonly ProblemStatus[]>> = {
  1: [413, 415],
  2: [413, 415, 422],
};

type Parts = Omit<Operation, "tags">;

function operation({ isDeprecated }: ApiVersion, { resource, ids }: OperationPath, parts: Parts): Operation {
  const parameters: readonly (Parameter | Reference)[] = [
    ...ids,
    ...parts.parameters,
    ...shared("version", "X-API-Version"),
  ];
  return { ...parts, tags: [resource.description.name], parameters, ...(isDeprecated && { deprecated: true }) };
}

const missingParent = ({ parent }: OperationPath): readonly ProblemStatus[] => (parent ? [404] : []);

const answeredRecord = (api: ApiVersion, resource: Resource, description: string): Response =>
  answered(description, refer("schemas", keyOf(api, resource, "record")), ...validators(resource));

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
