import { mayExecute, mayUseTable } from "../../../db/catalog/grants.ts";
import {
  answered,
  type HeaderName,
  notModified,
  type ProblemStatus,
  problems,
} from "../../openapi/conventions/responses.ts";
import { OPEN } from "../../openapi/conventions/security.ts";
import type { JsonSchema, Operation, Parameter, PathItem, Reference, Response } from "../../openapi/document.ts";
import { arrayOf, refer, shared } from "../../openapi/schema-parts.ts";
import type { ActionDescription } from "../description.ts";
import { isWritable, type Resource, type ResourceField, tableName } from "../resource.ts";
import { fieldsParameter, idName, idParameter, listParameters } from "./parameters.ts";
import { createSchema } from "./schemas.ts";
import { type ApiVersion, collectionsOf, keyOf, pascalCase } from "./version.ts";

/** The path of an operation: of the resource itself, or of a collection of another resource's record. */
type OperationPath = {
  readonly resource: Resource;
  /** The parameters of the path. */
  readonly ids: readonly Parameter[];
  /** `field` is the one whose value is in the path. */
  readonly parent: { readonly resource: Resource; readonly field: ResourceField } | null;
};

/** `/posts`, `/posts/{postId}`, `/posts/{postId}/publish`. */
export function resourcePaths(api: ApiVersion, resource: Resource): [string, PathItem][] {
  const { name, actions } = resource.description;
  const own: OperationPath = { resource, ids: [], parent: null };
  const ofRecord: OperationPath = { ...own, ids: [idParameter(resource)] };
  const record = recordPath(`/${name}`, resource);
  return [
    [`/${name}`, collectionItem(api, own, true)],
    [record, recordItem(api, ofRecord)],
    ...Object.keys(actions).map((action): [string, PathItem] => [
      `${record}/${action}`,
      { post: actOperation(api, ofRecord, action) },
    ]),
  ];
}

/** `/posts/{postId}/comments`, `/posts/{postId}/comments/{commentId}`. */
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

function recordItem(api: ApiVersion, path: OperationPath): PathItem {
  const { resource } = path;
  const get = readOperation(api, path);
  if (!isWritable(resource)) return { get };
  return {
    get,
    put: changeOperation(api, path, "replace", {
      description: "Fields that are absent from the body are set to their defaults.",
      preferences: "prefer.replace",
      body: refer("schemas", keyOf(api, resource, "replace")),
    }),
    patch: changeOperation(api, path, "update", {
      verb: "Change",
      description: "Fields that are absent from the body keep their values.",
      body: refer("schemas", keyOf(api, resource, "update")),
    }),
    delete: changeOperation(api, path, "delete", {
      parameters: shared(...(resource.description.cascade.length > 0 ? ["cascade"] : [])),
      success: { 204: answered("Deleted.", null) },
      security: securityOf(api, resource, "delete"),
    }),
  };
}

function listOperation(api: ApiVersion, path: OperationPath): Operation {
  const { resource } = path;
  const { name } = resource.description;
  return operation(api, path, {
    operationId: idOf(api, path, "list", pascalCase(name)),
    summary: `List ${name}${ofParent(path)}`,
    parameters: [...listParameters(api, resource), ...shared("prefer.list", "If-None-Match")],
    responses: {
      200: answered(
        "A page.",
        refer("schemas", keyOf(api, resource, "list")),
        "ETag",
        "X-Total-Count",
        "Link",
        "Change-Position",
      ),
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
    operationId: idOf(api, path, "create"),
    summary: `${summaryOf(path, "Create")}, or several`,
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
      ...problems(400, 401, 403, ...missingParent(path), 409, ...OF_BODIES[api.version], ...ALWAYS),
    },
    ...securityOf(api, resource, "insert"),
  });
}

function readOperation(api: ApiVersion, path: OperationPath): Operation {
  const { resource } = path;
  return operation(api, path, {
    operationId: idOf(api, path, "read"),
    summary: summaryOf(path, "Read"),
    parameters: [
      fieldsParameter(resource),
      ...shared("prefer.read", "If-None-Match", ...(hasTimes(resource) ? ["If-Modified-Since"] : [])),
    ],
    responses: {
      200: answeredRecord(api, resource, `The ${resource.description.singular}.`, "Change-Position"),
      304: notModified(...validators(resource).slice(1)),
      ...problems(400, 401, 403, 404, ...ALWAYS),
    },
    ...securityOf(api, resource, "select"),
  });
}

function actOperation(api: ApiVersion, path: OperationPath, name: string): Operation {
  const action = path.resource.description.actions[name]!;
  const security = securityOfAction(api, path.resource, action);
  return changeOperation(api, path, name, { description: action.about, security });
}

/** The differences between operations that change a record. */
type Change = {
  /** The default is the name of the change. */
  readonly verb?: string;
  readonly description?: string;
  /** The default is `fields`. */
  readonly parameters?: readonly Reference[];
  readonly preferences?: "prefer.read" | "prefer.replace";
  readonly body?: JsonSchema;
  /** The default is 200 with the record. */
  readonly success?: Operation["responses"];
  readonly security?: Pick<Operation, "security">;
};

function changeOperation(api: ApiVersion, path: OperationPath, name: string, change: Change): Operation {
  const { resource } = path;
  const { verb = pascalCase(name), description, preferences = "prefer.read", body } = change;
  const {
    parameters = [fieldsParameter(resource)],
    success = { 200: answeredRecord(api, resource, `The ${resource.description.singular} as it is now.`) },
    security = securityOf(api, resource, "update"),
  } = change;
  return operation(api, path, {
    operationId: idOf(api, path, name),
    summary: summaryOf(path, verb),
    ...(description && { description }),
    parameters: [...parameters, ...shared(preferences), ...preconditions(resource)],
    ...(body && { requestBody: jsonBody(body) }),
    responses: {
      ...success,
      ...problems(400, 401, 403, 404, 409, 412, ...(body ? OF_BODIES[api.version] : []), ...ALWAYS),
    },
    ...security,
  });
}

/** Possible for every operation. */
const ALWAYS: readonly ProblemStatus[] = [429, 503, 504];

/** Possible for operations with a body. In version 1 an invalid body is 400. */
const OF_BODIES: Readonly<Record<ApiVersion["version"], readonly ProblemStatus[]>> = {
  1: [413, 415],
  2: [413, 415, 422],
};

function operation(
  { isDeprecated }: ApiVersion,
  { resource, ids }: OperationPath,
  parts: Omit<Operation, "tags">,
): Operation {
  const parameters = [...ids, ...parts.parameters, ...shared("version", "X-API-Version")];
  return { ...parts, tags: [resource.description.name], parameters, ...(isDeprecated && { deprecated: true }) };
}

/** `readUserPost`, `listUserPosts` */
const idOf = (
  api: ApiVersion,
  { resource, parent }: OperationPath,
  verb: string,
  noun = keyOf(api, resource, "record"),
) => `${verb}${parent ? keyOf(api, parent.resource, "record") : ""}${noun}`;

/** `Read a post of a user` */
const summaryOf = (path: OperationPath, verb: string) =>
  `${verb} ${one(path.resource.description.singular)}${ofParent(path)}`;

/** ` of a user` */
const ofParent = ({ parent }: OperationPath) => (parent ? ` of ${one(parent.resource.description.singular)}` : "");

/** `a post`, `a user` */
const one = (singular: string) => `${/^[aeio]/i.test(singular) ? "an" : "a"} ${singular}`;

const missingParent = ({ parent }: OperationPath): readonly ProblemStatus[] => (parent ? [404] : []);

const answeredRecord = (
  api: ApiVersion,
  resource: Resource,
  description: string,
  ...names: readonly HeaderName[]
): Response =>
  answered(description, refer("schemas", keyOf(api, resource, "record")), ...validators(resource), ...names);

const hasTimes = ({ modified }: Resource) => modified.length > 0;

const validators = (resource: Resource): HeaderName[] => (hasTimes(resource) ? ["ETag", "Last-Modified"] : ["ETag"]);

const preconditions = (resource: Resource) =>
  shared("If-Match", ...(hasTimes(resource) ? ["If-Unmodified-Since"] : []));

const jsonBody = (schema: JsonSchema): NonNullable<Operation["requestBody"]> => ({
  required: true,
  content: { "application/json": { schema } },
});

type Use = "select" | "insert" | "update" | "delete";

/** Makes credentials optional if the grants allow the operation to anonymous callers. Otherwise empty. */
function securityOf(api: ApiVersion, resource: Resource, use: Use): Pick<Operation, "security"> {
  const { catalog, anonymousRole } = api;
  const { table, description } = resource;
  const isChange = use === "update" || use === "delete";
  const role = isChange && description.editor?.isOpen ? description.editor.role : anonymousRole;
  return mayUseTable(catalog, role, table, use) ? OPEN : {};
}

/** An action changes the record with the rights of the caller. */
function securityOfAction(api: ApiVersion, resource: Resource, action: ActionDescription) {
  const { schema, name } = tableName(action.function);
  const overloads = api.catalog.schemas.get(schema)?.functions.get(name) ?? [];
  const isExecutable = overloads.some((fn) => mayExecute(api.catalog, api.anonymousRole, fn));
  return isExecutable ? securityOf(api, resource, "update") : {};
}
