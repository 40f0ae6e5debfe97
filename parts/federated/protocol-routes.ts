import type { Kind } from "../../config/provider-entry.ts";
import { ok, page, SignedInAnswer, withCookie } from "../../rest-gateway/auth/answers.ts";
import { NOT_SIGNED_IN } from "../../rest-gateway/auth/pages/failure.ts";
import { type Answer, type QueryParameters, type Route, type Routes, route } from "../../rest-gateway/auth/route.ts";
import { LogoutAnswer } from "./answers.ts";
import { startSignIn } from "./browser.ts";
import { signOutByClient } from "./logout.ts";
import { MODES } from "./sign-in-request.ts";

// The routes that protocols have in common, and what they are described with.

const RETURN_TO = {
  return_to: "Where the browser continues: a path of this service, or a URL whose origin is in `AUTH_RETURN_ORIGINS`.",
};

const START: QueryParameters = {
  mode: [
    "`session` sets a cookie, `token` returns tokens, `link` links the identity to an account.",
    { type: "string", enum: [...MODES], default: "session" },
  ],
  ...RETURN_TO,
  code_challenge:
    "The SHA-256 of a verifier in base64url. The browser continues at `return_to` with a `sign_in_code`, which is exchanged with the verifier.",
  code_challenge_method: ["Only `S256`.", { type: "string", enum: ["S256"] }],
};

const redirect = (status: 302 | 303, about: string): Answer<unknown> => ({
  ...ok(about),
  status,
  headers: ["Location"],
});

export const FOR_BROWSERS = "Errors are pages if the client accepts HTML.";
const SIGNED_IN = "Signed in. The page continues at `return_to`.";
export const COMPLETED = withCookie(page(SIGNED_IN, SignedInAnswer));
const NOT_SIGNED_OUT = "You are not signed out";

/** Where a sign-in at a provider of this kind begins. */
export const startRoute = (kind: Kind, name: string, title: string): Routes => ({
  [`GET /auth/${kind}/{provider}`]: route({
    operationId: `start${name}`,
    summary: `Sign in with ${title}`,
    description: `For browsers, which continue at the provider. ${FOR_BROWSERS}`,
    query: START,
    credential: "none",
    answer: withCookie(redirect(302, "The URL at the provider.")),
    problems: [400],
    errorPage: NOT_SIGNED_IN,
    handle: startSignIn(kind),
  }),
});

/** The parameters are those besides `return_to`. */
type LogoutInBrowser = Required<Pick<Route<"none">, "handle" | "query" | "problems">>;

/** Sign-out here and at a provider of this kind, for browsers and other clients. */
export const logoutRoutes = (kind: Kind, { handle, query, problems }: LogoutInBrowser): Routes => ({
  [`GET /auth/${kind}/{provider}/logout`]: route({
    operationId: `${kind}LogoutInBrowser`,
    summary: "Sign out here and at a provider",
    description: `For a link on a page of this service: ends the session, then continues at the provider, which returns to this URL. ${FOR_BROWSERS}`,
    query: { ...RETURN_TO, ...query },
    credential: "none",
    answer: redirect(303, "The URL at the provider, or `return_to`."),
    otherAnswer: page("Signed out."),
    problems,
    errorPage: NOT_SIGNED_OUT,
    handle,
  }),
  [`POST /auth/${kind}/{provider}/logout`]: route({
    operationId: `${kind}Logout`,
    summary: "Sign out a client, and get the URL that signs out at the provider",
    description: "Ends the session of a caller with a cookie; otherwise all tokens and the session of the user.",
    query: RETURN_TO,
    credential: "account",
    answer: ok("Signed out. Open `location` in the browser.", LogoutAnswer),
    problems: [400],
    errorPage: NOT_SIGNED_OUT,
    handle: signOutByClient(kind),
  }),
});
