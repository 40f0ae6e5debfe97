import { badRequest, restError as error, type Fault, type RestError } from "../conventions/problem.ts";
import type { Resource } from "./resource.ts";

/** The table has changed, and who looks after the service has been told. */
export const outOfOrder = (name: string) =>
  error(503, "INTERNAL_ERROR", `${name} are not available at the moment: try again later`);

export const invalidId = (text: string, { description, key }: Resource) =>
  error(
    400,
    "INVALID_ID",
    `"${text}" is no id of ${description.name}: it must be a ${key.column.shape.name === "uuid" ? "UUID" : "whole number"}`,
    { faults: [{ field: key.name, message: "must be an id" }] },
  );

export const noSuchRow = ({ description }: Resource) =>
  error(404, description.missing, `there is no ${description.singular} with this id`);

export const notAnObject = (what: string) =>
  error(400, "VALIDATION_ERROR", `the body must be a JSON object, and not ${what}`);

export const unknownFields = (names: readonly string[], known: readonly string[]) =>
  error(
    400,
    "BAD_REQUEST",
    `there is no field ${names.join(", ")}: those that may be written are ${known.join(", ")}`,
    {
      faults: names.map((field) => ({ field, message: "there is no such field to write" })),
    },
  );

export const unknownPreferences = (names: readonly string[]) =>
  error(400, "BAD_REQUEST", `these preferences are not known: ${names.join(", ")}`);

export const accountsOff = () => badRequest("there are no accounts here: leave out password");

export const preconditionFailed = () =>
  error(412, "PRECONDITION_FAILED", "it has changed meanwhile: read it again before you write");

export const malformedPrecondition = (header: string) =>
  badRequest(`${header} must be * or a list of entity tags in quotes, such as "v1-734"`);

/** The most faults that one problem lists: more would hide what matters. */
export const MAX_FAULTS = 100;

/** What is wrong with the body, all at once. In version 1 it is malformed (400), in version 2 it makes no sense (422). */
export function invalidBody(faults: readonly Fault[], version: 1 | 2, isMissing = false): RestError {
  const message = faults.map(({ message }) => message).join("; ");
  if (version === 2) return error(422, "VALIDATION_ERROR", message, { faults });
  return error(400, isMissing ? "MISSING_FIELD" : "VALIDATION_ERROR", message, { faults });
}

export const tooManyRecords = (max: number) =>
  error(413, "VALIDATION_ERROR", `the list must not have more than ${max} records: send them in several requests`);

export const notPermitted = ({ description }: Resource, action: string) =>
  error(403, "PERMISSION_DENIED", `you may not ${action} this ${description.singular}`);

export const descriptionOff = () =>
  error(404, "RESOURCE_NOT_FOUND", "the description of the interface is switched off (OPENAPI)");
