import { RestError } from "../conventions/problem.ts";
import { restRefusal } from "../conventions/refused.ts";
import { RefusedError } from "../principal/refused.ts";
import { hashOf } from "../principal/secrets.ts";
import { REFRESH_SECONDS, type TokenPair } from "../principal/tokens.ts";
import type { Auth } from "./auth.ts";
import { parseSignIn } from "./login-input.ts";
import type { Account } from "./store.ts";

/** Signs a user in for tokens. Rejects with RestError, RefusedError. */
export async function login(auth: Auth, body: unknown, address: string): Promise<TokenPair> {
  const account = await accountOfLogin(auth, body, address);
  const pair = await startTokens(auth, account);
  await auth.store.note({ event: "login", userId: account.id, address, detail: { by: "token" } });
  return pair;
}

/**
 * Whose login it is, for all that one may sign in for: `{ username, password, code? }`, or `{ challenge, code }` to go on
 * where a code was missing. Rejects with RestError, RefusedError.
 */
export async function accountOfLogin(auth: Auth, body: unknown, address: string): Promise<Account> {
  const input = parseSignIn(body);
  try {
    return await ("challenge" in input
      ? auth.signIn.accountOfChallenge(input, address)
      : auth.signIn.account(input, address));
  } catch (error) {
    throw error instanceof RefusedError ? withChallenge(error, auth) : error;
  }
}

function withChallenge(error: RefusedError, { tokens }: Auth): Error {
  const { account } = error.more;
  if (account === undefined) return error;
  return new RestError({ ...restRefusal(error).problem, members: { challenge: tokens.issueChallenge(account) } });
}

/** The first tokens of a sign-in. Rejects with RefusedError when the account has changed since it was looked at. */
export async function startTokens({ store, tokens, clock }: Auth, account: Account): Promise<TokenPair> {
  const pair = tokens.issuePair(account);
  const isStarted = await store.startTokens(account, hashOf(pair.refreshToken), clock() + REFRESH_SECONDS * 1000);
  if (!isStarted) throw new RefusedError("wrong password");
  return pair;
}
