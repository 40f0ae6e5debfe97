import type { BodyLimits } from "../../../gate/pipeline/body.ts";
import { problem } from "../../../problems/problem.ts";
import type { PasswordRules } from "../../auth/passwords.ts";
import { parseBody } from "../../conventions/json-body.ts";
import type { Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";
import type { Lifecycle } from "../../conventions/version.ts";
import type { RestLimits } from "../../limits.ts";
import type { CurrentResources } from "../current.ts";
import {
  type Columns,
  isOfOneRow,
  type Key,
  LINKS,
  nameIn,
  type OperationOf,
  type Parent,
  type RequestText,
  type ResourceRequest,
  recordsBody,
  type Selection,
  type Style,
  Values,
} from "../request.ts";
import type { Relation, Resource, ResourceField } from "../resource.ts";
import { NO_ACCOUNT, readAccount, refuseAccount } from "./account.ts";
import { parseRoute, parseUrl, type Route, type RouteParent, segmentsOf } from "./address.ts";
import { type PreferenceParser, parsePreconditions } from "./headers.ts";
import { parseList } from "./list.ts";
import { parseRecord, parseRecords, type RecordInput } from "./record.ts";

export type ParseLimits = BodyLimits &
  Pick<RestLimits, "apiMaxRecords"> & {
    /** The rules for passwords; null without accounts. */
    readonly passwords: PasswordRules | null;
    /** Whether a new user must have a password: without one the user could never sign in. */
    readonly needsPassword?: boolean;
  };

export type ParseOptions = {
  readonly resources: CurrentResources;
  readonly preferences: PreferenceParser;
  readonly lifecycle: Lifecycle;
  readonly limits: ParseLimits;
};

/** Parses the text of a request. Throws Problem. */
export function parseText(
  sent: Pick<RequestText, "method" | "headers" | "body" | "isTask"> & { readonly url: string },
  { resources, preferences, lifecycle, limits }: ParseOptions,
): ResourceRequest {
  const { headers, body, isTask } = sent;
  const text = parseUrl(sent, preferences.parse(headers.prefer), lifecycle.supported);
  return parseRequest({ ...text, body, isTask }, parseRoute(segmentsOf(text), resources), limits);
}

/** An operation with what it writes. */
type Content = Pick<ResourceRequest, "operation"> & Partial<Pick<ResourceRequest, "body" | "account">>;

/** Parses a request whose path supports its method. Throws Problem. */
export function parseRequest(text: RequestText, route: Route, limits: ParseLimits): ResourceRequest {
  const { style, parameters } = text;
  const { resource } = route;
  const values = new Values();
  const fields = parameters.get("fields");
  const selection =
    fields === null ? wholeRecord(resource, style.version === 2) : parseSelection(fields, resource, style);
  const written =
    route.kind === "collection"
      ? parseCollection(text, route, values, limits)
      : parseOne(text, route, values, limits, isOfOneRow(selection));
  const request = { resource, style, selection, values: values.all, body: null, account: null, ...written };
  return { ...request, shape: shapeOf(request, fields) };
}

function parseCollection(text: RequestText, route: CollectionRoute, values: Values, limits: ParseLimits): Content {
  const { method, parameters, style, preferences, isTask } = text;
  const parent = parentOf(route.parent, values);
  if (method === "POST") {
    parameters.allowOnly(["fields"]);
    return parseCreate(text, route, parent, limits);
  }
  const list = parseList(parameters, route.resource, style, preferences.dialects.has("envelope"), values);
  return { operation: { ...list, parent, ...(isTask && method === "GET" && { paging: EXPORT }) } };
}

type CollectionRoute = Extract<Route, { kind: "collection" }>;

const EXPORT = { form: "export", offset: 0, limit: null } as const;

/** A record, or an action on it. The response has a date if it is `ofOneRow`. */
function parseOne(
  text: RequestText,
  route: Exclude<Route, CollectionRoute>,
  values: Values,
  limits: ParseLimits,
  ofOneRow: boolean,
): Content {
  const { method, parameters, headers } = text;
  const parent = route.kind === "record" ? parentOf(route.parent, values) : null;
  const key: Key = { id: values.add(route.id), parent };
  const { cascade } = route.resource.description;
  const isDelete = route.kind === "record" && method === "DELETE";
  parameters.allowOnly(isDelete ? (cascade.length > 0 ? ["cascade"] : []) : ["fields"]);
  if (route.kind === "record" && (method === "GET" || method === "HEAD")) return { operation: { kind: "read", key } };

  const preconditions = parsePreconditions(headers, ofOneRow, values);
  if (route.kind === "action") return { operation: { kind: "act", key, action: route.action, preconditions } };
  if (isDelete) return { operation: { kind: "delete", key, isCascading: parseCascade(parameters), preconditions } };
  const { body, ...written } = parseUpdate(text, route.resource, limits);
  return { operation: { kind: "update", key, preconditions, ...written }, body };
}

function parseCreate(
  text: RequestText,
  { resource, parent: routed }: CollectionRoute,
  parent: Parent | null,
  limits: ParseLimits,
): Content {
  const body = bodyOf(text, limits);
  const options = { ...optionsOf(text), resource, use: "create", given: routed?.field ?? null } as const;
  const inPath = routed ? { [routed.field.column.name]: routed.id } : {};
  const create = (inputs: readonly RecordInput[], isMany: boolean): Content => {
    const fields = fieldsOf(inputs);
    const fillsDefaults = inputs.some((input) => input.fields.length < fields.length);
    const records = inputs.map(({ columns }): Columns => ({ ...columns, ...inPath }));
    const operation: OperationOf<"create"> = { kind: "create", parent, fields, isMany, fillsDefaults };
    return { operation, body: recordsBody(records, isMany) };
  };
  if (Array.isArray(body)) {
    if (body.length === 0) throw problem("another type than object", { type: "an empty array" });
    if (body.length > limits.apiMaxRecords) throw problem("too many records", { max: limits.apiMaxRecords });
    return create(parseRecords(body, options), true);
  }
  const account = resource.description.hasAccount
    ? readAccount(body, limits.needsPassword ?? false, limits.passwords!)
    : NO_ACCOUNT;
  return { ...create([parseRecord(body, options, account)], false), account: account.input };
}

function parseUpdate(text: RequestText, resource: Resource, limits: ParseLimits) {
  const { method, preferences, style } = text;
  const isWhole = method === "PUT" && !preferences.dialects.has("partial");
  const body = bodyOf(text, limits);
  const use = isWhole ? "replace" : "update";
  const { fields, columns } = parseRecord(body, { ...optionsOf(text), resource, use, given: null });
  if (resource.description.hasAccount) refuseAccount(body as object, style);
  const absent = resource.fields.filter((field) => field.write === "always" && !fields.includes(field));
  return { fields, reset: isWhole ? absent : [], body: recordsBody([columns], false) };
}

const bodyOf = ({ method, headers, body }: RequestText, limits: ParseLimits): unknown =>
  parseBody(body!, headers["content-type"], limits, method);

const optionsOf = ({ style, preferences }: RequestText) => ({ style, isStrict: preferences.handling === "strict" });

/** Fields of any of the records. */
const fieldsOf = (inputs: readonly RecordInput[]) => [...new Set(inputs.flatMap(({ fields }) => fields))];

const parentOf = (parent: RouteParent | null, values: Values): Parent | null =>
  parent && { resource: parent.resource, field: parent.field, id: values.add(parent.id) };

function parseCascade(parameters: Parameters): boolean {
  const text = parameters.get("cascade");
  if (text === null || text === "false") return false;
  if (text === "true") return true;
  throw badParameter("cascade", "cascade must be true or false");
}

/** Everything about a request except its values. */
function shapeOf({ resource, style, operation }: Omit<ResourceRequest, "shape">, fields: string | null): string {
  const { version, isCamel, prefix } = style;
  return `${resource.name} ${version}${isCamel} ${prefix} ${fields ?? "*"} ${JSON.stringify(operation, byName)}`;
}

/** Resources, fields and filters have unique names. */
const byName = (_: string, value: unknown) =>
  typeof value === "object" && value !== null && "name" in value ? value.name : value;

/** Maximum relations in a name: `post.author.name` has two. */
const MAX_DEPTH = 3;

/** Every field, and the links if the version has them. */
const wholeRecord = (resource: Resource, hasLinks: boolean): Selection => ({
  fields: resource.fields,
  relations: [],
  hasLinks,
});

/** `fields=title,author.name`. Throws Problem for an unknown field. */
function parseSelection(text: string, resource: Resource, style: Style): Selection {
  const paths = text.split(",").map((name) => name.trim().split("."));
  if (paths.some((path) => path.length > MAX_DEPTH + 1)) {
    throw badParameter("fields", `fields must go through at most ${MAX_DEPTH} relations`);
  }
  return select(paths, resource, style);
}

type Path = readonly string[];

function select(paths: readonly Path[], resource: Resource, style: Style): Selection {
  for (const [name = ""] of paths) refuseUnknown(name, resource, style);
  for (const [name = "", ...more] of paths) {
    if (more.length > 0 && !resource.relationNamed.has(name)) throw badParameter("fields", `${name} has no fields`);
  }
  const below = ({ name, camelName }: ResourceField | Relation): readonly Path[] =>
    paths.filter(([first]) => first === name || first === camelName).map((path) => path.slice(1));
  return {
    fields: resource.fields.filter((field) => below(field).length > 0),
    relations: resource.relations.flatMap((relation) => {
      const inner = below(relation);
      return inner.length === 0 ? [] : [{ relation, selection: selectNested(inner, relation.resource(), style) }];
    }),
    hasLinks: paths.some(([name]) => name === LINKS),
  };
}

/** `author` alone selects all of its fields. */
const selectNested = (paths: readonly Path[], resource: Resource, style: Style): Selection =>
  paths.some((path) => path.length === 0) ? wholeRecord(resource, false) : select(paths, resource, style);

function refuseUnknown(name: string, resource: Resource, style: Style): void {
  const { fields, fieldNamed, relations, relationNamed } = resource;
  if (fieldNamed.has(name) || relationNamed.has(name) || name === LINKS) return;
  const known = [...fields, ...relations].map((named) => nameIn(named, style));
  throw badParameter("fields", `"${name}" is not a field of ${resource.name}: use ${[...known, LINKS].join(", ")}`);
}
