import type { ProblemStatus } from "../../openapi/conventions/responses.ts";
import type { Parameter } from "../../openapi/document.ts";
import { queryParameter } from "../../openapi/schema-parts.ts";
import { created, OF_BODIES, ok, type Route, type Success, withCookie } from "../openapi-routes.ts";
import { MODES } from "./start.ts";

const PROVIDER: Parameter = {
  name: "provider",
  in: "path",
  description: "The name of the identity provider.",
  required: true,
  schema: { type: "string" },
};

const IDENTITY_ID: Parameter = {
  name: "identityId",
  in: "path",
  description: "The id of the identity.",
  required: true,
  schema: { type: "string", format: "uuid" },
};

const RETURN_TO = queryParameter(
  "return_to",
  "Where the browser continues: a path of this service, or a URL whose origin is in `AUTH_RETURN_ORIGINS`.",
);

const START = [
  queryParameter("mode", "`session` sets a cookie, `token` returns tokens, `link` links the identity to an account.", {
    type: "string",
    enum: [...MODES],
    default: "session",
  }),
  RETURN_TO,
  queryParameter(
    "code_challenge",
    "The SHA-256 of a verifier in base64url. The browser continues at `return_to` with a `sign_in_code`, which is exchanged with the verifier.",
  ),
  queryParameter("code_challenge_method", "Only `S256`.", { type: "string", enum: ["S256"] }),
];

const page = (about: string, more: Partial<Success> = {}): Success => ({ ...ok(about), text: "text/html", ...more });
const redirect = (status: 302 | 303, about: string): Success => ({ status, about, body: [], headers: ["Location"] });

const FOR_BROWSERS = "Errors are pages if the client accepts HTML.";
const COMPLETED = withCookie(page("Signed in. The page continues at `return_to`.", { body: ["TokenPair"] }));
const COMPLETING: readonly ProblemStatus[] = [401, 403, 404, 409];

const startOf = (kind: "oidc" | "oauth2" | "saml", name: string, title: string): Route => ({
  path: `/auth/${kind}/{provider}`,
  method: "get",
  operationId: `start${name}`,
  summary: `Sign in with ${title}`,
  description: `For browsers, which continue at the provider. ${FOR_BROWSERS}`,
  parameters: [PROVIDER, ...START],
  success: withCookie(redirect(302, "The URL at the provider.")),
  failures: [400, 404],
  isOpen: true,
});

/** The sign-in at providers of one kind whose response is in the URL. */
const flowOf = (kind: "oidc" | "oauth2", name: string, title: string): readonly Route[] => [
  startOf(kind, name, title),
  {
    path: `/auth/${kind}/{provider}/callback`,
    method: "get",
    operationId: `finish${name}`,
    summary: `Complete a sign-in with ${title}`,
    description: `The redirect URI to register at the provider. The state is valid once, and only in the browser that has started. With \`mode=token\` and without a code challenge, the response is tokens. ${FOR_BROWSERS}`,
    parameters: [
      PROVIDER,
      queryParameter("state", "The state of the authorization request."),
      queryParameter("code", "The authorization code of the provider."),
      queryParameter("iss", "The issuer. Required if the provider sends it."),
      queryParameter("error", "The error code of the provider."),
    ],
    success: COMPLETED,
    failures: COMPLETING,
    isOpen: true,
  },
];

const SAML_LOGOUT = [
  queryParameter("SAMLRequest", "A sign-out that the provider requests: ends all sign-ins of the user."),
  queryParameter("SAMLResponse", "The response of the provider to a sign-out that began here."),
  queryParameter("RelayState", "Returned by the provider, or returned to it."),
  queryParameter("SigAlg", "The algorithm of the signature: `rsa-sha256` or `rsa-sha512`, as a URI."),
  queryParameter("Signature", "The signature of the message. Required."),
];

const logoutOf = (
  kind: "oidc" | "saml",
  response: readonly Parameter[],
  failures: readonly ProblemStatus[],
): readonly Route[] => [
  {
    path: `/auth/${kind}/{provider}/logout`,
    method: "get",
    operationId: `${kind}LogoutInBrowser`,
    summary: "Sign out here and at a provider",
    description: `For a link on a page of this service: ends the session, then continues at the provider, which returns to this URL. ${FOR_BROWSERS}`,
    parameters: [PROVIDER, RETURN_TO, ...response],
    success: redirect(303, "The URL at the provider, or `return_to`."),
    otherSuccess: page("Signed out."),
    failures,
    isOpen: true,
  },
  {
    path: `/auth/${kind}/{provider}/logout`,
    method: "post",
    operationId: `${kind}Logout`,
    summary: "Sign out a client, and get the URL that signs out at the provider",
    description: "Ends the session of a caller with a cookie; otherwise all tokens and the session of the user.",
    parameters: [PROVIDER, RETURN_TO],
    success: ok("Signed out. Open `location` in the browser.", "FederatedLogout"),
    failures: [400, 401, 403, 404],
  },
];

export const FEDERATED_ROUTES: readonly Route[] = [
  {
    path: "/auth/providers",
    method: "get",
    operationId: "listProviders",
    summary: "List the identity providers",
    description: "For the buttons of a login page.",
    success: ok("All providers, in the order of the file.", "ProviderList"),
    failures: [],
    isOpen: true,
  },
  ...flowOf("oidc", "OidcSignIn", "OpenID Connect"),
  ...logoutOf("oidc", [queryParameter("state", "Sent by the provider when it returns the browser.")], [400, 403, 404]),
  ...flowOf("oauth2", "OAuth2SignIn", "OAuth 2.0"),
  startOf("saml", "SamlSignIn", "SAML 2.0"),
  {
    path: "/auth/saml/{provider}/acs",
    method: "post",
    operationId: "finishSamlSignIn",
    summary: "Complete a sign-in with SAML 2.0",
    description: `The assertion consumer endpoint. The response must be one to a request of this browser, and is accepted once. With \`mode=token\` and without a code challenge, the response is tokens. ${FOR_BROWSERS}`,
    parameters: [PROVIDER],
    form: "SamlResponse",
    success: COMPLETED,
    failures: [...COMPLETING, 413, 415],
    isOpen: true,
  },
  {
    path: "/auth/saml/{provider}/metadata",
    method: "get",
    operationId: "readSamlMetadata",
    summary: "Read the metadata of this service for a SAML provider",
    description: `Its URL is the entity id of the service, unless the provider's entry names another. ${FOR_BROWSERS}`,
    parameters: [PROVIDER],
    success: { ...ok("The metadata."), text: "application/samlmetadata+xml" },
    failures: [404],
    isOpen: true,
  },
  ...logoutOf("saml", SAML_LOGOUT, [400, 401, 403, 404]),
  {
    path: "/auth/federated/code",
    method: "post",
    operationId: "completeSignInWithCode",
    summary: "Complete a sign-in with the code of the second factor",
    description: "The form that the browser shows after a sign-in at a provider, if the account has a second factor.",
    form: "FederatedCode",
    success: withCookie(page("Signed in. The page continues at `return_to`.")),
    failures: [401, 403, ...OF_BODIES],
    isOpen: true,
  },
  {
    path: "/auth/federated/token",
    method: "post",
    operationId: "exchangeSignInCode",
    summary: "Exchange a sign-in code for tokens",
    description:
      "A code is valid once, for a minute. If a second factor is enabled, the response is 401 `MFA_REQUIRED` with a `challenge` for `POST /auth/login`.",
    body: ["SignInCode"],
    success: ok("Tokens.", "TokenPair"),
    failures: [401, 403, 409, ...OF_BODIES],
    isOpen: true,
  },
  {
    path: "/auth/identities",
    method: "get",
    operationId: "listIdentities",
    summary: "List the caller's identities",
    description:
      "The identities at providers with which the caller signs in, newest first. Not allowed with an API key.",
    success: ok("All identities of the caller.", "IdentityList"),
    failures: [401, 403],
  },
  {
    path: "/auth/identities",
    method: "post",
    operationId: "linkIdentity",
    summary: "Link an identity",
    description:
      "Takes the code of a sign-in with `mode=link`. If the sign-in of the caller is older than `RECENT_SIGN_IN`, the response is 401 `PASSWORD_REQUIRED` unless `password` is sent, and `code` if a second factor is enabled. Not allowed with an API key.",
    body: ["IdentityLink"],
    success: created("The identity, with which the caller can sign in from now on.", "Identity"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/auth/identities/{identityId}",
    method: "delete",
    operationId: "unlinkIdentity",
    summary: "Unlink an identity",
    description:
      "Ends all other sign-ins of the user. The last way to sign in cannot be unlinked. Requires a recent sign-in. Not allowed with an API key.",
    parameters: [IDENTITY_ID],
    success: { status: 204, about: "Unlinked.", body: [] },
    failures: [400, 401, 403, 404, 409],
  },
];
