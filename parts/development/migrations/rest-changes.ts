import type {
  Content,
  JsonSchema,
  OpenApiDocument,
  Operation,
  Parameter,
  PathItem,
  Reference,
} from "../../openapi/document.ts";

/** A difference between two descriptions of an interface; breaking if clients of the first one may fail. */
export type ContractChange = { readonly text: string; readonly isBreaking: boolean };

/** `request`: what clients send, where less is accepted. `response`: what they receive, where more may come. */
type Direction = "request" | "response";

/**
 * What changes for clients between two descriptions of `/rest/v1`: paths, parameters, and the properties and types of bodies. The
 * generated TypeScript types follow from the same.
 *
 *   // [{ text: "notes.title is no longer in responses", isBreaking: true }]
 */
export function restChanges(before: OpenApiDocument | null, after: OpenApiDocument | null): readonly ContractChange[] {
  const found = new Map<string, boolean>();
  const report = (isBreaking: boolean, text: string) => void found.set(text, isBreaking || found.get(text) === true);
  const compared = new Set<string>();
  const [old, now] = [before?.paths ?? {}, after?.paths ?? {}];
  for (const path of Object.keys(now)) if (!(path in old)) report(false, `${path} was added`);
  for (const [path, item] of Object.entries(old)) {
    if (now[path] === undefined) report(true, `${path} was removed`);
    else comparePath(path, item, now[path]);
  }
  return [...found].map(([text, isBreaking]) => ({ text, isBreaking }));

  function comparePath(path: string, was: PathItem, is: PathItem): void {
    for (const method of METHODS) {
      const name = `${method === "x-query" ? "QUERY" : method.toUpperCase()} ${path}`;
      const [first, second] = [was[method], is[method]];
      if (first && !second) report(true, `${name} was removed`);
      if (!first && second) report(false, `${name} was added`);
      if (first && second) compareOperation(path, name, first, second);
    }
  }

  function compareOperation(path: string, name: string, was: Operation, is: Operation): void {
    const [first, second] = [parametersOf(was, before!), parametersOf(is, after!)];
    for (const [key, { schema, required }] of first) {
      const other = second.get(key);
      if (!other) report(true, `${path}: the parameter ${key} was removed`);
      else if (other.required && !required) report(true, `${path}: the parameter ${key} is now required`);
      if (other) compareSchema(schema, other.schema, "request", `${path}: the parameter ${key}`);
    }
    for (const [key, { required }] of second)
      if (!first.has(key))
        report(required, `${path}: the parameter ${key} was added${required ? ", and is required" : ""}`);
    if (is.requestBody?.required && !was.requestBody?.required) report(true, `${name} now requires a body`);
    compareContent(was.requestBody?.content, is.requestBody?.content, "request", `the body of ${name}`);
    for (const [status, response] of Object.entries(was.responses)) {
      if (!status.startsWith("2")) continue;
      const [one, other] = [resolve(before!, response), is.responses[status] && resolve(after!, is.responses[status])];
      if (!other) report(true, `${name} no longer responds with ${status}`);
      else compareContent(one.content, other.content, "response", `the response of ${name}`);
    }
  }

  function compareContent(was: Content = {}, is: Content = {}, direction: Direction, label: string): void {
    for (const [type, { schema }] of Object.entries(was)) {
      if (!is[type]) report(true, `${label} is no longer ${type}`);
      else compareSchema(schema, is[type].schema, direction, label);
    }
  }

  function compareSchema(was: JsonSchema, is: JsonSchema, direction: Direction, given: string): void {
    const component = was.$ref !== undefined && was.$ref === is.$ref ? was.$ref.split("/").at(-1)! : null;
    const label = component ?? given;
    const key = `${direction} ${label}`;
    if (component !== null && compared.has(key)) return;
    if (component !== null) compared.add(key);
    const [first, second] = [resolve(before!, was), resolve(after!, is)] as [JsonSchema, JsonSchema];
    const [some, others] = [first.anyOf ?? [first], second.anyOf ?? [second]];
    if (some.length !== others.length) report(true, `${label} has other alternatives in ${direction}s`);
    else if (first.anyOf || second.anyOf)
      for (const [i, each] of some.entries()) compareSchema(each, others[i]!, direction, label);
    else compareValue(first, second, direction, label);
  }

  function compareValue(was: JsonSchema, is: JsonSchema, direction: Direction, label: string): void {
    for (const { text, isBreaking } of valueChanges(was, is, direction))
      report(isBreaking, `${label} ${text} in ${direction}s`);
    if (was.items && is.items) compareSchema(was.items, is.items, direction, label);
    compareProperties(was, is, direction, label);
  }

  function compareProperties(was: JsonSchema, is: JsonSchema, direction: Direction, label: string): void {
    const [first, second] = [was.properties ?? {}, is.properties ?? {}];
    const nameOf = (name: string) => (label.includes(" ") ? `${name} of ${label}` : `${label}.${name}`);
    const isRequired = (schema: JsonSchema, name: string) => schema.required?.includes(name) === true;
    for (const [name, schema] of Object.entries(first)) {
      const property = nameOf(name);
      if (!second[name]) report(true, `${property} is no longer in ${direction}s`);
      else compareSchema(schema, second[name], direction, property);
      if (second[name] && direction === "request" && isRequired(is, name) && !isRequired(was, name))
        report(true, `${property} is now required in requests`);
      if (second[name] && direction === "response" && isRequired(was, name) && !isRequired(is, name))
        report(true, `${property} may be missing in responses`);
    }
    for (const name of Object.keys(second)) {
      if (first[name]) continue;
      const isNeeded = direction === "request" && isRequired(is, name);
      report(isNeeded, `${nameOf(name)} is new in ${direction}s${isNeeded ? ", and required" : ""}`);
    }
  }
}

const METHODS = ["get", "post", "put", "patch", "delete", "x-query"] as const;

/** By `?name` of a query, `{name}` of a path or the name of a header. */
function parametersOf({ parameters }: Operation, document: OpenApiDocument): ReadonlyMap<string, Parameter> {
  return new Map(
    parameters.map((each) => {
      const parameter = resolve(document, each);
      const { name } = parameter;
      return [{ query: `?${name}`, path: `{${name}}`, header: name }[parameter.in], parameter];
    }),
  );
}

/** Follows `#/components/schemas/notes`. */
function resolve<T extends object>(document: OpenApiDocument, value: T | Reference): T {
  if (!("$ref" in value) || typeof value.$ref !== "string") return value as T;
  const [, , kind, name] = value.$ref.split("/");
  return (document.components as unknown as Record<string, Record<string, T>>)[kind!]![name!]!;
}

/** The changes of a value itself, without its properties and items. */
function valueChanges(was: JsonSchema, is: JsonSchema, direction: Direction): readonly ContractChange[] {
  // What has to be a part of what, so that nothing breaks.
  const [part, whole] = direction === "request" ? [was, is] : [is, was];
  const changes: ContractChange[] = [];
  const add = (isBreaking: boolean, text: string) => void changes.push({ text, isBreaking });
  if (typeText(was) !== typeText(is))
    add(!isPartOf(typesOf(part), typesOf(whole)), `was ${typeText(was)}, and is ${typeText(is)}`);
  else if (was.format !== is.format && typesOf(was)?.has("null") === typesOf(is)?.has("null"))
    add(
      !isFormatOf(part.format, whole.format, direction),
      `was ${was.format ?? "any text"}, and is ${is.format ?? "any text"}`,
    );
  const [removed, added] = [without(was.enum, is.enum), without(is.enum, was.enum)];
  if (was.enum && is.enum && removed.length > 0) add(direction === "request", `can no longer be ${removed.join(", ")}`);
  if (was.enum && is.enum && added.length > 0) add(false, `can also be ${added.join(", ")}`);
  if (was.enum && !is.enum) add(direction === "response", "can be any text");
  if (!was.enum && is.enum) add(direction === "request", `can only be ${is.enum.join(", ")}`);
  if (direction === "request" && (is.maxLength ?? Infinity) < (was.maxLength ?? Infinity))
    add(true, `has at most ${is.maxLength} characters`);
  return changes;
}

const without = (values: JsonSchema["enum"] = [], others: JsonSchema["enum"] = []) =>
  values.filter((each) => each !== null && !others.includes(each));

/** Undefined for any value. */
const typesOf = ({ type }: JsonSchema): ReadonlySet<string> | undefined =>
  type === undefined ? undefined : new Set(typeof type === "string" ? [type] : type);

/** `string or null` */
const typeText = (schema: JsonSchema): string => [...(typesOf(schema) ?? ["any value"])].join(" or ");

const isPartOf = (part: ReadonlySet<string> | undefined, whole: ReadonlySet<string> | undefined): boolean =>
  whole === undefined ||
  (part !== undefined && [...part].every((type) => whole.has(type) || (type === "integer" && whole.has("number"))));

/** Whether values of one format are values of the other. Responses with larger numbers break no client. */
const isFormatOf = (part: string | undefined, whole: string | undefined, direction: Direction): boolean =>
  whole === undefined ||
  (/^int/.test(part ?? "") && /^int/.test(whole) && (direction === "response" || bits(part!) <= bits(whole)));

const bits = (format: string): number => Number(format.replace("int", ""));
