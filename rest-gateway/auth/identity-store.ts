import type { NotificationFeed } from "../../db/changes/notifications.ts";
import type { AccountState, Clock, FoundKey, Session } from "../../identity/account.ts";
import { Remembered } from "../../identity/account-cache.ts";
import { BasicSignIns } from "../../identity/basic-sign-ins.ts";
import type { SignedIn } from "../../identity/caller-resolver.ts";
import type { CsrfTokens } from "../../identity/csrf.ts";
import { ACCESS_SECONDS } from "../../identity/tokens.ts";
import { IDLE_SECONDS } from "./cookie.ts";
import type { SignIn } from "./sign-in.ts";
import type { AuthStore } from "./store.ts";

/** Milliseconds that a session counts as seen without a word to the database: its end is exact to that. */
const SEEN_FOR = 30_000;
/** Milliseconds that tokens of a revoked family must be refused. Longer than they last: hosts differ in their clocks. */
const REVOKED_FOR = 2 * ACCESS_SECONDS * 1000;

export type SignedInOptions = {
  readonly store: AuthStore;
  readonly signIn: SignIn;
  readonly csrf: CsrfTokens;
  readonly clock: Clock;
  readonly changes: Pick<NotificationFeed, "onIdentityChange">;
  onKeyUsed(id: string): void;
};

/** What the database knows of principals, remembered until it tells of a change. */
export function signedIn({ store, signIn, csrf, clock, changes, onKeyUsed }: SignedInOptions): SignedIn {
  const forever = { goodFor: () => Number.POSITIVE_INFINITY, clock };
  const accounts = new Remembered<AccountState | null>({
    ...forever,
    ask: (id) => store.accountState(id, REVOKED_FOR),
  });
  const keys = new Remembered<FoundKey | null>({ ...forever, ask: (hash) => store.findKey(Buffer.from(hash, "hex")) });
  const sessions = new Remembered<Session | null>({
    // Not beyond its end.
    goodFor: (session) => (session ? Math.min(SEEN_FOR, Date.parse(session.expiresAt) - clock()) : SEEN_FOR),
    clock,
    ask: (hash) => store.touchSession(Buffer.from(hash, "hex"), IDLE_SECONDS),
  });
  const basic = new BasicSignIns({
    clock,
    signIn: (credentials, address) => signIn.account({ ...credentials, code: null }, address),
  });
  const forget = (userId: string) => {
    const isOfUser = (value: FoundKey | Session | null) => value?.account?.id === userId;
    accounts.forget(userId);
    keys.forgetWhere(isOfUser);
    sessions.forgetWhere(isOfUser);
    basic.forget(userId);
  };
  changes.onIdentityChange((change) => {
    if (change === "lost" || change === "back") {
      for (const each of [accounts, keys, sessions, basic]) each.listen(change === "back");
    } else if ("user" in change) forget(change.user);
    else if ("session" in change) sessions.forget(change.session);
    else keys.forget(change.key);
  });
  return {
    accounts,
    keys,
    sessions,
    forget,
    basic,
    sessionIdle: IDLE_SECONDS * 1000,
    isCsrfToken: (token, session) => csrf.isOf(token, session),
    onKeyUsed,
    clock,
  };
}
