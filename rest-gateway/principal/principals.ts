import { type Caller, nobody } from "../../db/caller.ts";
import type { Account, FoundKey, Session } from "../auth/store.ts";
import type { Credentials } from "./credentials.ts";
import { RefusedError } from "./refused.ts";
import type { Remembered } from "./remembered.ts";
import { hashOf, isOpaqueKey } from "./secrets.ts";
import { TokenError, type Verifier } from "./verified-tokens.ts";

/** What is looked up in the database; null where nobody signs in. */
export type SignedIn = {
  /** By the user's id: what a token must agree with. */
  readonly accounts: Remembered<Pick<Account, "epoch" | "role"> | null>;
  /** By the SHA-256 in hex. */
  readonly keys: Remembered<FoundKey | null>;
  readonly sessions: Remembered<Session | null>;
  /** Throws RefusedError. */
  signInBasic(username: string, password: string, address: string): Promise<Account>;
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
  /** Whether the request may change something. */
  readonly isUnsafe: boolean;
  /** `X-CSRF-Token` and its other names. */
  readonly csrfToken: string | null;
  /** The client's address. */
  readonly address: string;
};

/**
 * Who asks, for every interface: each credential that is sent must be good, and all of them must be of one and the same;
 * a bad one is refused, never passed over for a weaker one. The key for everybody is of nobody in particular.
 */
export class Principals {
  readonly #options: PrincipalOptions;
  readonly #nobody: Caller;
  readonly #keyCallers = new OncePer<FoundKey, Caller>();
  readonly #sessionCallers = new OncePer<Session, Caller>();

  constructor(options: PrincipalOptions) {
    this.#options = options;
    this.#nobody = nobody(options.anonymousRole);
  }

  /** Throws, or rejects with, RefusedError. What is known already is given at once, and not as a promise. */
  resolve(credentials: Credentials, circumstances: Circumstances): Caller | Promise<Caller> {
    if (credentials.isUnreadable) throw new RefusedError("unreadable");
    const found = this.#each(credentials, circumstances);
    const isWritten = circumstances.isUnsafe && this.#isWritten(credentials, circumstances);
    const isAtHand = found.every((caller) => !(caller instanceof Promise));
    if (isAtHand) return this.#agree(found as readonly Caller[], circumstances, isWritten);
    return Promise.all(found).then((callers) => this.#agree(callers, circumstances, isWritten));
  }

  #each(credentials: Credentials, circumstances: Circumstances): (Caller | Promise<Caller>)[] {
    const { bearer, basic, session, apiKey, apikey } = credentials;
    if (circumstances.needsKey && apikey === null && apiKey === null) throw new RefusedError("no key");
    const found: (Caller | Promise<Caller>)[] = [];
    try {
      if (apikey !== null) found.push(this.#callerOfKey(apikey));
      if (apiKey !== null) found.push(this.#callerOfKey(apiKey));
      if (bearer !== null) found.push(this.#callerOfBearer(bearer));
      if (basic !== null) found.push(this.#callerOfBasic(basic.username, basic.password, circumstances.address));
      if (session !== null) found.push(this.#callerOfSession(session));
    } catch (error) {
      // Nobody waits for those that are being looked up any more.
      for (const caller of found) if (caller instanceof Promise) caller.catch(() => {});
      throw error;
    }
    return found;
  }

  /** The strongest of them; somebody is stronger than everybody. */
  #agree(callers: readonly Caller[], { origin, isUnsafe }: Circumstances, isWritten: boolean): Caller {
    let agreed: Caller | null = null;
    for (const caller of callers) {
      if (origin && caller.role === "service_role") throw new RefusedError("service key in browser");
      if (this.#isAnybody(caller)) continue;
      if (agreed !== null && (agreed.role !== caller.role || agreed.claims.sub !== caller.claims.sub)) {
        throw new RefusedError("disagreement");
      }
      // What a browser sends by itself proves less than what a program has written.
      if (agreed === null || agreed.credential?.kind === "session") agreed = caller;
    }
    const caller = agreed ?? callers[0] ?? this.#nobody;
    if (caller.role === "") throw new RefusedError("anonymous off");
    if (isUnsafe && !isWritten && caller.credential?.kind === "session") throw new RefusedError("no csrf token");
    return caller;
  }

  /** Whether the request bears the token that only those know who may read our answers; a cookie is sent by itself. */
  #isWritten({ session }: Credentials, { csrfToken }: Circumstances): boolean {
    const { signedIn } = this.#options;
    return session !== null && csrfToken !== null && signedIn?.isCsrfToken(csrfToken, session) === true;
  }

  #isAnybody({ role, claims }: Caller): boolean {
    return role === this.#options.anonymousRole && claims.sub === undefined;
  }

  #callerOfBearer(token: string): Caller | Promise<Caller> {
    if (isOpaqueKey(token)) return this.#callerOfOpaqueKey(token, "bad token");
    const caller = verified(() => this.#options.tokens.verify(token), "expired token", "bad token");
    const { signedIn } = this.#options;
    const { sub } = caller.claims;
    if (signedIn === null || typeof sub !== "string") return caller;
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
    const hash = hashOf(key).toString("hex");
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

  async #callerOfBasic(username: string, password: string, address: string): Promise<Caller> {
    const { signedIn } = this.#options;
    if (signedIn === null) throw new RefusedError("unreadable");
    const account = await signedIn.signInBasic(username, password, address);
    return { ...callerOfAccount(account), credential: { kind: "basic", id: null } };
  }

  #callerOfSession(id: string): Caller | Promise<Caller> {
    const { signedIn } = this.#options;
    // Cookies of other services on this host are none of ours.
    if (signedIn === null) return this.#nobody;
    const hash = hashOf(id).toString("hex");
    const found = signedIn.sessions.of(hash);
    return found instanceof Promise
      ? found.then((known) => this.#sessionCaller(known, hash))
      : this.#sessionCaller(found, hash);
  }

  #sessionCaller(session: Session | null, hash: string): Caller {
    if (session === null) throw new RefusedError("no session");
    return this.#sessionCallers.of(session, () => ({
      ...callerOfAccount(session.account),
      expiresAt: Date.parse(session.expiresAt),
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

/** The claims of a token that the account would have been given. */
export const callerOfAccount = ({ id, name, role, permissions }: Account): Caller => ({
  role,
  claims: { sub: id, name, role, permissions },
  expiresAt: null,
  refused: null,
});

function agreeing(caller: Caller, state: Pick<Account, "epoch" | "role"> | null): Caller {
  const { epoch = 0 } = caller.claims;
  if (state === null || state.epoch !== epoch || state.role !== caller.role) throw new RefusedError("revoked token");
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
