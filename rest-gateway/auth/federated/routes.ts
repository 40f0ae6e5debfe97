import { z } from "zod";
import {
  created,
  IdentityAnswer,
  IdentityListAnswer,
  noContent,
  ok,
  ProviderListAnswer,
  SignedInAnswer,
  withCookie,
} from "../answers.ts";
import { LinkBody, SignInCodeBody } from "../bodies.ts";
import { CODE_PATH } from "../pages/paths.ts";
import { type Routes, route } from "../route.ts";
import { named } from "../schemas.ts";
import { completeWithCode } from "./browser.ts";
import { exchangeSignInCode, linkIdentity, listIdentities, listProviders, unlinkIdentity } from "./identities.ts";
import { NOT_SIGNED_IN, page } from "./protocol-routes.ts";

const CodeForm = named("FederatedCode", {
  challenge: z.string().describe("The challenge in the page."),
  code: z.string().optional().describe("The code that the app shows, or a backup code."),
  passkey: z.string().optional().describe("A passkey in place of the code: the JSON of its signature."),
  kinds: z.string().optional().describe("What the page offers: `totp`, `passkey` or both."),
});

/** The routes of sign-in at identity providers, without those of each protocol. */
export const FEDERATED_ROUTES: Routes = {
  "GET /auth/providers": route({
    operationId: "listProviders",
    summary: "List the identity providers",
    description: "For the buttons of a login page.",
    credential: "none",
    answer: ok("All providers, in the order of the file.", ProviderListAnswer),
    handle: listProviders,
  }),
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
