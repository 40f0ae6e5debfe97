import { type Fault, RestError, type RestProblem } from "../conventions/problem.ts";
import type { Resource } from "./resource.ts";

const error = (status: number, code: RestProblem["code"], message: string, more: Partial<RestProblem> = {}) =>
  new RestError({ status, code, message, ...more });

export const nothingHere = () => error(404, "RESOURCE_NOT_FOUND", "there is nothing at this address");

/** The table has changed, and who looks after the service has been told. */
export const outOfOrder = (name: string) =>
  error(503, "INTERNAL_ERROR", `${name} are not available at the moment: try again later`);

export const methodNotAllowed = (method: string, allowed: readonly string[]) =>
  error(405, "VALIDATION_ERROR", `${method} is not possible here: use ${allowed.join(", ")}`, {
    headers: { Allow: allowed.join(", ") },
  });

export const badParameter = (name: string, message: string) =>
  error(400, "BAD_REQUEST", message, { faults: [{ field: name, message }] });

export const badRequest = (message: string) => error(400, "BAD_REQUEST", message);

export const unknownParameter = (name: string, known: readonly string[]) =>
  badParameter(name, `there is no parameter "${name}" here: use ${known.join(", ")}`);

/** What a client has sent may be empty, or as long as it likes. */
const told = (text: string) => (text === "" ? '""' : text.slice(0, 50));

export const unsupportedVersion = (version: string, supported: readonly number[]) =>
  error(400, "UNSUPPORTED_VERSION", `version ${told(version)} is not supported: use ${supported.join(" or ")}`, {
    members: { supportedVersions: supported },
  });

export const disagreeingVersions = (versions: readonly string[], supported: readonly number[]) =>
  error(400, "BAD_REQUEST", `the request names several versions, ${versions.map(told).join(" and ")}: name one`, {
    members: { supportedVersions: supported },
  });

export const invalidId = (text: string, { description, key }: Resource) =>
  error(
    400,
    "INVALID_ID",
    `"${text}" is no id of ${description.name}: it must be a ${key.column.shape.name === "uuid" ? "UUID" : "whole number"}`,
    { faults: [{ field: key.name, message: "must be an id" }] },
  );

export const noSuchRow = ({ description }: Resource) =>
  error(404, description.missing, `there is no ${description.singular} with this id`);

export const invalidJson = (reason: string) => error(400, "INVALID_JSON", `the body is not valid JSON: ${reason}`);

export const unsupportedMediaType = () =>
  error(415, "VALIDATION_ERROR", "the body must be sent as Content-Type: application/json");

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

export const loginRequired = () => error(401, "AUTH_REQUIRED", "login required");

export const descriptionOff = () =>
  error(404, "RESOURCE_NOT_FOUND", "the description of the interface is switched off (OPENAPI)");
