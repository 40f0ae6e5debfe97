import { mayExecute, mayUseTable } from "../../../db/catalog/grants.ts";
import { isWritable, type Resource, type ResourceField, tableName } from "../../../rest-gateway/resources/resource.ts";
import { answered, type HeaderName, notModified, type ProblemStatus, problems } from "../conventions/responses.ts";
import { OPEN } from "../conventions/security.ts";
import type { JsonSchema, Operation, Parameter, PathItem, Response } from "../document.ts";
import { arrayOf, refer, shared } from "../schema-parts.ts";
import { fieldsParameter, idParameter, listParameters } from "./parameters.ts";
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

const recordPath = (path: string, resource: Resource) => `${path}/{${idParameter(resource).name}}`;

function collectionItem(api: ApiVersion, path: OperationPath, isCreatable: boolean): PathItem {
  const { resource, parent } = path;
  const { name, singular } = resource.description;
  const missingParent: readonly ProblemStatus[] = parent ? [404] : [];
  const get = operation(api, path, "list", {
    noun: pascalCase(name),
    summary: `List ${name}${ofParent(path)}`,
    use: "select",
    parameters: [...listParameters(api, resource), ...shared("prefer.list", "If-None-Match")],
    success: {
      200: answered(
        "A page.",
        refer("schemas", keyOf(api, resource, "list")),
        "ETag",
        "X-Total-Count",
        "Link",
        "Change-Position",
      ),
      304: notModified(),
    },
    problems: [400, 401, 403, ...missingParent],
  });
  if (!isCreatable || !isWritable(resource)) return { get };
  const record = refer("schemas", keyOf(api, resource, "record"));
  const input = parent ? createSchema(api, resource, parent.field) : refer("schemas", keyOf(api, resource, "create"));
  const post = operation(api, path, "create", {
    summary: `Create ${one(singular)}${ofParent(path)}, or several`,
    description: `An array creates all of its ${name}, or none.`,
    use: "insert",
    parameters: [fieldsParameter(resource), ...shared("prefer.create")],
    body: { oneOf: [input, { ...arrayOf(input), minItems: 1, maxItems: api.maxRecords }] },
    success: {
      201: answered(
        `Created. \`Location\` is the URL of a single ${singular}.`,
        { oneOf: [record, arrayOf(record)] },
        "Location",
        ...validators(resource),
      ),
    },
    problems: [400, 401, 403, ...missingParent, 409],
  });
  return { get, post };
}

function recordItem(api: ApiVersion, path: OperationPath): PathItem {
  const { resource } = path;
  const { singular, cascade } = resource.description;
  const get = operation(api, path, "read", {
    use: "select",
    parameters: [
      fieldsParameter(resource),
      ...shared("prefer.read", "If-None-Match", ...(hasTimes(resource) ? ["If-Modified-Since"] : [])),
    ],
    success: {
      200: answeredRecord(api, resource, `The ${singular}.`, "Change-Position"),
      304: notModified(...validators(resource).slice(1)),
    },
    problems: [400, 401, 403, 404],
  });
  if (!isWritable(resource)) return { get };
  return {
    get,
    put: changeOperation(api, path, "replace", {
      description: "Fields that are absent from the body are set to their defaults.",
      preferences: "prefer.replace",
      body: refer("schemas", keyOf(api, resource, "replace")),
    }),
    patch: changeOperation(api, path, "update", {
      summary: `Change ${one(singular)}${ofParent(path)}`,
      description: "Fields that are absent from the body keep their values.",
      body: refer("schemas", keyOf(api, resource, "update")),
    }),
    delete: changeOperation(api, path, "delete", {
      use: "delete",
      parameters: shared(...(cascade.length > 0 ? ["cascade"] : [])),
      success: { 204: answered("Deleted.", null) },
    }),
  };
}

/** What differs between operations. */
type Parts = Pick<Operation, "description" | "parameters"> & {
  /** The default is the verb and the resource. */
  readonly summary?: string;
  /** The end of the operation's id. The default is the key of the record. */
  readonly noun?: string;
  /** Without the grant for it, anonymous callers are refused. Null if they are always refused. */
  readonly use: Use | null;
  readonly body?: JsonSchema;
  readonly success: Operation["responses"];
  readonly problems: readonly ProblemStatus[];
};

/** An operation that changes a record. Without other parts, it returns the record. */
function changeOperation(
  api: ApiVersion,
  path: OperationPath,
  verb: string,
  {
    preferences = "prefer.read",
    ...parts
  }: Partial<Parts> & { readonly preferences?: "prefer.read" | "prefer.replace" },
): Operation {
  const { resource } = path;
  const { parameters = [fieldsParameter(resource)] } = parts;
  return operation(api, path, verb, {
    use: "update",
    success: { 200: answeredRecord(api, resource, `The ${resource.description.singular} as it is now.`) },
    problems: [400, 401, 403, 404, 409, 412],
    ...parts,
    parameters: [
      ...parameters,
      ...shared(preferences, "If-Match", ...(hasTimes(resource) ? ["If-Unmodified-Since"] : [])),
    ],
  });
}

/** In version 1 an invalid body is 400. */
const OF_BODIES: Readonly<Record<ApiVersion["version"], readonly ProblemStatus[]>> = {
  1: [413, 415],
  2: [413, 415, 422],
};

/** `readUserPost`: "Read a post of a user". */
function operation(api: ApiVersion, path: OperationPath, verb: string, parts: Parts): Operation {
  const { resource, ids, parent } = path;
  const { name, singular } = resource.description;
  const { noun = keyOf(api, resource, "record"), summary, description, body, use } = parts;
  return {
    operationId: `${verb}${parent ? keyOf(api, parent.resource, "record") : ""}${noun}`,
    summary: summary ?? `${pascalCase(verb)} ${one(singular)}${ofParent(path)}`,
    ...(description && { description }),
    parameters: [...ids, ...parts.parameters, ...shared("version", "X-API-Version")],
    ...(body && { requestBody: { required: true, content: { "application/json": { schema: body } } } }),
    responses: {
      ...parts.success,
      ...problems(...parts.problems, ...(body ? OF_BODIES[api.version] : []), 429, 503, 504),
    },
    ...(use && isOpen(api, resource, use) && OPEN),
    tags: [name],
    ...(api.isDeprecated && { deprecated: true }),
  };
}

/** ` of a user` */
const ofParent = ({ parent }: OperationPath) => (parent ? ` of ${one(parent.resource.description.singular)}` : "");

/** `a post`, `a user` */
const one = (singular: string) => `${/^[aeio]/i.test(singular) ? "an" : "a"} ${singular}`;

const answeredRecord = (
  api: ApiVersion,
  resource: Resource,
  description: string,
  ...names: readonly HeaderName[]
): Response =>
  answered(description, refer("schemas", keyOf(api, resource, "record")), ...validators(resource), ...names);

const hasTimes = ({ modified }: Resource) => modified.length > 0;

const validators = (resource: Resource): HeaderName[] => (hasTimes(resource) ? ["ETag", "Last-Modified"] : ["ETag"]);

type Use = "select" | "insert" | "update" | "delete";

/** Whether the grants allow the operation to anonymous callers, for whom credentials are optional. */
function isOpen({ catalog, anonymousRole }: ApiVersion, { table, description }: Resource, use: Use): boolean {
  const isChange = use === "update" || use === "delete";
  const role = isChange && description.editor?.isOpen ? description.editor.role : anonymousRole;
  return mayUseTable(catalog, role, table, use);
}

/** An action changes the record with the rights of the caller. */
function actOperation(api: ApiVersion, path: OperationPath, name: string): Operation {
  const action = path.resource.description.actions[name]!;
  const { schema, name: called } = tableName(action.function);
  const overloads = api.catalog.schemas.get(schema)?.functions.get(called) ?? [];
  const isExecutable = overloads.some((fn) => mayExecute(api.catalog, api.anonymousRole, fn));
  return changeOperation(api, path, name, { description: action.about, use: isExecutable ? "update" : null });
}
