import type { Caller } from "../db/caller.ts";
import type { AccountState } from "./account.ts";
import type { PrincipalOptions } from "./caller-resolver.ts";
import type { Credentials } from "./credentials.ts";
import { hexHashOf, isOpaqueKey } from "./secrets.ts";

/** Callers who have come before, by name: without a question to the database, a signature or a password to check. */
export class KnownCallers {
  readonly #options: PrincipalOptions;

  constructor(options: PrincipalOptions) {
    this.#options = options;
  }

  /** `"user 7"`, `"key 5d3f…"`, the same whatever he comes with; null for nobody, and for those who are new or refused. */
  nameOf({ bearer, keys, session, basic }: Credentials, address: string): string | null {
    const ofToken = bearer && this.#nameOfToken(bearer);
    if (ofToken) return ofToken;
    for (const key of keys) {
      const ofKey = this.#nameOfToken(key);
      if (ofKey) return ofKey;
    }
    const { signedIn } = this.#options;
    if (signedIn === null) return null;
    const account = session && signedIn.sessions.lastOf(hexHashOf(session))?.account;
    if (account) return userName(account.id);
    const caller = basic && signedIn.basic.known(basic, address);
    return caller && userName(caller.claims.sub);
  }

  #nameOfToken(token: string): string | null {
    const { signedIn, tokens, anonymousRole } = this.#options;
    if (isOpaqueKey(token)) return this.#nameOfKey(token);
    const caller = tokens.known(token);
    if (caller === null || isAnybody(caller, anonymousRole)) return null;
    const { sub, jti } = caller.claims;
    if (typeof sub !== "string") return `key ${jti ?? caller.role}`;
    const state = signedIn?.accounts.lastOf(sub);
    return signedIn === null || (state && agrees(caller, state)) ? userName(sub) : null;
  }

  #nameOfKey(token: string): string | null {
    const { signedIn } = this.#options;
    const key = signedIn?.keys.lastOf(hexHashOf(token));
    if (!signedIn || !key || key.account?.isDisabled || key.kind === "anon") return null;
    if (key.expiresAt !== null && Date.parse(key.expiresAt) <= signedIn.clock()) return null;
    return key.account ? userName(key.account.id) : `key ${key.id}`;
  }
}

const userName = (id: unknown) => `user ${id}`;

/** The key for everybody is of nobody in particular. */
export const isAnybody = ({ role, claims }: Caller, anonymousRole: string): boolean =>
  role === anonymousRole && claims.sub === undefined;

/** Whether a token is of the account as it is now. */
export const agrees = ({ role, claims: { epoch = 0, sid } }: Caller, state: AccountState): boolean =>
  state.epoch === epoch && state.role === role && !state.revoked.has(sid as string);
