import { restError as error } from "./problem.ts";

// What endpoints of every kind have to tell.

export const nothingHere = () => error(404, "RESOURCE_NOT_FOUND", "there is nothing at this address");

export const methodNotAllowed = (method: string, allowed: readonly string[]) =>
  error(405, "VALIDATION_ERROR", `${method} is not possible here: use ${allowed.join(", ")}`, {
    headers: { Allow: allowed.join(", ") },
  });

export const loginRequired = () => error(401, "AUTH_REQUIRED", "login required");

export const badRequest = (message: string) => error(400, "BAD_REQUEST", message);

export const badParameter = (name: string, message: string) =>
  error(400, "BAD_REQUEST", message, { faults: [{ field: name, message }] });

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

export const invalidJson = (reason: string) => error(400, "INVALID_JSON", `the body is not valid JSON: ${reason}`);

export const unsupportedMediaType = () =>
  error(415, "VALIDATION_ERROR", "the body must be sent as Content-Type: application/json");
