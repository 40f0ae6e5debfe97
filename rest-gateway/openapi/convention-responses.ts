import type { Header, JsonSchema, Reference, Response } from "./document.ts";
import { refer } from "./schema-parts.ts";

type Problem = {
  readonly key: string;
  readonly description: string;
  readonly headers?: readonly (keyof typeof HEADERS)[];
};

/** Why there is no other answer, by status. */
const PROBLEMS = {
  400: {
    key: "BadRequest",
    description:
      "The address, a parameter, a header or the body can't be read; in version 1 also a body that breaks a rule.",
  },
  401: {
    key: "Unauthorized",
    description: "Credentials are missing, not valid or expired.",
    headers: ["WWW-Authenticate"],
  },
  403: { key: "Forbidden", description: "The caller may not do this." },
  404: { key: "NotFound", description: "There is no such record, or none with this id that the others belong to." },
  409: {
    key: "Conflict",
    description: "A value is taken, other data refers to the record, or somebody else changes it at the same time.",
  },
  412: {
    key: "PreconditionFailed",
    description: "The record is not the one that `If-Match` or `If-Unmodified-Since` names any more.",
  },
  413: { key: "TooLarge", description: "The body is too large, or has too many records." },
  415: { key: "UnsupportedMediaType", description: "The body is no `application/json` in UTF-8, or is compressed." },
  422: { key: "Unprocessable", description: "The body breaks a rule; `errors` lists all." },
  429: {
    key: "TooManyRequests",
    description: "A limit is used up; `Retry-After` says how long.",
    headers: ["Retry-After"],
  },
  503: {
    key: "Unavailable",
    description: "The service starts or stops, or has no database: try again.",
    headers: ["Retry-After"],
  },
  504: { key: "Timeout", description: "The database took too long: try again, or ask for less." },
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

/** Headers of answers, by name. */
export const HEADERS = {
  "X-Request-Id": { description: "The log knows the request by it. One that the client sends is kept.", schema: text },
  "X-API-Version": { description: "The version of the answer.", schema: text },
  "X-RateLimit-Limit": { description: "Requests a minute; left out where there is no limit.", schema: number },
  "X-RateLimit-Remaining": { description: "Requests that may follow at once.", schema: number },
  "Preference-Applied": { description: "The preferences that took effect.", schema: text },
  ETag: {
    description: "Stands for what was answered: for `If-None-Match`, and of a record for `If-Match`.",
    schema: text,
  },
  "Last-Modified": { description: "When the record last changed.", schema: text },
  Location: { description: "The address of what was made.", schema: text },
  Link: { description: "Addresses of pages: `first`, `prev`, `next`, `last`.", schema: text },
  "Set-Cookie": { description: "The session, or its end.", schema: text },
  "X-Total-Count": { description: "Records in all.", schema: number },
  "WWW-Authenticate": { description: "How to sign in.", schema: text },
  "Retry-After": { description: "Seconds to wait.", schema: number },
} as const satisfies Record<string, Header>;

export type HeaderName = keyof typeof HEADERS;

const OF_EVERY_ANSWER: readonly HeaderName[] = [
  "X-Request-Id",
  "X-API-Version",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "Preference-Applied",
];

export const headerReferences = (...names: readonly HeaderName[]): Readonly<Record<string, Reference>> =>
  Object.fromEntries(names.map((name) => [name, refer("headers", name)]));

/** An answer that is no problem; `schema` is null for one without a body. */
export const answered = (
  description: string,
  schema: JsonSchema | null,
  ...names: readonly HeaderName[]
): Response => ({
  description,
  headers: headerReferences(...OF_EVERY_ANSWER, ...names),
  ...(schema && { content: { "application/json": { schema } } }),
});

export const notModified = (...names: readonly HeaderName[]): Response =>
  answered("What the client has is still good.", null, "ETag", ...names);
