import type { z } from "zod";
import type { TokenPair } from "../../identity/tokens.ts";
import { isRefusal, type Problem } from "../../problems/problem.ts";
import { contentHandler } from "../conventions/conditional.ts";
import type { Auth } from "./auth.ts";
import { parseLogin, type RefreshBody, readBody } from "./bodies.ts";
import { challengeOf, type Form, issue, rotate, SIGNED_IN, type SignedIn, TOKENS } from "./issue.ts";
import type { Call } from "./route.ts";
import { type AdmittedLogin, admitChallenge, admitLogin, admitPasskey } from "./sign-in.ts";

export const login = async (call: Call): Promise<SignedIn> => issue(call, await admit(call), SIGNED_IN);

/** `POST /auth/refresh`. A spent token that is used after the grace period ends its session. */
export const refresh = (call: Call<"none", z.infer<typeof RefreshBody>>): Promise<TokenPair> =>
  rotate(call, call.body.refreshToken, { grace: call.auth.settings.jwtRefreshGrace }, REFRESHED);

/** Not for a session of /auth/v1 whose code is missing. */
const REFRESHED: Form<TokenPair> = {
  ...TOKENS,
  send(call, issued) {
    if (issued.account.hasFactor && issued.aal === 1) throw challengeOf(call.auth, issued.account);
    return TOKENS.send(call, issued);
  },
};

export async function sendPublicKeys({ auth, request, response }: Call): Promise<void> {
  const content = {
    type: "application/json; charset=utf-8",
    text: JSON.stringify(auth.tokens.jwks()),
    headers: { "Cache-Control": "public, max-age=300" },
  };
  await contentHandler(content)(request, response, () => {});
}

/**
 * Verifies the body of a login for tokens or a session: `{ username, password, code? }`, `{ challenge, code }` to complete a
 * login whose code was missing, or `{ passkey }`. Rejects with Problem.
 */
export async function admit({ auth, request, client }: Call): Promise<AdmittedLogin> {
  const input = parseLogin(await readBody(request, auth.limits));
  try {
    if ("challenge" in input) return await admitChallenge(auth, input, client);
    return await ("username" in input ? admitLogin(auth, input, client) : admitPasskey(auth, input.passkey, client));
  } catch (error) {
    throw isRefusal(error) ? withChallenge(error, auth) : error;
  }
}

function withChallenge(error: Problem, auth: Auth): Error {
  const { account } = error.more;
  return account === undefined ? error : challengeOf(auth, account);
}
