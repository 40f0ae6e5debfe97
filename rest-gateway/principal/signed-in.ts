import type { NotificationFeed } from "../../db/changes/notifications.ts";
import { IDLE_SECONDS } from "../auth/cookie.ts";
import type { CsrfTokens } from "../auth/csrf.ts";
import type { SignIn } from "../auth/sign-in.ts";
import type { AccountState, AuthStore, Clock, FoundKey, Session } from "../auth/store.ts";
import { BasicSignIns } from "./basic-sign-ins.ts";
import type { SignedIn } from "./principals.ts";
import { Remembered } from "./remembered.ts";

/** Milliseconds that a session counts as seen without a word to the database: its end is exact to that. */
const SEEN_FOR = 30_000;

export type SignedInOptions = {
  readonly store: AuthStore;
  readonly signIn: SignIn;
  readonly csrf: CsrfTokens;
  readonly clock: Clock;
  readonly changes: Pick<NotificationFeed, "onPrincipalChange">;
  onKeyUsed(id: string): void;
};

/** What the database knows of principals, remembered until it tells of a change. */
export function signedIn({ store, signIn, csrf, clock, changes, onKeyUsed }: SignedInOptions): SignedIn {
  const forever = { goodFor: () => Number.POSITIVE_INFINITY, clock };
  const accounts = new Remembered<AccountState | null>({ ...forever, ask: (id) => store.accountState(id) });
  const keys = new Remembered<FoundKey | null>({ ...forever, ask: (hash) => store.findKey(Buffer.from(hash, "hex")) });
  const sessions = new Remembered<Session | null>({
    // Not beyond its end.
    goodFor: (session) => (session ? Math.min(SEEN_FOR, Date.parse(session.expiresAt) - clock()) : SEEN_FOR),
    clock,
    ask: (hash) => store.touchSession(Buffer.from(hash, "hex"), IDLE_SECONDS),
  });
  const forget = (userId: string) => {
    const isOfUser = (value: FoundKey | Session | null) => value?.account?.id === userId;
    accounts.forget(userId);
    keys.forgetWhere(isOfUser);
    sessions.forgetWhere(isOfUser);
  };
  changes.onPrincipalChange((change) => {
    if (change === "lost" || change === "back") {
      for (const each of [accounts, keys, sessions]) each.listen(change === "back");
    } else if ("user" in change) forget(change.user);
    else if ("session" in change) sessions.forget(change.session);
    else keys.forget(change.key);
  });
  return {
    accounts,
    keys,
    sessions,
    forget,
    basic: new BasicSignIns({
      accounts,
      clock,
      signIn: (credentials, address) => signIn.account({ ...credentials, code: null }, address),
    }),
    sessionIdle: IDLE_SECONDS * 1000,
    isCsrfToken: (token, session) => csrf.isOf(token, session),
    onKeyUsed,
    clock,
  };
}
