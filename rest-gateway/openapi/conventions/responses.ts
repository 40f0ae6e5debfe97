import type { ErrorDialect } from "../../conventions/problem.ts";
import type { Header, JsonSchema, Reference, Response } from "../document.ts";
import { arrayOf, CHANGE_POSITION, objectOf, refer, textOf, timeOf, withOptional } from "../schema-parts.ts";

type Problem = {
  readonly key: string;
  readonly description: string;
  readonly headers?: readonly (keyof typeof HEADERS)[];
};

/** The error responses of the REST conventions, by status. */
const PROBLEMS = {
  400: {
    key: "BadRequest",
    description:
      "The path, a parameter, a header or the body is not valid. In version 1, also if the body breaks a rule.",
  },
  401: {
    key: "Unauthorized",
    description: "The credentials are missing, invalid or expired.",
    headers: ["WWW-Authenticate"],
  },
  403: { key: "Forbidden", description: "The caller does not have permission." },
  404: {
    key: "NotFound",
    description: "The record does not exist, or the record to which the list belongs does not exist.",
  },
  409: {
    key: "Conflict",
    description: "A value is already taken, other records refer to this one, or a concurrent request has changed it.",
  },
  412: {
    key: "PreconditionFailed",
    description: "The record has changed: it no longer matches `If-Match` or `If-Unmodified-Since`.",
  },
  413: { key: "TooLarge", description: "The body is too large or contains too many records." },
  415: {
    key: "UnsupportedMediaType",
    description: "The body is not `application/json` in UTF-8, or it is compressed.",
  },
  422: { key: "Unprocessable", description: "The body breaks rules; `errors` lists all of them." },
  429: {
    key: "TooManyRequests",
    description: "A rate limit is exceeded. Retry after the seconds in `Retry-After`.",
    headers: ["Retry-After"],
  },
  503: {
    key: "Unavailable",
    description: "The service is starting or stopping, or has no connection to the database. Retry later.",
    headers: ["Retry-After"],
  },
  504: { key: "Timeout", description: "The database took too long. Retry, or request less data." },
} as const satisfies Record<number, Problem>;

export type ProblemStatus = keyof typeof PROBLEMS;

export const problemResponses = (): Readonly<Record<string, Response>> =>
  Object.fromEntries(
    Object.values<Problem>(PROBLEMS).map(({ key, description, headers = [] }) => [
      key,
      {
        description,
        ...(headers.length > 0 && { headers: headerReferences(...headers) }),
        content: { "application/json": { schema: refer("schemas", "Problem") } },
      },
    ]),
  );

/** `{ "400": { $ref: … }, … }` */
export const problems = (...statuses: readonly ProblemStatus[]): Readonly<Record<string, Reference>> =>
  Object.fromEntries(statuses.map((status) => [String(status), refer("responses", PROBLEMS[status].key)]));

const text: JsonSchema = { type: "string" };
const number: JsonSchema = { type: "integer", minimum: 0 };

/** Response headers by name. */
export const HEADERS = {
  "X-Request-Id": {
    description: "The id of the request in the log. If the client sends an id, it is used.",
    schema: text,
  },
  "X-API-Version": { description: "The API version of the response.", schema: text },
  "X-RateLimit-Limit": {
    description: "The number of requests allowed per minute. Omitted if there is no limit.",
    schema: number,
  },
  "X-RateLimit-Remaining": { description: "The number of requests that may follow at once.", schema: number },
  "Preference-Applied": { description: "The preferences that took effect.", schema: text },
  ETag: {
    description:
      "The version of the content, for `If-None-Match`. The version of a record can also be sent as `If-Match`.",
    schema: text,
  },
  "Last-Modified": { description: "When the record was last changed.", schema: text },
  Location: { description: "The URL of the new record or task, or where the browser continues.", schema: text },
  Link: { description: "The URLs of the pages `first`, `prev`, `next` and `last`.", schema: text },
  "Set-Cookie": {
    description: "Sets or deletes the session cookie, or that of a sign-in at a provider.",
    schema: text,
  },
  "Change-Position": { description: CHANGE_POSITION, schema: text },
  "X-Total-Count": { description: "The total number of records.", schema: number },
  "WWW-Authenticate": { description: "The accepted authentication scheme.", schema: text },
  "Retry-After": { description: "Seconds until a retry is useful.", schema: number },
} as const satisfies Record<string, Header>;

export type HeaderName = keyof typeof HEADERS;

const IN_EVERY_RESPONSE: readonly HeaderName[] = [
  "X-Request-Id",
  "X-API-Version",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "Preference-Applied",
];

export const headerReferences = (...names: readonly HeaderName[]): Readonly<Record<string, Reference>> =>
  Object.fromEntries(names.map((name) => [name, refer("headers", name)]));

/** A successful response; `schema` is null if it has no body. */
export const answered = (
  description: string,
  schema: JsonSchema | null,
  ...names: readonly HeaderName[]
): Response => ({
  description,
  headers: headerReferences(...IN_EVERY_RESPONSE, ...names),
  ...(schema && { content: { "application/json": { schema } } }),
});

export const notModified = (...names: readonly HeaderName[]): Response =>
  answered("The cached version of the client is still current.", null, "ETag", ...names);

const CODE = textOf("For programs, such as `USER_NOT_FOUND`.");
const MESSAGE = textOf("For people.");

const FAULTS = arrayOf(
  objectOf({
    field: textOf("Such as `email`, `tags[0]` or `[3].email`."),
    code: textOf("For programs, such as `RESOURCE_CONFLICT`."),
    message: textOf("The fault."),
  }),
);

const ERROR = withOptional(
  objectOf({
    code: CODE,
    message: MESSAGE,
    requestId: textOf("The same as `X-Request-Id`."),
    timestamp: timeOf("When it happened."),
    documentation: textOf("Where the codes are explained."),
  }),
  {
    hint: textOf("What to do."),
    details: { ...FAULTS, description: "Every fault of a field." },
    fields: {
      type: "object",
      additionalProperties: { type: "string" },
      description: "The first message of each field.",
    },
  },
);

const NESTED = withOptional(
  objectOf({
    error: ERROR,
    timestamp: timeOf("When it happened."),
    status: { type: "integer", description: "The status of the response." },
  }),
  { errors: { ...FAULTS, description: "With 422: the same as `details`." } },
);

const DETAIL = objectOf({ detail: objectOf({ code: CODE, message: MESSAGE }) });

const FLAT = objectOf({
  error: CODE,
  message: MESSAGE,
  field: { type: ["string", "null"], description: "The first field with a fault." },
});

const FORMS: Readonly<Record<ErrorDialect, readonly JsonSchema[]>> = {
  nested: [NESTED],
  // Authentication has no dialects.
  detail: [DETAIL, NESTED],
  flat: [FLAT, NESTED],
};

/** Members of some problems, in every form. */
const MEMBERS: Readonly<Record<string, JsonSchema>> = {
  supportedVersions: { ...arrayOf({ type: "integer" }), description: "If the version is not supported." },
  challenge: textOf("With `MFA_REQUIRED`: send it with the code or a passkey to complete the login."),
  factors: {
    ...arrayOf({ type: "string", enum: ["totp", "passkey"] }),
    description: "With `MFA_REQUIRED`: the second factors of the account.",
  },
};

/**
 * The body of every problem. The forms that a client chooses with `Prefer: dialect` are not described: a client that generates its types
 * from the document would have to tell them apart.
 */
export function problemSchema(dialect: ErrorDialect): JsonSchema {
  const description = "The error. `/docs/errors` explains the codes.";
  const forms = FORMS[dialect].map((form) => withOptional(form, MEMBERS));
  return forms.length === 1 ? { description, ...forms[0] } : { description, oneOf: forms };
}
