import { NOT_SIGNED_IN } from "../../../rest-gateway/auth/pages/failure.ts";
import { type Routes, route } from "../../../rest-gateway/auth/route.ts";
import { finishSignIn } from "../browser.ts";
import { signOutInBrowser } from "../logout.ts";
import { COMPLETED, FOR_BROWSERS, logoutRoutes, startRoute } from "../protocol-routes.ts";

/** The sign-in at providers of one kind whose response is in the URL. */
const flowOf = (kind: "oidc" | "oauth2", name: string, title: string): Routes => ({
  ...startRoute(kind, name, title),
  [`GET /auth/${kind}/{provider}/callback`]: route({
    operationId: `finish${name}`,
    summary: `Complete a sign-in with ${title}`,
    description: `The redirect URI to register at the provider. The state is valid once, and only in the browser that has started. With \`mode=token\` and without a code challenge, the response is tokens. ${FOR_BROWSERS}`,
    query: {
      state: "The state of the authorization request.",
      code: "The authorization code of the provider.",
      iss: "The issuer. Required if the provider sends it.",
      error: "The error code of the provider.",
    },
    credential: "none",
    answer: COMPLETED,
    problems: [401, 403, 409],
    errorPage: NOT_SIGNED_IN,
    handle: finishSignIn(kind),
  }),
});

/** `/auth/oidc/{provider}` and `/auth/oauth2/{provider}` */
export const PROVIDER_ROUTES: Routes = {
  ...flowOf("oidc", "OidcSignIn", "OpenID Connect"),
  ...logoutRoutes("oidc", {
    handle: signOutInBrowser("oidc", "state"),
    query: { state: "Sent by the provider when it returns the browser." },
    problems: [400, 403],
  }),
  ...flowOf("oauth2", "OAuth2SignIn", "OAuth 2.0"),
};
