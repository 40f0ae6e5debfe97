import { z } from "zod";
import type { ProblemStatus } from "../../openapi/conventions/responses.ts";
import type { Parameter } from "../../openapi/document.ts";
import { queryParameter } from "../../openapi/schema-parts.ts";
import {
  created,
  IdentityAnswer,
  IdentityListAnswer,
  LogoutAnswer,
  noContent,
  ok,
  ProviderListAnswer,
  SignedInAnswer,
  withCookie,
} from "../answers.ts";
import { LinkBody, SignInCodeBody } from "../bodies.ts";
import { CODE_PATH } from "../pages/paths.ts";
import { type Answer, type BodySchema, type Routes, route } from "../route.ts";
import { named } from "../schemas.ts";
import { completeWithCode, finishSamlSignIn, finishSignIn, sendSamlMetadata, startSignIn } from "./browser.ts";
import { exchangeSignInCode, linkIdentity, listIdentities, listProviders, unlinkIdentity } from "./identities.ts";
import { signOutByClient, signOutInBrowser } from "./logout.ts";
import { MODES } from "./sign-in-request.ts";

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

const page = (about: string, ...schemas: readonly BodySchema[]): Answer<unknown> => ({
  ...ok(about, ...schemas),
  text: "text/html",
});
const redirect = (status: 302 | 303, about: string): Answer<unknown> => ({
  ...ok(about),
  status,
  headers: ["Location"],
});

const FOR_BROWSERS = "Errors are pages if the client accepts HTML.";
const SIGNED_IN = "Signed in. The page continues at `return_to`.";
const COMPLETED = withCookie(page(SIGNED_IN, SignedInAnswer));
const NOT_SIGNED_IN = "You are not signed in";
const NOT_SIGNED_OUT = "You are not signed out";

const SamlForm = named("SamlResponse", {
  SAMLResponse: z.string().describe("The response of the provider: XML in base64."),
  RelayState: z.string().describe("The relay state of the request."),
});

const CodeForm = named("FederatedCode", {
  challenge: z.string().describe("The challenge in the page."),
  code: z.string().optional().describe("The code that the app shows, or a backup code."),
  passkey: z.string().optional().describe("A passkey in place of the code: the JSON of its signature."),
  kinds: z.string().optional().describe("What the page offers: `totp`, `passkey` or both."),
});

const startOf = (kind: "oidc" | "oauth2" | "saml", name: string, title: string): Routes => ({
  [`GET /auth/${kind}/{provider}`]: route({
    operationId: `start${name}`,
    summary: `Sign in with ${title}`,
    description: `For browsers, which continue at the provider. ${FOR_BROWSERS}`,
    parameters: START,
    credential: "none",
    answer: withCookie(redirect(302, "The URL at the provider.")),
    problems: [400],
    errorPage: NOT_SIGNED_IN,
    handle: startSignIn(kind),
  }),
});

/** The sign-in at providers of one kind whose response is in the URL. */
const flowOf = (kind: "oidc" | "oauth2", name: string, title: string): Routes => ({
  ...startOf(kind, name, title),
  [`GET /auth/${kind}/{provider}/callback`]: route({
    operationId: `finish${name}`,
    summary: `Complete a sign-in with ${title}`,
    description: `The redirect URI to register at the provider. The state is valid once, and only in the browser that has started. With \`mode=token\` and without a code challenge, the response is tokens. ${FOR_BROWSERS}`,
    parameters: [
      queryParameter("state", "The state of the authorization request."),
      queryParameter("code", "The authorization code of the provider."),
      queryParameter("iss", "The issuer. Required if the provider sends it."),
      queryParameter("error", "The error code of the provider."),
    ],
    credential: "none",
    answer: COMPLETED,
    problems: [401, 403, 409],
    errorPage: NOT_SIGNED_IN,
    handle: finishSignIn(kind),
  }),
});

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
  problems: readonly ProblemStatus[],
): Routes => ({
  [`GET /auth/${kind}/{provider}/logout`]: route({
    operationId: `${kind}LogoutInBrowser`,
    summary: "Sign out here and at a provider",
    description: `For a link on a page of this service: ends the session, then continues at the provider, which returns to this URL. ${FOR_BROWSERS}`,
    parameters: [RETURN_TO, ...response],
    credential: "none",
    answer: redirect(303, "The URL at the provider, or `return_to`."),
    otherAnswer: page("Signed out."),
    problems,
    errorPage: NOT_SIGNED_OUT,
    handle: signOutInBrowser(kind),
  }),
  [`POST /auth/${kind}/{provider}/logout`]: route({
    operationId: `${kind}Logout`,
    summary: "Sign out a client, and get the URL that signs out at the provider",
    description: "Ends the session of a caller with a cookie; otherwise all tokens and the session of the user.",
    parameters: [RETURN_TO],
    credential: "account",
    answer: ok("Signed out. Open `location` in the browser.", LogoutAnswer),
    problems: [400],
    errorPage: NOT_SIGNED_OUT,
    handle: signOutByClient(kind),
  }),
});

/** The routes of sign-in at identity providers. */
export const FEDERATED_ROUTES: Routes = {
  "GET /auth/providers": route({
    operationId: "listProviders",
    summary: "List the identity providers",
    description: "For the buttons of a login page.",
    credential: "none",
    answer: ok("All providers, in the order of the file.", ProviderListAnswer),
    handle: listProviders,
  }),
  ...flowOf("oidc", "OidcSignIn", "OpenID Connect"),
  ...logoutOf("oidc", [queryParameter("state", "Sent by the provider when it returns the browser.")], [400, 403]),
  ...flowOf("oauth2", "OAuth2SignIn", "OAuth 2.0"),
  ...startOf("saml", "SamlSignIn", "SAML 2.0"),
  "POST /auth/saml/{provider}/acs": route({
    operationId: "finishSamlSignIn",
    summary: "Complete a sign-in with SAML 2.0",
    description: `The assertion consumer endpoint. The response must be one to a request of this browser, and is accepted once. With \`mode=token\` and without a code challenge, the response is tokens. ${FOR_BROWSERS}`,
    credential: "none",
    form: SamlForm,
    answer: COMPLETED,
    problems: [401, 403, 409],
    errorPage: NOT_SIGNED_IN,
    handle: finishSamlSignIn,
  }),
  "GET /auth/saml/{provider}/metadata": route({
    operationId: "readSamlMetadata",
    summary: "Read the metadata of this service for a SAML provider",
    description: `Its URL is the entity id of the service, unless the provider's entry names another. ${FOR_BROWSERS}`,
    credential: "none",
    answer: { ...ok("The metadata."), text: "application/samlmetadata+xml" },
    errorPage: NOT_SIGNED_IN,
    handle: sendSamlMetadata,
  }),
  ...logoutOf("saml", SAML_LOGOUT, [400, 401, 403]),
  [`POST ${CODE_PATH}`]: route({
    operationId: "completeSignInWithCode",
    summary: "Complete a sign-in with the code of the second factor",
    description: "The form that the browser shows after a sign-in at a provider, if the account has a second factor.",
    credential: "none",
    sameOrigin: true,
    form: CodeForm,
    answer: withCookie({
      ...page("Signed in: where the browser continues. For a URL of another origin, a page continues."),
      status: 303,
      headers: ["Location"],
    }),
    problems: [400, 401, 403],
    errorPage: NOT_SIGNED_IN,
    handle: completeWithCode,
  }),
  "POST /auth/federated/token": route({
    operationId: "exchangeSignInCode",
    summary: "Exchange a sign-in code for tokens",
    description:
      "A code is valid once, for a minute. If a second factor is enabled, the response is 401 `MFA_REQUIRED` with a `challenge` for `POST /auth/login`.",
    credential: "none",
    body: SignInCodeBody,
    answer: ok("Tokens, and the user.", SignedInAnswer),
    problems: [401, 403, 409],
    handle: exchangeSignInCode,
  }),
  "GET /auth/identities": route({
    operationId: "listIdentities",
    summary: "List the caller's identities",
    description:
      "The identities at providers with which the caller signs in, newest first. Not allowed with an API key.",
    credential: "account",
    answer: ok("All identities of the caller.", IdentityListAnswer),
    handle: listIdentities,
  }),
  "POST /auth/identities": route({
    operationId: "linkIdentity",
    summary: "Link an identity",
    description:
      "Takes the code of a sign-in with `mode=link`. If the sign-in of the caller is older than `RECENT_SIGN_IN`, the response is 401 `PASSWORD_REQUIRED` unless `password` is sent, and `code` if a second factor is enabled. Not allowed with an API key.",
    credential: "account",
    body: LinkBody,
    answer: created("The identity, with which the caller can sign in from now on.", IdentityAnswer),
    problems: [409],
    handle: linkIdentity,
  }),
  "DELETE /auth/identities/{identityId}": route({
    operationId: "unlinkIdentity",
    summary: "Unlink an identity",
    description:
      "Ends all other sign-ins of the user. The last way to sign in cannot be unlinked. Requires a recent sign-in. Not allowed with an API key.",
    credential: "account",
    answer: noContent("Unlinked."),
    problems: [409],
    handle: unlinkIdentity,
  }),
};
