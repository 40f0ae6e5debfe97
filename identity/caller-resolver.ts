import { anonymous, type Caller } from "../db/caller.ts";
import { type AccountState, callerOfAccount, type FoundKey, type Session } from "./account.ts";
import type { Remembered } from "./account-cache.ts";
import type { BasicSignIns } from "./basic-sign-ins.ts";
import type { BasicCredentials, Credentials } from "./credentials.ts";
import { agrees, isAnybody, KnownCallers } from "./known-callers.ts";
import { RefusedError } from "./refused.ts";
import { hexHashOf, isOpaqueKey } from "./secrets.ts";
import { TokenError, type Verifier } from "./verified-tokens.ts";

/** What is looked up in the database; null where nobody signs in. */
export type SignedIn = {
  /** By the user's id: what a token must agree with. */
  readonly accounts: Remembered<AccountState | null>;
  /** By the SHA-256 in hex. */
  readonly keys: Remembered<FoundKey | null>;
  readonly sessions: Remembered<Session | null>;
  /** Of this user all is asked anew. */
  forget(userId: string): void;
  readonly basic: BasicSignIns;
  /** Milliseconds that a session lasts when nobody uses it. */
  readonly sessionIdle: number;
  /** Whether the header fits the session. */
  isCsrfToken(token: string, session: string): boolean;
  onKeyUsed(id: string): void;
  clock(): number;
};

export type PrincipalOptions = {
  readonly tokens: Verifier;
  /** "" when nobody may come without a token. */
  readonly anonymousRole: string;
  readonly signedIn: SignedIn | null;
};

/** What else of the request has a say. */
export type Circumstances = {
  /** Whether a key is required, of any kind that is sent as `apikey`, `X-API-Key` or `api_key`. */
  readonly needsKey: boolean;
  /** Browsers send it; other programs don't. */
  readonly origin: string | undefined;
  /** What must come with a session, which browsers send by themselves; null where nothing can be changed. */
  readonly sessionNeeds: "csrf token" | "own page" | null;
  /** `X-CSRF-Token` and its other names. */
  csrfToken(): string | null;
  /** Whether a page of ours sends the request, or a program. */
  isOwnPage(): boolean;
  /** The client's address. */
  readonly address: string;
};

/**
 * Who asks, for every interface: each credential that is sent must be good, and all of them must be of one and the same;
 * a bad one is refused, never passed over for a weaker one. The key for everybody is of nobody in particular.
 */
export class Principals {
  readonly known: KnownCallers;
  readonly #options: PrincipalOptions;
  readonly #nobody: Caller;
  /** Stands for a session that is not there any more. */
  readonly #ended: Caller;
  readonly #keyCallers = new OncePer<FoundKey, Caller>();
  readonly #sessionCallers = new OncePer<Session, Caller>();

  constructor(options: PrincipalOptions) {
    this.#options = options;
    this.known = new KnownCallers(options);
    this.#nobody = anonymous(options.anonymousRole);
    this.#ended = anonymous(options.anonymousRole, "invalid");
  }

  /** Throws, or rejects with, RefusedError. What is known already is given at once, and not as a promise. */
  resolve(credentials: Credentials, circumstances: Circumstances): Caller | Promise<Caller> {
    const { unreadable } = credentials;
    if (unreadable !== null) throw new RefusedError("unreadable", unreadable === "Basic" ? { scheme: unreadable } : {});
    const found = this.#each(credentials, circumstances);
    const isAtHand = found.every((caller) => !(caller instanceof Promise));
    if (isAtHand) return this.#agree(found as readonly Caller[], credentials, circumstances);
    return Promise.all(found).then((callers) => this.#agree(callers, credentials, circumstances));
  }

  /** Whether a user may still do what he could do as this caller: he may have signed out since, but not lost his role. */
  async isStill({ role, claims: { sub } }: Caller): Promise<boolean> {
    const { signedIn } = this.#options;
    if (signedIn === null || typeof sub !== "string") return true;
    return (await signedIn.accounts.of(sub))?.role === role;
  }

  #each(credentials: Credentials, circumstances: Circumstances): (Caller | Promise<Caller>)[] {
    const { bearer, basic, session, keys } = credentials;
    if (circumstances.needsKey && keys.length === 0) throw new RefusedError("no key");
    const found: (Caller | Promise<Caller>)[] = [];
    try {
      for (const key of keys) found.push(this.#callerOfKey(key));
      if (bearer !== null) found.push(this.#callerOfBearer(bearer));
      if (session !== null) found.push(this.#callerOfSessionIfAny(session));
      // The last: a password is not tried beside what is bad already.
      if (basic !== null) found.push(this.#callerOfBasic(basic, circumstances.address));
    } catch (error) {
      // Nobody waits for those that are being looked up any more.
      for (const caller of found) if (caller instanceof Promise) caller.catch(() => {});
      throw error;
    }
    return found;
  }

  /** The strongest of them; somebody is stronger than everybody. */
  #agree(callers: readonly Caller[], credentials: Credentials, circumstances: Circumstances): Caller {
    let agreed: Caller | null = null;
    for (const caller of callers) {
      if (caller === this.#ended) continue;
      if (circumstances.origin && caller.role === "service_role") throw new RefusedError("service key in browser");
      if (isAnybody(caller, this.#options.anonymousRole)) {
        // Who sends the key for everybody in the stronger place wants to be no more than that.
        if (agreed?.role === "service_role") throw new RefusedError("disagreement");
        continue;
      }
      if (agreed !== null && (agreed.role !== caller.role || agreed.claims.sub !== caller.claims.sub)) {
        throw new RefusedError("disagreement");
      }
      // What a browser sends by itself proves less than what a program has written.
      if (agreed === null || agreed.credential?.kind === "session") agreed = caller;
    }
    // A cookie is sent by itself, and may be another program's on the same host: beside a name it need not be good.
    if (agreed === null && callers.includes(this.#ended)) throw new RefusedError("no session");
    const caller = agreed ?? callers[0] ?? this.#nobody;
    if (caller.role === "") throw new RefusedError("anonymous off");
    if (caller.credential?.kind === "session") this.#refuseForgery(credentials, circumstances);
    return caller;
  }

  /** A cookie alone does not tell who wrote the request. */
  #refuseForgery({ session }: Credentials, { sessionNeeds, csrfToken, isOwnPage }: Circumstances): void {
    if (sessionNeeds === "own page" && !isOwnPage()) throw new RefusedError("foreign page");
    if (sessionNeeds !== "csrf token") return;
    const token = csrfToken();
    const isWritten = token !== null && this.#options.signedIn!.isCsrfToken(token, session!);
    if (!isWritten) throw new RefusedError("no csrf token");
  }

  #callerOfBearer(token: string): Caller | Promise<Caller> {
    if (isOpaqueKey(token)) return this.#callerOfOpaqueKey(token, "bad token");
    const caller = verified(() => this.#options.tokens.verify(token), "expired token", "bad token");
    const { signedIn } = this.#options;
    const { sub } = caller.claims;
    if (signedIn === null || typeof sub !== "string") return caller;
    const last = signedIn.accounts.lastOf(sub);
    // Another process has signed him in since, and its word of the change is still on the way.
    if (last && last.epoch < Number(caller.claims.epoch)) signedIn.accounts.forget(sub);
    const state = signedIn.accounts.of(sub);
    return state instanceof Promise ? state.then((known) => agreeing(caller, known)) : agreeing(caller, state);
  }

  #callerOfKey(key: string): Caller | Promise<Caller> {
    if (isOpaqueKey(key)) return this.#callerOfOpaqueKey(key, "bad key");
    return verified(() => this.#options.tokens.verifyKey(key), "expired key", "bad key");
  }

  #callerOfOpaqueKey(key: string, reason: "bad key" | "bad token"): Caller | Promise<Caller> {
    const { signedIn } = this.#options;
    if (signedIn === null) throw new RefusedError(reason);
    const hash = hexHashOf(key);
    const found = signedIn.keys.of(hash);
    return found instanceof Promise
      ? found.then((known) => this.#keyCaller(known, hash, reason, signedIn))
      : this.#keyCaller(found, hash, reason, signedIn);
  }

  #keyCaller(key: FoundKey | null, hash: string, reason: "bad key" | "bad token", signedIn: SignedIn): Caller {
    if (key === null || key.account?.isDisabled) throw new RefusedError(reason);
    const expiresAt = key.expiresAt === null ? null : Date.parse(key.expiresAt);
    if (expiresAt !== null && expiresAt <= signedIn.clock()) throw new RefusedError("expired key");
    signedIn.onKeyUsed(key.id);
    return this.#keyCallers.of(key, () => this.#makeKeyCaller(key, hash, expiresAt));
  }

  #makeKeyCaller({ kind, account }: FoundKey, hash: string, expiresAt: number | null): Caller {
    const credential = { kind: "key", id: hash } as const;
    if (account !== null) return { ...callerOfAccount(account), expiresAt, credential };
    const role = kind === "service" ? "service_role" : this.#options.anonymousRole;
    return { role, claims: { role }, expiresAt, refused: null, credential };
  }

  #callerOfBasic(basic: BasicCredentials, address: string): Caller | Promise<Caller> {
    const { signedIn } = this.#options;
    if (signedIn === null) throw new RefusedError("unreadable");
    return signedIn.basic.callerOf(basic, address);
  }

  #callerOfSessionIfAny(id: string): Caller | Promise<Caller> {
    const orEnded = (error: unknown): Caller => {
      if (error instanceof RefusedError && error.reason === "no session") return this.#ended;
      throw error;
    };
    try {
      const caller = this.#callerOfSession(id);
      return caller instanceof Promise ? caller.catch(orEnded) : caller;
    } catch (error) {
      return orEnded(error);
    }
  }

  #callerOfSession(id: string): Caller | Promise<Caller> {
    const { signedIn } = this.#options;
    // Cookies of other services on this host are none of ours.
    if (signedIn === null) return this.#nobody;
    const hash = hexHashOf(id);
    const found = signedIn.sessions.of(hash);
    return found instanceof Promise
      ? found.then((known) => this.#sessionCaller(known, hash, signedIn))
      : this.#sessionCaller(found, hash, signedIn);
  }

  #sessionCaller(session: Session | null, hash: string, { clock, sessionIdle }: SignedIn): Caller {
    if (session === null) throw new RefusedError("no session");
    return this.#sessionCallers.of(session, () => ({
      ...callerOfAccount(session.account),
      expiresAt: Math.min(Date.parse(session.expiresAt), clock() + sessionIdle),
      credential: { kind: "session", id: hash },
    }));
  }
}

/** Objects that are made once for each of those that they are made of: what hangs on a caller is found again. */
class OncePer<From extends object, Made> {
  readonly #made = new WeakMap<From, Made>();

  of(from: From, make: () => Made): Made {
    const made = this.#made.get(from) ?? make();
    this.#made.set(from, made);
    return made;
  }
}

function agreeing(caller: Caller, state: AccountState | null): Caller {
  if (state === null || !agrees(caller, state)) throw new RefusedError("revoked token");
  return caller;
}

function verified(
  verify: () => Caller,
  expired: "expired token" | "expired key",
  bad: "bad token" | "bad key",
): Caller {
  try {
    return verify();
  } catch (error) {
    if (!(error instanceof TokenError)) throw error;
    throw new RefusedError(error.reason === "expired" ? expired : bad);
  }
}
