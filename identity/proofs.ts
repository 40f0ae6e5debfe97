import type { IncomingMessage } from "node:http";
import type { Caller, ExternalIdentity } from "../db/caller.ts";
import { problem } from "../problems/problem.ts";
import {
  type Account,
  type AccountState,
  callerOfAccount,
  callerOfSession,
  type FoundKey,
  type Session,
} from "./account.ts";
import type { BasicCredentials, Credentials } from "./credentials.ts";
import { type IdentityStore, identityKey } from "./identity-store.ts";
import { hexHashOf, isOpaqueKey } from "./secrets.ts";
import type { Sender } from "./sender.ts";
import { IssuerUnavailable, TokenError, type Verifier } from "./verified-tokens.ts";

export type IdentityContext = {
  readonly tokens: Verifier;
  /** "" when anonymous access is disabled. */
  readonly anonymousRole: string;
  readonly anonymous: Caller;
  /** Null when the database has no accounts of this service. */
  readonly store: IdentityStore | null;
  /** Whether functions of the database can read the credentials of a request. */
  readonly showsCredentials: boolean;
  /** The IP address of the client. */
  addressOf(request: IncomingMessage): string;
};

/** One credential of a request. */
export type Proof = {
  /**
   * `"user 7"` or `"key 5d3f…"`, for credentials of every kind. Null for an anonymous caller, and for a credential that
   * is new or no longer valid. Costs no query, no signature check and no password hash.
   */
  knownName(): string | null;
  /**
   * Null for a session that has ended. Throws, or rejects with, Problem. A cached caller is returned without a
   * promise.
   */
  caller(sender: Sender): Caller | null | Promise<Caller | null>;
};

export function proofsOf(credentials: Credentials, request: IncomingMessage, context: IdentityContext): Proof[] {
  const { bearer, basic, session, keys } = credentials;
  const proofs: Proof[] = [];
  for (const key of keys) {
    proofs.push(isOpaqueKey(key) ? storedKey(key, "bad key", context) : signedKey(key, context));
  }
  if (bearer !== null) {
    proofs.push(isOpaqueKey(bearer) ? storedKey(bearer, "bad token", context) : accessToken(bearer, context));
  }
  if (session !== null) proofs.push(sessionCookie(session, context));
  // Last, so that the password is not hashed if another credential is refused.
  if (basic !== null) proofs.push(password(basic, request, context));
  return proofs;
}

/** A signed token in `Authorization: Bearer`. */
function accessToken(token: string, context: IdentityContext): Proof {
  const { tokens, store } = context;
  const current = (caller: Caller, sender: Sender): Caller | Promise<Caller> => {
    const { external } = caller;
    if (store !== null && external !== undefined) {
      const linked = store.linked.get(identityKey(external.issuer, external.subject), sender);
      const callerOf = (account: Account | null) => linkedCaller(caller, external, account);
      return linked instanceof Promise ? linked.then(callerOf) : callerOf(linked);
    }
    const { sub } = caller.claims;
    if (store === null || typeof sub !== "string") return caller;
    const last = store.accounts.peek(sub);
    // Another process issued the token after a change of the account that has not been reported to this process yet.
    if (last && last.epoch < Number(caller.claims.epoch)) store.accounts.delete(sub);
    const state = store.accounts.get(sub, sender);
    return state instanceof Promise ? state.then((found) => requireMatch(caller, found)) : requireMatch(caller, state);
  };
  return {
    knownName: () => nameOfToken(token, context),
    caller(sender) {
      const caller = verified(() => tokens.verify(token), "expired token", "bad token");
      return caller instanceof Promise ? caller.then((found) => current(found, sender)) : current(caller, sender);
    },
  };
}

/** A signed token that is sent as an API key. */
const signedKey = (key: string, context: IdentityContext): Proof => ({
  knownName: () => nameOfToken(key, context),
  caller: () => verified(() => context.tokens.verifyKey(key), "expired key", "bad key"),
});

/** A key whose hash is in the database, sent as an API key or as a bearer token. */
function storedKey(key: string, refusal: "bad key" | "bad token", { store, anonymousRole }: IdentityContext): Proof {
  if (store === null) return refused(refusal);
  const hash = hexHashOf(key);
  const newCaller = ({ kind, account }: FoundKey, expiresAt: number | null): Caller => {
    const credential = { kind: "key", id: hash } as const;
    if (account !== null) return { ...callerOfAccount(account, null), expiresAt, credential };
    const role = kind === "service" ? "service_role" : anonymousRole;
    return { role, claims: { role }, expiresAt, refused: null, credential };
  };
  const callerOf = (found: FoundKey | null): Caller => {
    if (found === null || found.account?.isDisabled) throw problem(refusal);
    const expiresAt = found.expiresAt === null ? null : Date.parse(found.expiresAt);
    if (expiresAt !== null && expiresAt <= store.clock()) throw problem("expired key");
    store.onKeyUsed(found.id);
    return callerOfRow(found, () => newCaller(found, expiresAt));
  };
  return {
    knownName() {
      const known = store.keys.peek(hash);
      if (!known || known.account?.isDisabled || known.kind === "anon") return null;
      if (known.expiresAt !== null && Date.parse(known.expiresAt) <= store.clock()) return null;
      return known.account ? userName(known.account.id) : `key ${known.id}`;
    },
    caller(sender) {
      const found = store.keys.get(hash, sender);
      return found instanceof Promise ? found.then(callerOf) : callerOf(found);
    },
  };
}

function sessionCookie(id: string, { store, anonymous }: IdentityContext): Proof {
  // The cookie belongs to another service on the same host.
  if (store === null) return { knownName: () => null, caller: () => anonymous };
  const hash = hexHashOf(id);
  const callerOf = (session: Session | null): Caller | null =>
    session &&
    callerOfRow(session, () => ({
      ...callerOfSession(session),
      expiresAt: Math.min(Date.parse(session.expiresAt), store.clock() + store.sessionIdle),
      credential: { kind: "session", id: hash },
    }));
  return {
    knownName() {
      const account = store.sessions.peek(hash)?.account;
      return account ? userName(account.id) : null;
    },
    caller(sender) {
      const session = store.sessions.get(hash, sender);
      return session instanceof Promise ? session.then(callerOf) : callerOf(session);
    },
  };
}

/** `Authorization: Basic` */
function password(credentials: BasicCredentials, request: IncomingMessage, context: IdentityContext): Proof {
  const { store, addressOf } = context;
  if (store === null) return refused("unreadable");
  return {
    knownName() {
      const caller = store.basic.known(credentials, addressOf(request));
      return caller ? userName(caller.claims.sub) : null;
    },
    caller: (sender) => store.basic.callerOf(credentials, sender),
  };
}

/** A credential of an account, where the database has none. */
const refused = (reason: "bad key" | "bad token" | "unreadable"): Proof => ({
  knownName: () => null,
  caller() {
    throw problem(reason);
  },
});

function nameOfToken(token: string, { tokens, store, anonymousRole }: IdentityContext): string | null {
  const caller = tokens.known(token);
  if (caller === null) return null;
  const { external } = caller;
  const account = external && store?.linked.peek(identityKey(external.issuer, external.subject));
  if (account) return userName(account.id);
  if (isAnonymous(caller, anonymousRole)) return null;
  const { sub } = caller.claims;
  const state = typeof sub === "string" ? store?.accounts.peek(sub) : undefined;
  const isValid = typeof sub !== "string" || store === null || (state && matchesAccount(caller, state));
  return isValid ? nameOfCaller(caller, anonymousRole) : null;
}

/** `"user 7"`, or `"key 5d3f…"` for a caller who is no user; null for an anonymous caller. */
export function nameOfCaller(caller: Caller, anonymousRole: string): string | null {
  const { role, claims, credential } = caller;
  if (typeof claims.sub === "string") return userName(claims.sub);
  return isAnonymous(caller, anonymousRole) ? null : `key ${credential?.id ?? claims.jti ?? role}`;
}

const userName = (id: unknown) => `user ${id}`;

/** The anon key identifies no user. */
export const isAnonymous = ({ role, claims }: Caller, anonymousRole: string): boolean =>
  role === anonymousRole && claims.sub === undefined;

/**
 * The caller with a token of another issuer: the user, if the identity is linked to an account. The role is that of the
 * account. The token proves no second factor, so it is rejected if the account has one, as passwords in Basic are.
 */
function linkedCaller(caller: Caller, { roles }: ExternalIdentity, account: Account | null): Caller {
  if (account === null) return caller;
  if (account.isDisabled) throw problem("revoked token");
  if (account.hasFactor) throw problem("second factor elsewhere");
  if (roles?.includes(account.role) === false) throw problem("bad token");
  const known = linkedCallers.get(caller);
  if (known?.account === account) return known.linked;
  const { role, claims } = callerOfAccount(account, null);
  const linked = { ...caller, role, claims: { ...caller.claims, ...claims } };
  linkedCallers.set(caller, { account, linked });
  return linked;
}

const linkedCallers = new WeakMap<Caller, { readonly account: Account; readonly linked: Caller }>();

function requireMatch(caller: Caller, state: AccountState | null): Caller {
  if (state === null || !matchesAccount(caller, state)) throw problem("revoked token");
  return caller;
}

/** Whether a token matches the current state of its account. */
const matchesAccount = ({ role, claims: { epoch = 0, sid } }: Caller, state: AccountState): boolean =>
  (state.epoch === epoch || state.kept.has(sid as string)) && state.role === role && !state.revoked.has(sid as string);

/** Throws, or rejects with, Problem. */
function verified(
  verify: () => Caller | Promise<Caller>,
  expired: "expired token" | "expired key",
  bad: "bad token" | "bad key",
): Caller | Promise<Caller> {
  const refuse = (error: unknown): never => {
    if (error instanceof IssuerUnavailable) throw problem("issuer unavailable", { retryAfter: 5 });
    if (!(error instanceof TokenError)) throw error;
    if (error.reason === "expired") throw problem(expired);
    throw problem(bad, error.fault && bad === "bad token" ? { fault: error.fault } : {});
  };
  try {
    const caller = verify();
    return caller instanceof Promise ? caller.catch(refuse) : caller;
  } catch (error) {
    return refuse(error);
  }
}

/** One caller object per cached row, because other caches have the object as their key. */
const callers = new WeakMap<FoundKey | Session, Caller>();

function callerOfRow(row: FoundKey | Session, create: () => Caller): Caller {
  const caller = callers.get(row) ?? create();
  callers.set(row, caller);
  return caller;
}
