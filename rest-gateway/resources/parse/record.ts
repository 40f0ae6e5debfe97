import type { Column, TypeShape } from "../../../db/catalog/catalog.ts";
import type { Fault } from "../../conventions/problem.ts";
import { invalidBody, MAX_FAULTS, notAnObject, unknownFields } from "../problem.ts";
import { type Columns, nameIn, type Style } from "../request.ts";
import type { Resource, ResourceField } from "../resource.ts";
import { fits } from "./address.ts";

/** The writable fields of one record, by column. */
export type RecordInput = {
  readonly fields: readonly ResourceField[];
  readonly columns: Columns;
};

export type RecordOptions = {
  readonly resource: Resource;
  readonly style: Style;
  readonly use: "create" | "replace" | "update";
  /** Whether unknown fields are errors; otherwise they are ignored. */
  readonly isStrict: boolean;
  /** The field whose value is in the path. */
  readonly given: ResourceField | null;
  /** Further names that may be written, but not in a record of an array. */
  readonly single: readonly string[];
  /** Names that are ignored: a client may send back what the service adds to a record. */
  readonly own: readonly string[];
};

/** Further faults of a body. */
type MoreFaults = { readonly faults: readonly Fault[]; readonly isMissing: boolean };

/** Reads the object of a body. Throws RestError that lists every fault, including `more`. */
export function parseRecord(body: unknown, options: RecordOptions, more: MoreFaults = NO_MORE): RecordInput {
  const object = objectOf(body);
  const { faults, isMissing, input } = readRecord(object, options);
  const all = [...faults, ...more.faults];
  if (all.length > 0) throw invalidBody(all, options.style.version, isMissing || more.isMissing);
  return input;
}

const NO_MORE: MoreFaults = { faults: [], isMissing: false };

/** Reads an array of objects. Faults name the index and the field: `[3].email`. */
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

/** In either spelling: a client may send back what it has read. */
function givenValue(object: JsonObject, { name, camelName }: ResourceField): unknown {
  if (Object.hasOwn(object, name)) return object[name];
  return Object.hasOwn(object, camelName) ? object[camelName] : undefined;
}

/** Read-only fields are not unknown. */
function refuseUnknown(object: JsonObject, options: RecordOptions): void {
  const { resource, style, single, own } = options;
  const others = [...single, ...own];
  const unknown = Object.keys(object).filter((name) => !resource.fieldNamed.has(name) && !others.includes(name));
  if (unknown.length === 0) return;
  const writable = [...writtenOf(options).map((field) => nameIn(field, style)), ...single];
  throw unknownFields(unknown.map((name) => name.slice(0, 100)).slice(0, MAX_FAULTS), writable);
}

/**
 * Why the type of a column does not allow a value: `must be a text`. Null when it does; other rules are in the database.
 */
function faultOf(value: unknown, { shape, isNullable }: Column): string | null {
  if (value === null) return isNullable ? null : "must not be null";
  if (!shape.isArray) return faultOfOne(value, shape);
  if (!Array.isArray(value)) return "must be a list";
  const faults = value.map((each, i) => [i, each === null ? "must not be null" : faultOfOne(each, shape)] as const);
  const [place, fault] = faults.find(([, fault]) => fault !== null) ?? [];
  return fault === undefined ? null : `at index ${place} ${fault}`;
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

/** Why a value is not a text that Postgres can store; null when it is. */
export function faultOfText(value: unknown): string | null {
  if (!isText(value)) return "must be a text";
  return value.isWellFormed() && !value.includes("\0") ? null : "must not contain NUL or an unpaired surrogate";
}
