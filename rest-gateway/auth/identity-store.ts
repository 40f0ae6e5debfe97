import { MAX_ACCESS_TOKEN_TTL } from "../../config/settings.ts";
import type { Notifications } from "../../db/follow/notifications.ts";
import type { Account, AccountState, Clock, FoundKey, Session } from "../../identity/account.ts";
import { BasicSignIns } from "../../identity/basic-sign-ins.ts";
import { IDLE_SECONDS } from "../../identity/cookies.ts";
import type { CsrfTokens } from "../../identity/credentials.ts";
import type { IdentityStore } from "../../identity/identity-store.ts";
import { LookupCache } from "../../identity/lookup-cache.ts";
import type { Sender } from "../../identity/sender.ts";
import type { Auth } from "./auth.ts";
import { seconds } from "./functions.ts";
import { findAccountOfIdentity } from "./repository.ts";
import type { SameOriginCheck } from "./same-origin.ts";
import { signInOnce } from "./sign-in.ts";

/** Milliseconds between two updates of a session that is in use, and so the precision of its idle timeout. */
const SEEN_FOR = 30_000;
/**
 * Milliseconds for which a revoked session is looked up. Longer than any of its tokens is valid, because clocks differ, and
 * because tokens keep the expiry of an ACCESS_TOKEN_TTL that was longer before a restart.
 */
const REVOKED_FOR = 2 * MAX_ACCESS_TOKEN_TTL * 1000;

export type IdentityStoreOptions = {
  /** Null for work of the service. */
  from(sender: Sender | null): Auth;
  readonly csrf: CsrfTokens;
  readonly sameOrigin: SameOriginCheck;
  readonly clock: Clock;
  readonly notifications: Pick<Notifications, "onIdentityChange">;
  onKeyUsed(id: string): void;
};

/** Accounts, keys and sessions of the database, cached until the database reports a change. */
export function identityStore(options: IdentityStoreOptions): IdentityStore {
  const { from, csrf, sameOrigin, clock, notifications, onKeyUsed } = options;
  const forever = { maxAge: () => Number.POSITIVE_INFINITY, clock };
  const accounts = new LookupCache<AccountState | null>({
    ...forever,
    lookUp: async (id, sender) => {
      type Found = Pick<AccountState, "epoch" | "role"> & Record<"revoked" | "kept", readonly string[]>;
      const { functions } = from(sender);
      const values = [id, functions.now(-REVOKED_FOR)];
      const found = await functions.call<Found | null>("account_state($1, $2::timestamptz)", values);
      return found && { ...found, revoked: new Set(found.revoked), kept: new Set(found.kept) };
    },
  });
  const keys = new LookupCache<FoundKey | null>({
    ...forever,
    lookUp: (hash, sender) => from(sender).functions.call("find_key($1::bytea)", [`\\x${hash}`]),
  });
  const sessions = new LookupCache<Session | null>({
    // Never cached beyond the end of the session.
    maxAge: (session) => (session ? Math.min(SEEN_FOR, Date.parse(session.expiresAt) - clock()) : SEEN_FOR),
    clock,
    lookUp(hash, sender) {
      const { functions } = from(sender);
      const values = [`\\x${hash}`, functions.now(), seconds(IDLE_SECONDS)];
      // Postpones the idle timeout.
      return functions.call("touch_session($1::bytea, $2::timestamptz, $3::interval)", values);
    },
  });
  const linked = new LookupCache<Account | null>({
    ...forever,
    lookUp: (key, sender) =>
      findAccountOfIdentity(from(sender), ...(JSON.parse(key) as [issuer: string, subject: string])),
  });
  const basic = new BasicSignIns({
    clock,
    signIn: (credentials, sender) => signInOnce(from(sender), { ...credentials, code: null }, sender.address),
  });
  const forget = (userId: string) => {
    const isOfUser = (value: FoundKey | Session | null) => value?.account?.id === userId;
    accounts.delete(userId);
    keys.deleteWhere(isOfUser);
    sessions.deleteWhere(isOfUser);
    // An identity without an account may have been linked to this one.
    linked.deleteWhere((account) => account === null || account.id === userId);
    basic.forget(userId);
  };
  notifications.onIdentityChange((change) => {
    if (change === "lost" || change === "back") {
      for (const each of [accounts, keys, sessions, linked, basic]) each.setListening(change === "back");
    } else if (change === "providers") return;
    else if ("user" in change) forget(change.user);
    else if ("session" in change) sessions.delete(change.session);
    else keys.delete(change.key);
  });
  return {
    accounts,
    keys,
    sessions,
    linked,
    forget,
    basic,
    sessionIdle: IDLE_SECONDS * 1000,
    isCsrfToken: (token, session) => csrf.isOf(token, session),
    isSameOrigin: (headers) => sameOrigin.accepts(headers),
    onKeyUsed,
    clock,
  };
}
