import { type Fault, problem } from "../../../problems/problem.ts";
import { invalidRecords, MAX_FAULTS, unknownFields } from "../problem.ts";
import { type Columns, LINKS, nameIn, type Style } from "../request.ts";
import { ACCOUNT_FIELDS, type Resource, type ResourceField } from "../resource.ts";
import { type AccountRead, NO_ACCOUNT } from "./account.ts";
import { faultOfJson } from "./values.ts";

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
};

/** Reads the object of a body. Throws Problem that lists every fault, including those of `account`. */
export function parseRecord(body: unknown, options: RecordOptions, account: AccountRead = NO_ACCOUNT): RecordInput {
  if (!isObject(body))
    throw problem("another type than object", {
      type: body === null ? "null" : Array.isArray(body) ? "an array" : `a ${typeof body}`,
    });
  const { faults, isMissing, input } = readRecord(body, options, accountFieldsOf(options));
  const all = [...faults, ...account.faults];
  if (all.length > 0) {
    const found = { faults: all, isMissing: isMissing || account.isMissing, records: [input.columns], isMany: false };
    throw invalidRecords(found, options.style.version);
  }
  return input;
}

/** Reads an array of objects. Faults name the index and the field: `[3].email`. */
export function parseRecords(bodies: readonly unknown[], options: RecordOptions): readonly RecordInput[] {
  const faults: Fault[] = [];
  let isMissing = false;
  const inputs = bodies.map((body, i) => {
    if (!isObject(body)) {
      faults.push({ field: `[${i}]`, message: `[${i}] must be an object` });
      return null;
    }
    const accountFields = accountFieldsOf(options).filter((name) => Object.hasOwn(body, name));
    const read = readRecord(body, options, []);
    isMissing ||= read.isMissing;
    const all = [
      ...accountFields.map((field) => ({ field, message: `${field} must be sent one at a time` })),
      ...read.faults,
    ];
    for (const { field, message } of all) faults.push({ field: `[${i}].${field}`, message: `[${i}].${message}` });
    return read.input;
  });
  if (faults.length > 0) {
    const records = inputs.map((input) => input?.columns ?? {});
    throw invalidRecords({ faults, isMissing, records, isMany: true }, options.style.version);
  }
  return inputs as RecordInput[];
}

type JsonObject = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The fields of an account, which may be written with a new record, but not with several. */
const accountFieldsOf = ({ resource, use }: RecordOptions): readonly string[] =>
  use === "create" && resource.description.hasAccount ? ACCOUNT_FIELDS : [];

/** `more` are further names that may be written. */
function readRecord(object: JsonObject, options: RecordOptions, more: readonly string[]) {
  const { style, use, isStrict } = options;
  if (isStrict) refuseUnknown(object, options, more);
  const faults: Fault[] = [];
  const fields: ResourceField[] = [];
  const columns: Record<string, unknown> = {};
  let isMissing = false;
  for (const field of writtenOf(options)) {
    const name = nameIn(field, style);
    const value = givenValue(object, field);
    const isAbsent = value === undefined;
    if (isAbsent && !(field.isRequired && use !== "update")) continue;
    const fault = isAbsent ? "is required" : faultOfJson(value, field.column);
    isMissing ||= isAbsent;
    if (fault !== null) faults.push({ ...(isAbsent && MISSING), field: name, message: `${name} ${fault}` });
    else {
      fields.push(field);
      columns[field.column.name] = value;
    }
  }
  return { faults, isMissing, input: { fields, columns } };
}

const MISSING = { code: "MISSING_FIELD" } as const;

const writtenOf = ({ resource, use, given }: RecordOptions) =>
  resource.fields.filter(
    (field) => field !== given && (field.write === "always" || (field.write === "on create" && use === "create")),
  );

/** In either spelling: a client may send back what it has read. */
function givenValue(object: JsonObject, { name, camelName }: ResourceField): unknown {
  if (Object.hasOwn(object, name)) return object[name];
  return Object.hasOwn(object, camelName) ? object[camelName] : undefined;
}

/** What the service adds to a record. A client may send it back. */
const ADDED = [LINKS, "deprecation"];

/** Read-only fields are not unknown. */
function refuseUnknown(object: JsonObject, options: RecordOptions, more: readonly string[]): void {
  const { fieldNamed, relationNamed } = options.resource;
  const others = [...accountFieldsOf(options), ...ADDED];
  const isKnown = (name: string) => fieldNamed.has(name) || relationNamed.has(name) || others.includes(name);
  const unknown = Object.keys(object).filter((name) => !isKnown(name));
  if (unknown.length === 0) return;
  const writable = [...writtenOf(options).map((field) => nameIn(field, options.style)), ...more];
  throw unknownFields(unknown.map((name) => name.slice(0, 100)).slice(0, MAX_FAULTS), writable);
}
