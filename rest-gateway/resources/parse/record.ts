import type { Fault } from "../../conventions/problem.ts";
import { invalidBody, notAnObject, unknownFields } from "../problem.ts";
import { nameIn, type Style } from "../request.ts";
import type { Resource, ResourceField } from "../resource.ts";
import { faultOf } from "./values-of-fields.ts";

/** What a body says of one record, by column; only what clients may write. */
export type RecordInput = {
  readonly fields: readonly ResourceField[];
  readonly columns: Readonly<Record<string, unknown>>;
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

/** More would hide what matters. */
export const MAX_FAULTS = 100;

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
