import { headerReferences, type ProblemStatus, problems } from "../openapi/conventions/responses.ts";
import type { Content, JsonSchema, Operation, PathItem, Response } from "../openapi/document.ts";
import { arrayOf, objectOf, refer, textOf, timeOf } from "../openapi/schema-parts.ts";
import {
  AccountBody,
  ChallengeBody,
  CodeBody,
  ConfirmationBody,
  EmailBody,
  EnrolmentBody,
  KeyBody,
  LinkBody,
  LoginBody,
  PasswordBody,
  RefreshBody,
  SignInCodeBody,
  schemaOf,
} from "./bodies.ts";
import { FEDERATED_ROUTES } from "./federated/openapi-routes.ts";
import { ROUTES, type Route, type Success } from "./openapi-routes.ts";

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

type Properties = Readonly<Record<string, JsonSchema>>;

const timeOrNull = (description: string): JsonSchema => ({ ...timeOf(description), type: ["string", "null"] });
const message = { message: textOf("A message for people.") };

const tokens: Properties = {
  accessToken: textOf("Send it as `Authorization: Bearer`."),
  refreshToken: textOf("Exchange it once for a new pair at `POST /auth/refresh`."),
  expiresIn: { type: "integer", description: "Seconds until the access token expires." },
  tokenType: { type: "string", enum: ["Bearer"] },
};

const key: Properties = {
  id: { type: "string", format: "uuid" },
  prefix: textOf("The first characters of the key, to recognize it by."),
  name: textOf("What the key is for."),
  createdAt: timeOf("When the key was created."),
  expiresAt: timeOrNull("When the key expires; null if it never does."),
  lastUsedAt: timeOrNull("When the key was last used, to the minute; null if it was never used."),
};

const backupCodes: Properties = {
  ...message,
  backupCodes: {
    ...arrayOf({ type: "string", minLength: 8, maxLength: 8 }),
    description: "Not shown again. Each replaces a code of the app once.",
  },
  warning: textOf("A message for people."),
};

const identity: Properties = {
  id: { type: "string", format: "uuid" },
  provider: textOf("The name of the provider."),
  email: { type: ["string", "null"], description: "The e-mail that the provider has sent last." },
  linkedAt: timeOf("When the identity was linked to the account."),
  lastUsedAt: timeOrNull("When the user last signed in with it; null if never."),
};

const provider: Properties = {
  name: textOf("Its name in URLs."),
  title: textOf("Its name for people."),
  kind: { type: "string", enum: ["oidc", "oauth2", "saml"] },
  signIn: textOf("The path at which a sign-in starts."),
};

/** The account fields of a new user, by name. */
export const ACCOUNT_PROPERTIES = schemaOf(AccountBody).properties as Properties;

/** The schemas of request and response bodies of authentication, by their key in the document. */
export const AUTH_SCHEMAS = {
  Login: schemaOf(LoginBody),
  LoginWithChallenge: schemaOf(ChallengeBody),
  Refresh: schemaOf(RefreshBody),
  EmailChange: schemaOf(EmailBody),
  PasswordChange: schemaOf(PasswordBody),
  Confirmation: schemaOf(ConfirmationBody),
  Enrolment: schemaOf(EnrolmentBody),
  KeyInput: schemaOf(KeyBody),
  FactorCode: schemaOf(CodeBody),
  SignInCode: schemaOf(SignInCodeBody),
  IdentityLink: schemaOf(LinkBody),
  SamlResponse: objectOf({
    SAMLResponse: textOf("The response of the provider: XML in base64."),
    RelayState: textOf("The relay state of the request."),
  }),
  FederatedCode: objectOf({
    challenge: textOf("The challenge in the page."),
    code: textOf("The code that the app shows, or a backup code."),
  }),
  TokenPair: objectOf(tokens),
  Message: objectOf(message),
  ChangedEmail: objectOf({ email: textOf("The new e-mail."), ...message }),
  SessionLogin: objectOf({
    username: textOf("The username, or the e-mail if the user has none."),
    role: textOf("The role of the user."),
    ...message,
  }),
  Session: objectOf({
    userId: { type: "integer", format: "int64" },
    username: textOf("The username, or the e-mail if the user has none."),
    role: textOf("The role of the user."),
    loginTime: timeOf("When the session started."),
  }),
  CsrfToken: objectOf({
    csrfToken: textOf("Send it as `X-CSRF-Token` with every change that is authenticated by the cookie."),
  }),
  Key: objectOf(key),
  NewKey: objectOf({ ...key, key: textOf("The key, which is not shown again.") }),
  KeyList: objectOf({ data: arrayOf(refer("schemas", "Key")) }),
  FactorEnrolment: objectOf({
    secret: textOf("The secret for an authenticator app."),
    qrCode: textOf("The secret as a QR code: a PNG as a data URL."),
    ...message,
  }),
  BackupCodes: objectOf(backupCodes),
  ProviderList: objectOf({ data: arrayOf(objectOf(provider)) }),
  Identity: objectOf(identity),
  IdentityList: objectOf({ data: arrayOf(refer("schemas", "Identity")) }),
  FederatedLogout: objectOf({
    ...message,
    location: {
      type: ["string", "null"],
      description: "The URL that ends the sign-in at the provider; null if it has none.",
    },
  }),
  Jwks: objectOf({ keys: arrayOf({ type: "object", additionalProperties: true }) }),
} as const satisfies Properties;

/** The schemas of `POST /auth/register`: of its body, from that of `POST /users`, and of its response, with that of a user. */
export const signUpSchemas = (newUser: JsonSchema, user: JsonSchema) => ({
  Registration: { ...newUser, required: [...(newUser.required ?? []), "password"] },
  Registered: objectOf({ user, ...tokens }),
});

export type AuthSchema = keyof typeof AUTH_SCHEMAS | keyof ReturnType<typeof signUpSchemas>;
