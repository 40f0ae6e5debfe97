import type { NotificationFeed } from "../../db/changes/notifications.ts";
import { IDLE_SECONDS } from "../auth/cookie.ts";
import type { CsrfTokens } from "../auth/csrf.ts";
import type { SignIn } from "../auth/sign-in.ts";
import type { AccountState, AuthStore, Clock, FoundKey, Session } from "../auth/store.ts";
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
  const forever = { goodFor: Number.POSITIVE_INFINITY, clock };
  const accounts = new Remembered<AccountState | null>({ ...forever, ask: (id) => store.accountState(id) });
  const keys = new Remembered<FoundKey | null>({ ...forever, ask: (hash) => store.findKey(Buffer.from(hash, "hex")) });
  const sessions = new Remembered<Session | null>({
    goodFor: SEEN_FOR,
    clock,
    ask: (hash) => store.touchSession(Buffer.from(hash, "hex"), IDLE_SECONDS),
  });
  changes.onPrincipalChange((change) => {
    if (change === "lost" || change === "back") {
      for (const each of [accounts, keys, sessions]) each.listen(change === "back");
    } else if ("user" in change) {
      const isOfUser = (value: FoundKey | Session | null) => value?.account?.id === change.user;
      accounts.forget(change.user);
      keys.forgetWhere(isOfUser);
      sessions.forgetWhere(isOfUser);
    } else if ("session" in change) sessions.forget(change.session);
    else keys.forget(change.key);
  });
  return {
    accounts,
    keys,
    sessions,
    signInBasic: (username, password, address) => signIn.account({ username, password, code: null }, address),
    isCsrfToken: (token, session) => csrf.isOf(token, session),
    onKeyUsed,
    clock,
  };
}
