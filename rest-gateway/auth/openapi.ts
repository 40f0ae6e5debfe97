import { headerReferences, type ProblemStatus, problems } from "../openapi/conventions/responses.ts";
import type { Content, Operation, PathItem, Response } from "../openapi/document.ts";
import { refer } from "../openapi/schema-parts.ts";
import { FEDERATED_ROUTES } from "./federated/openapi-routes.ts";
import { ROUTES, type Route, type Success } from "./openapi-routes.ts";
import type { AuthSchema } from "./openapi-schemas.ts";

export const AUTH_TAG = {
  name: "authentication",
  description: "Sign-up, sign-in, sign-in with identity providers, sessions, API keys and the second factor.",
};

/**
 * The paths of authentication, which belong to no version and are relative to the root of the service. `server` is the URL of
 * that root if the document has another server URL, otherwise null.
 */
export function authPaths(server: string | null): Readonly<Record<string, PathItem>> {
  const servers = server === null ? {} : { servers: [{ url: server }] };
  const paths: Record<string, PathItem> = {};
  for (const route of [...ROUTES, ...FEDERATED_ROUTES])
    paths[route.path] = { ...paths[route.path], [route.method]: { ...operation(route), ...servers } };
  return paths;
}

/** Errors of every route. */
const COMMON_FAILURES: readonly ProblemStatus[] = [429, 503, 504];

function operation({
  operationId,
  summary,
  description,
  parameters = [],
  success,
  otherSuccess,
  failures,
  ...route
}: Route): Operation {
  return {
    operationId,
    tags: [AUTH_TAG.name],
    summary,
    ...(description !== undefined && { description }),
    parameters,
    ...(route.body && { requestBody: { required: !route.isBodyOptional, content: contentOf(route.body) } }),
    ...(route.form && { requestBody: { required: true, content: formOf(route.form) } }),
    responses: {
      [success.status]: responseOf(success),
      ...(otherSuccess && { [otherSuccess.status]: responseOf(otherSuccess) }),
      ...problems(...failures, ...COMMON_FAILURES),
    },
    ...(route.isOpen && { security: [] }),
  };
}

const responseOf = ({ about, body, text, headers = [] }: Success): Response => ({
  description: about,
  headers: headerReferences("X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", ...headers),
  ...((body.length > 0 || text) && {
    content: { ...(text && { [text]: { schema: { type: "string" } } }), ...(body.length > 0 && contentOf(body)) },
  }),
});

const formOf = (name: AuthSchema): Content => ({
  "application/x-www-form-urlencoded": { schema: refer("schemas", name) },
});

function contentOf(names: readonly AuthSchema[]): Content {
  const schemas = names.map((name) => refer("schemas", name));
  return { "application/json": { schema: schemas.length === 1 ? schemas[0]! : { oneOf: schemas } } };
}
