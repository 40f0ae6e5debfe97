import { type Fault, Problem, problem } from "../../problems/problem.ts";
import { badRequest } from "../conventions/problem.ts";
import type { Version } from "../conventions/version.ts";
import type { Columns } from "./request.ts";
import type { Resource } from "./resource.ts";

export const invalidId = (text: string, { description, key }: Resource) =>
  problem("invalid id", {
    id: text,
    what: `id of ${description.name}: it must be a ${key.column.shape.name === "uuid" ? "UUID" : "whole number"}`,
    faults: [{ field: key.name, message: "must be a valid id" }],
  });

export const noSuchRow = ({ description: { singular, missing } }: Resource) =>
  problem("no such record", { singular, code: missing });

export const unknownFields = (names: readonly string[], known: readonly string[]) =>
  problem("bad parameter", {
    message: `unknown field ${names.join(", ")}: the writable fields are ${known.join(", ")}`,
    faults: names.map((field) => ({ field, message: "unknown field" })),
  });

export const malformedPrecondition = (header: string) =>
  badRequest(`${header} must be * or a list of entity tags in quotes, such as "v1-734"`);

/** The most faults that one problem lists: more would hide what matters. */
export const MAX_FAULTS = 100;

/** Every fault of a body. The status is 400 in version 1 and 422 in version 2. */
export function invalidBody(faults: readonly Fault[], version: Version, isMissing = false): Problem {
  const reason = version === 2 ? "unprocessable fields" : isMissing ? "missing fields" : "invalid fields";
  return problem(reason, { message: messageOf(faults), faults });
}

/** Values that other rows have already. */
export const valuesTaken = (faults: readonly Fault[]): Problem =>
  problem("values taken", { message: messageOf(faults), faults });

/** Every message once. */
const messageOf = (faults: readonly Fault[]) => [...new Set(faults.map(({ message }) => message))].join("; ");

/** Faults of a body that were found before the database has seen it. `records` are its values without faults, by column. */
export class FoundFaults {
  readonly faults: readonly Fault[];
  readonly isMissing: boolean;
  readonly records: readonly Columns[];
  readonly isMany: boolean;

  constructor({ faults, isMissing, records, isMany }: FoundFaults) {
    this.faults = faults;
    this.isMissing = isMissing;
    this.records = records;
    this.isMany = isMany;
  }
}

/** The problem of such a body, with what was found as its cause. */
export function invalidRecords(found: FoundFaults, version: Version): Problem {
  const { reason, more } = invalidBody(found.faults.slice(0, MAX_FAULTS), version, found.isMissing);
  return new Problem(reason, { ...more, cause: new FoundFaults(found) });
}
