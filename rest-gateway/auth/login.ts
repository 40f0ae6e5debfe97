import { hashOf } from "../principal/secrets.ts";
import { REFRESH_SECONDS, type TokenPair } from "../principal/tokens.ts";
import type { Auth } from "./auth.ts";
import { parseLogin } from "./login-input.ts";

/** Signs a user in with username (or e-mail) and password, for tokens. Rejects with RestError, RefusedError. */
export async function login(auth: Auth, body: unknown, address: string): Promise<TokenPair> {
  const { store, tokens, signIn, clock } = auth;
  const account = await signIn.account(parseLogin(body), address);
  const pair = tokens.issuePair(account);
  await store.startTokens(account.id, hashOf(pair.refreshToken), clock() + REFRESH_SECONDS * 1000);
  await store.note({ event: "login", userId: account.id, address, detail: { by: "token" } });
  return pair;
}
