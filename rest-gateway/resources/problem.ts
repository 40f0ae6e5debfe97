import type { Fault } from "../../db/problems/problem.ts";
import { badRequest, restError as error, RestError } from "../conventions/problem.ts";
import type { Version } from "../conventions/version.ts";
import type { Columns } from "./request.ts";
import type { Resource } from "./resource.ts";

/** The table no longer matches the description, which the operator finds in the log. */
export const outOfOrder = (name: string) =>
  error(503, "INTERNAL_ERROR", `${name} are not available at the moment: try again later`);

export const invalidId = (text: string, { description, key }: Resource) =>
  error(
    400,
    "INVALID_ID",
    `"${text}" is not a valid id of ${description.name}: it must be a ${key.column.shape.name === "uuid" ? "UUID" : "whole number"}`,
    { faults: [{ field: key.name, message: "must be a valid id" }] },
  );

export const noSuchRow = ({ description }: Resource) =>
  error(404, description.missing, `there is no ${description.singular} with this id`);

export const notAnObject = (what: string) =>
  error(400, "VALIDATION_ERROR", `the body must be a JSON object, not ${what}`);

export const unknownFields = (names: readonly string[], known: readonly string[]) =>
  error(400, "BAD_REQUEST", `unknown field ${names.join(", ")}: the writable fields are ${known.join(", ")}`, {
    faults: names.map((field) => ({ field, message: "unknown field" })),
  });

export const unknownPreferences = (names: readonly string[]) =>
  error(400, "BAD_REQUEST", `unknown preferences: ${names.join(", ")}`);

export const preconditionFailed = () =>
  error(412, "PRECONDITION_FAILED", "the record has changed: read it again before you change it");

export const malformedPrecondition = (header: string) =>
  badRequest(`${header} must be * or a list of entity tags in quotes, such as "v1-734"`);

/** The most faults that one problem lists: more would hide what matters. */
export const MAX_FAULTS = 100;

/** Every fault of a body. The status is 400 in version 1 and 422 in version 2. */
export function invalidBody(faults: readonly Fault[], version: Version, isMissing = false): RestError {
  const message = [...new Set(faults.map(({ message }) => message))].join("; ");
  if (version === 2) return error(422, "VALIDATION_ERROR", message, { faults });
  return error(400, isMissing ? "MISSING_FIELD" : "VALIDATION_ERROR", message, { faults });
}

/** Values that other rows have already. */
export const valuesTaken = (faults: readonly Fault[]): RestError =>
  error(409, "RESOURCE_CONFLICT", [...new Set(faults.map(({ message }) => message))].join("; "), { faults });

/** Faults of a body that were found before the database has seen it. `records` are its values without faults, by column. */
export class InvalidRecords extends RestError {
  readonly faults: readonly Fault[];
  readonly isMissing: boolean;
  readonly records: readonly Columns[];
  readonly isMany: boolean;

  constructor(found: Pick<InvalidRecords, "faults" | "isMissing" | "records" | "isMany">, version: Version) {
    super(invalidBody(found.faults.slice(0, MAX_FAULTS), version, found.isMissing).problem);
    this.faults = found.faults;
    this.isMissing = found.isMissing;
    this.records = found.records;
    this.isMany = found.isMany;
  }
}

export const tooManyRecords = (max: number) =>
  error(413, "VALIDATION_ERROR", `the list must not have more than ${max} records: send them in several requests`);

export const notPermitted = ({ description }: Resource, action: string) =>
  error(403, "PERMISSION_DENIED", `you may not ${action} this ${description.singular}`);

export const descriptionOff = () => error(404, "RESOURCE_NOT_FOUND", "the OpenAPI document is switched off (OPENAPI)");
