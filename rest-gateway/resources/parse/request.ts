import type { IncomingHttpHeaders } from "node:http";
import type { BodyLimits } from "../../../http/body.ts";
import { parseBody } from "../../conventions/json-body.ts";
import { pagingParameters, parsePaging } from "../../conventions/paging.ts";
import type { Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";
import { notAnObject, tooManyRecords } from "../problem.ts";
import {
  isOfOneRow,
  type Key,
  type Operation,
  type Parent,
  type ResourceRequest,
  type Selection,
  type Style,
} from "../request.ts";
import { camelCase, type ResourceField } from "../resource.ts";
import { ACCOUNT_FIELDS, type AccountInput, NO_ACCOUNT, readAccount, refuseAccount } from "./account.ts";
import { parseConditions } from "./conditions.ts";
import { parseOrder } from "./order.ts";
import { parsePreconditions } from "./preconditions.ts";
import type { Preferences } from "./preferences.ts";
import { parseRecord, parseRecords, type RecordInput, type RecordOptions } from "./record.ts";
import type { Route, RouteParent } from "./route.ts";
import { parseSelection, wholeRecord } from "./selection.ts";
import { Values } from "./values.ts";

/** A request whose address and method are known to go together. */
export type Incoming = {
  readonly method: string;
  readonly route: Route;
  readonly parameters: Parameters;
  readonly headers: IncomingHttpHeaders;
  /** Null for methods without one. */
  readonly body: Buffer | null;
  readonly style: Style;
  readonly preferences: Preferences;
  /** Everything, and not a page: what a task does. */
  readonly isExport: boolean;
  /** A new user without a password is refused: he could never sign in. */
  readonly needsPassword?: boolean;
};

export type ParseLimits = BodyLimits & { /** Records that one POST may make. */ readonly records: number };

export type Parsed = {
  readonly request: ResourceRequest;
  /** Of a new user who wants to sign in. */
  readonly account: AccountInput | null;
};

/** What the request asks of the resource. Throws RestError. */
export function parseRequest(incoming: Incoming, limits: ParseLimits): Parsed {
  const { route, style, parameters } = incoming;
  const { resource } = route;
  const values = new Values();
  const fields = parameters.get("fields");
  const selection =
    fields === null ? wholeRecord(resource, style.version === 2) : parseSelection(fields, resource, style);
  const { operation, account } = parseOperation(incoming, selection, values, limits);
  const request = { resource, style, operation, selection, values: values.all };
  return { request: { ...request, shape: shapeOf(request, fields) }, account };
}

type ParsedOperation = { readonly operation: Operation; readonly account: AccountInput | null };

function parseOperation(
  incoming: Incoming,
  selection: Selection,
  values: Values,
  limits: ParseLimits,
): ParsedOperation {
  const { method, route, parameters, headers } = incoming;
  const only = (...names: string[]) => parameters.allowOnly(names);
  const preconditionsOf = () => parsePreconditions(headers, isOfOneRow(selection), values);
  const withoutAccount = (operation: Operation): ParsedOperation => ({ operation, account: null });
  if (route.kind === "action") {
    only("fields");
    const key = { id: values.add(route.id), parent: null };
    return withoutAccount({ kind: "act", key, action: route.action, preconditions: preconditionsOf() });
  }
  if (route.kind === "collection") {
    if (method !== "POST") return withoutAccount(parseList(incoming, route, values));
    only("fields");
    return parseCreate(incoming, route, values, limits);
  }
  const key: Key = { id: values.add(route.id), parent: parentOf(route.parent, values) };
  if (method === "GET" || method === "HEAD") {
    only("fields");
    return withoutAccount({ kind: "read", key });
  }
  const preconditions = preconditionsOf();
  if (method !== "DELETE") {
    only("fields");
    return withoutAccount({ ...parseUpdate(incoming, key, values, limits), preconditions });
  }
  const { cascade } = route.resource.description;
  only(...(cascade.length > 0 ? ["cascade"] : []));
  return withoutAccount({ kind: "delete", key, isCascading: parseCascade(parameters), preconditions });
}

function parseList(incoming: Incoming, route: Route & { kind: "collection" }, values: Values): Operation {
  const { parameters, style, preferences, isExport } = incoming;
  const { resource } = route;
  const { description } = resource;
  const hasVariants = style.version === 1;
  const names = ["fields", "sort", "order", "keyword", ...pagingParameters(hasVariants)];
  const filters = Object.keys(description.filters).map((name) => (style.isCamel ? camelCase(name) : name));
  parameters.allowOnly([...names, ...filters], (name) => resource.filterNamed.has(name));
  const keyword = parameters.get("keyword");
  const paging = parsePaging(parameters, {
    usual: hasVariants ? description.list : "envelope",
    pageSize: description.pageSize,
    hasVariants,
    wrapsSkip: hasVariants && preferences.dialects.has("envelope"),
  });
  return {
    kind: "list",
    parent: parentOf(route.parent, values),
    conditions: parseConditions(parameters, resource, values),
    keyword: keyword === null || keyword === "" ? null : values.add(keyword),
    order: parseOrder(parameters, resource, style),
    paging: isExport ? { form: "export", offset: 0, limit: null } : paging,
  };
}

function parseCreate(
  incoming: Incoming,
  route: Route & { kind: "collection" },
  values: Values,
  limits: ParseLimits,
): ParsedOperation {
  const { resource, parent } = route;
  const body = bodyOf(incoming, limits);
  const given = parent ? fieldOf(parent) : null;
  const options = recordOptions(incoming, "create", given);
  const create = (fields: readonly ResourceField[], json: unknown, isMany: boolean): Operation => ({
    kind: "create",
    parent: parentOf(parent, values),
    fields,
    isMany,
    body: values.add(JSON.stringify(json)),
  });
  if (Array.isArray(body)) {
    if (body.length === 0) throw notAnObject("an empty array");
    if (body.length > limits.records) throw tooManyRecords(limits.records);
    const inputs = parseRecords(body, options);
    return {
      operation: create(
        fieldsOf(inputs),
        inputs.map(({ columns }) => columns),
        true,
      ),
      account: null,
    };
  }
  const account = resource.description.hasAccount ? readAccount(body, incoming.needsPassword ?? false) : NO_ACCOUNT;
  const { fields, columns } = parseRecord(body, options, account);
  return { operation: create(fields, columns, false), account: account.input };
}

function parseUpdate(incoming: Incoming, key: Key, values: Values, limits: ParseLimits) {
  const { method, preferences, route } = incoming;
  const isWhole = method === "PUT" && !preferences.dialects.has("partial");
  const body = bodyOf(incoming, limits);
  const { fields, columns } = parseRecord(body, recordOptions(incoming, isWhole ? "replace" : "update", null));
  if (route.resource.description.hasAccount) refuseAccount(body as object, incoming.style);
  const absent = route.resource.fields.filter((field) => field.write === "always" && !fields.includes(field));
  return {
    kind: "update" as const,
    key,
    fields,
    reset: isWhole ? absent : [],
    body: values.add(JSON.stringify(columns)),
  };
}

const bodyOf = ({ method, headers, body }: Incoming, limits: ParseLimits): unknown =>
  parseBody(body!, headers["content-type"], limits, method);

function recordOptions(incoming: Incoming, use: RecordOptions["use"], given: ResourceField | null): RecordOptions {
  const { route, style, preferences } = incoming;
  const { resource } = route;
  const own = [
    "_links",
    "deprecation",
    ...[...resource.relations.values()].flatMap(({ name, camelName }) => [name, camelName]),
  ];
  const single = use === "create" && resource.description.hasAccount ? ACCOUNT_FIELDS : [];
  return { resource, style, use, isStrict: preferences.handling === "strict", given, single, own };
}

/** Those that any of the records has. */
const fieldsOf = (inputs: readonly RecordInput[]) => [...new Set(inputs.flatMap(({ fields }) => fields))];

const fieldOf = ({ collection }: RouteParent) => collection.resource().fieldNamed.get(collection.field)!;

const parentOf = (parent: RouteParent | null, values: Values): Parent | null =>
  parent && { resource: parent.resource, collection: parent.collection, id: values.add(parent.id) };

function parseCascade(parameters: Parameters): boolean {
  const text = parameters.get("cascade");
  if (text === null || text === "false") return false;
  if (text === "true") return true;
  throw badParameter("cascade", "cascade must be true or false");
}

/** Everything but the values. */
function shapeOf(request: Omit<ResourceRequest, "shape">, fields: string | null): string {
  const { resource, style, operation } = request;
  const { name } = resource.description;
  return `${name} ${style.version}${style.isCamel} ${style.prefix} ${fields ?? "*"} ${operationShape(operation)}`;
}

function operationShape(operation: Operation): string {
  const { kind } = operation;
  const names = (fields: readonly ResourceField[]) => fields.map(({ name }) => name).join();
  const of = (parent: Parent | null) => (parent ? `${parent.resource.description.name}/${parent.collection.name}` : "");
  switch (operation.kind) {
    case "list": {
      const { parent, conditions, keyword, order, paging } = operation;
      const filters = conditions.map(({ filter }) => filter.name).join();
      const sort = order.map(({ field, direction }) => `${field.name}:${direction}`).join();
      return `${kind} ${of(parent)} ${filters} ${keyword !== null} ${sort} ${paging.limit} ${paging.offset}`;
    }
    case "read":
      return `${kind} ${of(operation.key.parent)}`;
    case "create":
      return `${kind} ${of(operation.parent)} ${names(operation.fields)} ${operation.isMany}`;
    case "update": {
      const { key, fields, reset, preconditions } = operation;
      return `${kind} ${of(key.parent)} ${names(fields)} ${names(reset)} ${JSON.stringify(preconditions)}`;
    }
    case "delete": {
      const { key, isCascading, preconditions } = operation;
      return `${kind} ${of(key.parent)} ${isCascading} ${JSON.stringify(preconditions)}`;
    }
    case "act":
      return `${kind} ${operation.action} ${JSON.stringify(operation.preconditions)}`;
  }
}
