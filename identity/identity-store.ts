import type { IncomingHttpHeaders } from "node:http";
import type { Account, AccountState, FoundKey, Session } from "./account.ts";
import type { BasicSignIns } from "./basic-sign-ins.ts";
import type { LookupCache } from "./lookup-cache.ts";

/** The credentials that are in the database, cached. */
export type IdentityStore = {
  /** By the user's id: the state that a token must match. */
  readonly accounts: LookupCache<AccountState | null>;
  /** By the SHA-256 of the key in hex. */
  readonly keys: LookupCache<FoundKey | null>;
  /** By the SHA-256 of the cookie in hex. */
  readonly sessions: LookupCache<Session | null>;
  /** By `identityKey`: the account that an identity at another issuer is linked to. */
  readonly linked: LookupCache<Account | null>;
  readonly basic: BasicSignIns;
  /** Milliseconds after which a session that is not used ends. */
  readonly sessionIdle: number;
  /** Removes a user from all caches. */
  forget(userId: string): void;
  /** Whether the CSRF token belongs to the session. */
  isCsrfToken(token: string, session: string): boolean;
  /** Whether a program or a page of this service sends a request with these headers. */
  isSameOrigin(headers: IncomingHttpHeaders): boolean;
  onKeyUsed(id: string): void;
  clock(): number;
};

/** The key of an identity in the cache: `["https://id.example","7"]`. */
export const identityKey = (issuer: string, subject: string): string => JSON.stringify([issuer, subject]);
