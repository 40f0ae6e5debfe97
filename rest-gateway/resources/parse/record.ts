import type { Column, TypeShape } from "../../../db/catalog/catalog.ts";
import type { Fault } from "../../conventions/problem.ts";
import { invalidBody, MAX_FAULTS, notAnObject, unknownFields } from "../problem.ts";
import { type Columns, nameIn, type Style } from "../request.ts";
import type { Resource, ResourceField } from "../resource.ts";
import { fits } from "./address.ts";

/** What a body says of one record, by column; only what clients may write. */
export type RecordInput = {
  readonly fields: readonly ResourceField[];
  readonly columns: Columns;
};

export type RecordOptions = {
  readonly resource: Resource;
  readonly style: Style;
  readonly use: "create" | "replace" | "update";
  /** Unknown fields are refused by name, and not passed over. */
  readonly isStrict: boolean;
  /** The field whose value the address gives. */
  readonly given: ResourceField | null;
  /** Further names that may be written, though not in a record among several. */
  readonly single: readonly string[];
  /** Names that are passed over: what the service adds to a record may come back with it. */
  readonly own: readonly string[];
};

/** What else is wrong with a body. */
type MoreFaults = { readonly faults: readonly Fault[]; readonly isMissing: boolean };

/** Reads the object of a body. Throws RestError that names every fault, `more` among them. */
export function parseRecord(body: unknown, options: RecordOptions, more: MoreFaults = NO_MORE): RecordInput {
  const object = objectOf(body);
  const { faults, isMissing, input } = readRecord(object, options);
  const all = [...faults, ...more.faults];
  if (all.length > 0) throw invalidBody(all, options.style.version, isMissing || more.isMissing);
  return input;
}

const NO_MORE: MoreFaults = { faults: [], isMissing: false };

/** The same for an array of them; places stand before the fields: `[3].email`. */
export function parseRecords(bodies: readonly unknown[], options: RecordOptions): readonly RecordInput[] {
  const faults: Fault[] = [];
  let isMissing = false;
  const ofEach = { ...options, single: [], own: [...options.own, ...options.single] };
  const inputs = bodies.map((body, i) => {
    if (!isObject(body)) {
      faults.push({ field: `[${i}]`, message: `[${i}] must be an object` });
      return null;
    }
    for (const name of options.single) {
      if (Object.hasOwn(body, name))
        faults.push({ field: `[${i}].${name}`, message: `[${i}].${name} must be sent one at a time` });
    }
    const read = readRecord(body, ofEach);
    isMissing ||= read.isMissing;
    for (const { field, message } of read.faults)
      faults.push({ field: `[${i}].${field}`, message: `[${i}].${message}` });
    return read.input;
  });
  if (faults.length > 0) throw invalidBody(faults.slice(0, MAX_FAULTS), options.style.version, isMissing);
  return inputs as RecordInput[];
}

type JsonObject = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function objectOf(body: unknown): JsonObject {
  if (isObject(body)) return body;
  throw notAnObject(body === null ? "null" : Array.isArray(body) ? "an array" : `a ${typeof body}`);
}

function readRecord(object: JsonObject, options: RecordOptions) {
  const { style, use, isStrict } = options;
  if (isStrict) refuseUnknown(object, options);
  const faults: Fault[] = [];
  const fields: ResourceField[] = [];
  const columns: Record<string, unknown> = {};
  let isMissing = false;
  for (const field of writtenOf(options)) {
    const name = nameIn(field, style);
    const value = givenValue(object, field);
    const isAbsent = value === undefined;
    if (isAbsent && !(field.isRequired && use !== "update")) continue;
    const fault = isAbsent ? "is required" : faultOf(value, field.column);
    isMissing ||= isAbsent;
    if (fault !== null) faults.push({ field: name, message: `${name} ${fault}` });
    else {
      fields.push(field);
      columns[field.column.name] = value;
    }
  }
  return { faults, isMissing, input: { fields, columns } };
}

const writtenOf = ({ resource, use, given }: RecordOptions) =>
  resource.fields.filter(
    (field) => field !== given && (field.write === "always" || (field.write === "on create" && use === "create")),
  );

/** Under either spelling: a client may send back what it has read. */
function givenValue(object: JsonObject, { name, camelName }: ResourceField): unknown {
  if (Object.hasOwn(object, name)) return object[name];
  return Object.hasOwn(object, camelName) ? object[camelName] : undefined;
}

/** What is read-only is none of the unknown. */
function refuseUnknown(object: JsonObject, options: RecordOptions): void {
  const { resource, style, single, own } = options;
  const others = [...single, ...own];
  const unknown = Object.keys(object).filter((name) => !resource.fieldNamed.has(name) && !others.includes(name));
  if (unknown.length === 0) return;
  const writable = [...writtenOf(options).map((field) => nameIn(field, style)), ...single];
  throw unknownFields(unknown.map((name) => name.slice(0, 100)).slice(0, MAX_FAULTS), writable);
}

/**
 * Why a column can't have a value: `must be a text`. Null when it may, as far as its type goes; the rules are the
 * database's.
 */
function faultOf(value: unknown, { shape, isNullable }: Column): string | null {
  if (value === null) return isNullable ? null : "must not be null";
  if (!shape.isArray) return faultOfOne(value, shape);
  if (!Array.isArray(value)) return "must be a list";
  const faults = value.map((each, i) => [i, each === null ? "must not be null" : faultOfOne(each, shape)] as const);
  const [place, fault] = faults.find(([, fault]) => fault !== null) ?? [];
  return fault === undefined ? null : `has in place ${place} what ${fault}`;
}

const isText = (value: unknown): value is string => typeof value === "string";

function faultOfOne(value: unknown, shape: TypeShape): string | null {
  if (shape.category === "enum") {
    return isText(value) && shape.labels.includes(value) ? null : `must be one of ${shape.labels.join(", ")}`;
  }
  switch (shape.name) {
    case "bool":
      return typeof value === "boolean" ? null : "must be true or false";
    case "int2":
    case "int4":
    case "int8":
      if (!Number.isInteger(value)) return "must be a whole number";
      return Number.isSafeInteger(value) && fits(String(value), shape) ? null : "is out of range";
    case "float4":
    case "float8":
    case "numeric":
      if (typeof value !== "number") return "must be a number";
      return Number.isFinite(value) ? null : "is out of range";
    case "json":
    case "jsonb":
      return null;
    default:
      return faultOfText(value);
  }
}

/** Why a value is no text that Postgres could keep; null when it is one. */
export function faultOfText(value: unknown): string | null {
  if (!isText(value)) return "must be a text";
  return value.isWellFormed() && !value.includes("\0")
    ? null
    : "must not have a NUL character or half of a surrogate pair";
}
