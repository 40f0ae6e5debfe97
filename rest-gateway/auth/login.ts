import type { Account } from "../../identity/account.ts";
import { RefusedError } from "../../identity/refused.ts";
import { hashOf } from "../../identity/secrets.ts";
import { REFRESH_SECONDS, type TokenPair } from "../../identity/tokens.ts";
import { restRefusal } from "../conventions/problem.ts";
import type { Auth } from "./auth.ts";
import { parseSignIn } from "./bodies.ts";
import { challenged } from "./problem.ts";
import type { Client } from "./throttle.ts";

/** Signs a user in for tokens. Rejects with RestError, RefusedError. */
export async function login(auth: Auth, body: unknown, client: Client): Promise<TokenPair> {
  const account = await accountOfLogin(auth, body, client);
  const pair = await startTokens(auth, account);
  await auth.store.note({ event: "login", userId: account.id, address: client.address, detail: { by: "token" } });
  return pair;
}

/**
 * Whose login it is, for all that one may sign in for: `{ username, password, code? }`, or `{ challenge, code }` to go on
 * where a code was missing. Rejects with RestError, RefusedError.
 */
export async function accountOfLogin(auth: Auth, body: unknown, client: Client): Promise<Account> {
  const input = parseSignIn(body);
  try {
    return await ("challenge" in input
      ? auth.signIn.accountOfChallenge(input, client)
      : auth.signIn.account(input, client.address, client.signal));
  } catch (error) {
    throw error instanceof RefusedError ? withChallenge(error, auth) : error;
  }
}

function withChallenge(error: RefusedError, { tokens }: Auth): Error {
  const { account } = error.more;
  if (account === undefined) return error;
  return challenged(restRefusal(error).problem, tokens.issueChallenge(account));
}

/** The first tokens of a sign-in. Rejects with RefusedError when the account has changed since it was looked at. */
export async function startTokens({ store, tokens, clock }: Auth, account: Account): Promise<TokenPair> {
  const refreshToken = tokens.issueRefresh(account.id);
  const family = await store.startTokens(account, hashOf(refreshToken), clock() + REFRESH_SECONDS * 1000);
  if (family === null) throw new RefusedError("wrong password");
  return tokens.issuePair(account, { family, refreshToken });
}
