import { created, noContent, ok, SignedInAnswer } from "../../rest-gateway/auth/answers.ts";
import { type Routes, route } from "../../rest-gateway/auth/route.ts";
import { exchangeSignInCode } from "./admission.ts";
import { IdentityAnswer, IdentityListAnswer } from "./answers.ts";
import { LinkBody, SignInCodeBody } from "./bodies.ts";
import { linkIdentity, listIdentities, unlinkIdentity } from "./identities.ts";

/** The routes of sign-in at identity providers, without those of each protocol. */
export const FEDERATED_ROUTES: Routes = {
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
      "Takes the code of a sign-in with `mode=link`. If the sign-in of the caller is older than 10 minutes, the response is 401 `PASSWORD_REQUIRED` unless `password` is sent, and `code` if a second factor is enabled. Not allowed with an API key.",
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
