import type { ErrorDialect } from "../../../rest-gateway/conventions/problem.ts";
import type { Header, JsonSchema, Reference, Response } from "../document.ts";
import {
  arrayOf,
  CHANGE_POSITION,
  type ErrorResponses,
  errorReferences,
  headerOf,
  headerReferences,
  objectOf,
  textOf,
  timeOf,
  withOptional,
} from "../schema-parts.ts";

/** The error responses of the REST conventions, by status. */
export const PROBLEMS = {
  400: [
    "BadRequest",
    "The path, a parameter, a header or the body is not valid. In version 1, also if the body breaks a rule.",
  ],
  401: ["Unauthorized", "The credentials are missing, invalid or expired.", "WWW-Authenticate"],
  403: ["Forbidden", "The caller does not have permission."],
  404: ["NotFound", "The record does not exist, or the record to which the list belongs does not exist."],
  409: [
    "Conflict",
    "A value is already taken, other records refer to this one, or a concurrent request has changed it.",
  ],
  412: ["PreconditionFailed", "The record has changed: it no longer matches `If-Match` or `If-Unmodified-Since`."],
  413: ["TooLarge", "The body is too large or contains too many records."],
  415: ["UnsupportedMediaType", "The body is not `application/json` in UTF-8, or it is compressed."],
  422: ["Unprocessable", "The body breaks rules; `errors` lists all of them."],
  429: ["TooManyRequests", "A rate limit is exceeded. Retry after the seconds in `Retry-After`.", "Retry-After"],
  503: [
    "Unavailable",
    "The service is starting or stopping, or has no connection to the database. Retry later.",
    "Retry-After",
  ],
  504: ["Timeout", "The database took too long. Retry, or request less data."],
} as const satisfies ErrorResponses;

export type ProblemStatus = keyof typeof PROBLEMS;

export const problems = (...statuses: readonly ProblemStatus[]): Readonly<Record<string, Reference>> =>
  errorReferences(PROBLEMS, statuses);

const numberOf = (description: string): Header => headerOf(description, { type: "integer", minimum: 0 });

/** Response headers by name. */
export const HEADERS = {
  "X-Request-Id": headerOf("The id of the request in the log. If the client sends an id, it is used."),
  "X-API-Version": headerOf("The API version of the response."),
  "X-RateLimit-Limit": numberOf("The number of requests allowed per minute. Omitted if there is no limit."),
  "X-RateLimit-Remaining": numberOf("The number of requests that may follow at once."),
  "Preference-Applied": headerOf("The preferences that took effect."),
  ETag: headerOf(
    "The version of the content, for `If-None-Match`. The version of a record can also be sent as `If-Match`.",
  ),
  "Last-Modified": headerOf("When the record was last changed."),
  Location: headerOf("The URL of the new record or task, or where the browser continues."),
  Link: headerOf("The URLs of the pages `first`, `prev`, `next` and `last`."),
  "Set-Cookie": headerOf("Sets or deletes the session cookie, or that of a sign-in at a provider."),
  "Change-Position": CHANGE_POSITION,
  "X-Total-Count": numberOf("The total number of records."),
  "WWW-Authenticate": headerOf("The accepted authentication scheme."),
  "Retry-After": numberOf("Seconds until a retry is useful."),
} as const satisfies Record<string, Header>;

export type HeaderName = keyof typeof HEADERS;

const IN_EVERY_RESPONSE: readonly HeaderName[] = [
  "X-Request-Id",
  "X-API-Version",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "Preference-Applied",
];

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
