import { TokenPairAnswer } from "../../rest-gateway/auth/answers.ts";
import { AccountBody } from "../../rest-gateway/auth/bodies.ts";
import { MAX_PASSWORD, type PasswordRules } from "../../rest-gateway/auth/passwords.ts";
import {
  type Answer,
  type BodySchema,
  isIdName,
  type QueryParameters,
  type Route,
  type Routes,
  splitKey,
} from "../../rest-gateway/auth/route.ts";
import { keyOf, schemaOf } from "./body-schemas.ts";
import { type ProblemStatus, problems } from "./conventions/responses.ts";
import type { Content, JsonSchema, Operation, Parameter, PathItem, Response } from "./document.ts";
import { headerReferences, objectOf, pathParameter, queryParameter, refer } from "./schema-parts.ts";

export const AUTH_TAG = {
  name: "authentication",
  description: "Sign-up, sign-in, sign-in with identity providers, sessions, API keys and the second factor.",
};

/** The paths of authentication, which belong to no version. */
export function authPaths(routes: Routes): Readonly<Record<string, PathItem>> {
  const paths: Record<string, PathItem> = {};
  for (const [key, route] of Object.entries(routes)) {
    const [method, path] = splitKey(key);
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation(path, route) };
  }
  return paths;
}

function operation(path: string, route: Route): Operation {
  const { operationId, summary, description, query = {}, answer, otherAnswer } = route;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const content = contentOf(route);
  return {
    operationId,
    tags: [AUTH_TAG.name],
    summary,
    ...(description !== undefined && { description }),
    parameters: [...names.map(nameParameter), ...queryParameters(query)],
    ...(content && { requestBody: { required: !route.isBodyOptional, content } }),
    responses: {
      [answer.status]: responseOf(answer),
      ...(otherAnswer && { [otherAnswer.status]: responseOf(otherAnswer) }),
      ...problems(...problemsOf(route, names)),
    },
    ...(route.credential === "none" && { security: [] }),
  };
}

const PATH_NAMES: Readonly<Record<string, string>> = {
  provider: "The name of the identity provider.",
  keyId: "The id of the key.",
  sessionId: "The id of the session.",
  identityId: "The id of the identity.",
  passkeyId: "The id of the passkey.",
  user: "The id of the user.",
};

const nameParameter = (name: string): Parameter =>
  pathParameter(name, PATH_NAMES[name]!, { type: "string", ...(isIdName(name) && { format: "uuid" }) });

const queryParameters = (query: QueryParameters): readonly Parameter[] =>
  Object.entries(query).map(([name, given]) =>
    typeof given === "string" ? queryParameter(name, given) : queryParameter(name, ...given),
  );

function problemsOf(route: Route, names: readonly string[]): readonly ProblemStatus[] {
  const hasBody = route.body !== undefined || route.handlerBody !== undefined;
  return [
    ...(route.problems ?? []),
    ...(route.credential === "none" ? [] : ([401, 403] as const)),
    ...(names.length === 0 ? [] : ([404] as const)),
    ...(hasBody || names.some(isIdName) ? ([400] as const) : []),
    ...(hasBody || route.form ? ([413, 415] as const) : []),
    // Of every route.
    ...([429, 503, 504] as const),
  ];
}

const contentOf = ({ body, handlerBody = body && [body], form }: Route): Content | undefined =>
  form ? { "application/x-www-form-urlencoded": { schema: referTo(form) } } : handlerBody && jsonOf(handlerBody);

const referTo = (schema: BodySchema) => refer("schemas", typeof schema === "string" ? schema : keyOf(schema));

function jsonOf(schemas: readonly BodySchema[]): Content {
  const all = schemas.map(referTo);
  return { "application/json": { schema: all.length === 1 ? all[0]! : { oneOf: all } } };
}

const responseOf = ({ about, schemas, text, headers = [] }: Answer<unknown>): Response => ({
  description: about,
  headers: headerReferences("X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", ...headers),
  ...((schemas.length > 0 || text) && {
    content: { ...(text && { [text]: { schema: { type: "string" } } }), ...(schemas.length > 0 && jsonOf(schemas)) },
  }),
});

/** The account fields of a new user, by name. */
export const ACCOUNT_PROPERTIES = schemaOf(AccountBody).properties!;

/** A new password. */
export const passwordSchema = ({ hint, length }: PasswordRules): JsonSchema => ({
  type: "string",
  format: "password",
  description: `A new password. ${hint}`,
  minLength: length,
  maxLength: MAX_PASSWORD,
  writeOnly: true,
});

/** The schemas of `POST /auth/register`: of its body, from that of `POST /users`, and of its response, with that of a user. */
export const signUpSchemas = (newUser: JsonSchema, user: JsonSchema) => ({
  Registration: { ...newUser, required: [...(newUser.required ?? []), "password"] },
  Registered: objectOf({ user, ...schemaOf(TokenPairAnswer).properties }),
});
