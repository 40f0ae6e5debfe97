import { AsyncLocalStorage } from "node:async_hooks";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { Recipient } from "../db/admission/byte-budget.ts";
import { anonymous, type Caller } from "../db/caller.ts";
import { unavailabilityOf } from "../db/errors.ts";
import { networkOf } from "../db/network.ts";
import type { Trial } from "../db/transaction/trial.ts";
import { problem } from "../problems/problem.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { apiKeyIn, type Credentials, csrfTokenIn, readCredentials } from "./credentials.ts";
import { type IdentityContext, isAnonymous, nameOfCaller, type Proof, proofsOf } from "./proofs.ts";
import type { CacheUse } from "./verified-tokens.ts";

export type CallerResolverOptions = Omit<IdentityContext, "anonymous">;

/** With `hasServiceKey`, the service key is accepted. */
type Context = IdentityContext & { readonly hasServiceKey: boolean };

/** Credentials → caller, for every interface. */
export class CallerResolver {
  #context: Context;

  constructor(options: CallerResolverOptions) {
    this.#context = { ...options, anonymous: anonymous(options.anonymousRole), hasServiceKey: true };
  }

  /** Verifies the tokens of later requests with another verifier, and gives anonymous callers another role. */
  follow({ tokens, anonymousRole }: Pick<CallerResolverOptions, "tokens" | "anonymousRole">): void {
    this.#context = { ...this.#context, tokens, anonymousRole, anonymous: anonymous(anonymousRole) };
  }

  /** From now on, the service key is refused: its role does not bypass row-level security. */
  refuseServiceKey(): void {
    this.#context = { ...this.#context, hasServiceKey: false };
  }

  /** The metrics of verified tokens. */
  registerMetrics(metrics: Metrics): void {
    const use = (name: keyof CacheUse) => () => this.#context.tokens.cache[name];
    metrics.counter({
      name: "jwt_cache_requests_total",
      about: "Lookups in the cache of verified tokens.",
      read: use("requests"),
    });
    metrics.counter({
      name: "jwt_cache_hits_total",
      about: "Lookups that found a token in the cache of verified tokens.",
      read: use("hits"),
    });
    metrics.counter({
      name: "jwt_cache_evictions_total",
      about: "Tokens evicted from the cache of verified tokens to make room for others.",
      read: use("evictions"),
    });
  }

  /** Reads the credentials of a request; `apiKey` is the key in its URL. Nothing is looked up yet. */
  identify(request: IncomingMessage, apiKey: string | null = apiKeyIn(request.url!)): RequestIdentity {
    return new RequestIdentity(request, request.headers, apiKey, this.#context);
  }

  /** Identifies a request that an operator tries as another caller: `tried` decides the caller, not the credentials. */
  identifyAs(request: IncomingMessage, tried: { readonly caller: Caller; readonly trial: Trial }): RequestIdentity {
    return new RequestIdentity(request, request.headers, null, this.#context, { tried });
  }

  /**
   * The caller of a credential that a page of the service has kept: an access token or key, or the id of a session. Null for a session
   * that has ended. Throws, or rejects with, Problem.
   */
  callerOf(kept: KeptCredential, request: IncomingMessage): Caller | null | Promise<Caller | null> {
    const credentials = { bearer: null, session: null, basic: null, keys: [], unreadable: null, ...kept };
    const proof = proofsOf(credentials, request, this.#context)[0]!;
    return forSender({ address: this.#context.addressOf(request) }, () => proof.caller());
  }

  /** Whether the user of a task still has the role that the task was accepted with. Signing out does not matter. */
  async isCurrent({ role, claims: { sub } }: Caller): Promise<boolean> {
    const { store } = this.#context;
    if (store === null || typeof sub !== "string") return true;
    return (await store.accounts.get(sub))?.role === role;
  }
}

export type KeptCredential = { readonly bearer: string } | { readonly session: string };

export type CallerRules = {
  /** Whether the request must have an API key: `apikey`, `X-API-Key` or `api_key`. */
  readonly needsKey: boolean;
};

type IdentityKind = {
  readonly isSocket?: boolean;
  readonly tried?: { readonly caller: Caller; readonly trial: Trial } | null;
};

const proofOf = (caller: Caller): Proof => ({ knownName: () => null, caller: () => caller });

const NO_RULES: CallerRules = { needsKey: false };

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS", "QUERY"]);

/**
 * The credentials of one request, read once, and the caller that they identify. Each credential must be valid and all of
 * them must identify the same caller; an invalid one is refused and never ignored in favour of a weaker one. The anon key
 * may accompany every other credential.
 */
export class RequestIdentity {
  readonly credentials: Credentials;
  /** Null for the requests of clients. */
  readonly trial: Trial | null;
  readonly #proofs: readonly Proof[];
  readonly #request: IncomingMessage;
  /** The key in the URL. */
  readonly #apiKey: string | null;
  readonly #context: Context;
  readonly #isSocket: boolean;
  /** Null before the credentials have identified the caller. */
  #found: Caller | null = null;

  constructor(
    request: IncomingMessage,
    headers: IncomingHttpHeaders,
    apiKey: string | null,
    context: Context,
    { isSocket = false, tried = null }: IdentityKind = {},
  ) {
    this.credentials = readCredentials(headers, apiKey);
    this.trial = tried?.trial ?? null;
    this.#proofs = tried ? [proofOf(tried.caller)] : proofsOf(this.credentials, request, context);
    this.#request = request;
    this.#apiKey = apiKey;
    this.#context = context;
    this.#isSocket = isSocket;
  }

  /** The name of a caller who has sent the same credential before; null for anonymous and unknown callers. Costs no query. */
  get knownName(): string | null {
    for (const proof of this.#proofs) {
      const name = proof.knownName();
      if (name !== null) return name;
    }
    return null;
  }

  /** The name of the caller for the limits: `"user 7"` or `"key 5d3f…"`. Null for an anonymous caller. */
  nameOf(caller: Caller): string | null {
    return nameOfCaller(caller, this.#context.anonymousRole);
  }

  /** Whether functions of the database can read the credentials. */
  get showsCredentials(): boolean {
    return this.#context.showsCredentials;
  }

  /** The IP address of the client. */
  get address(): string {
    return this.#context.addressOf(this.#request);
  }

  /** Throws, or rejects with, Problem. A cached caller is returned without a promise. */
  caller(rules = NO_RULES): Caller | Promise<Caller> {
    const caller = this.#resolve(rules);
    return caller instanceof Promise ? caller.then((found) => this.#keep(found)) : this.#keep(caller);
  }

  /**
   * Rejects with Problem if an API key of the request is not valid, also where another credential identifies the caller. Without a key it
   * does nothing.
   */
  async requireValidKeys(): Promise<void> {
    const { keys } = this.credentials;
    if (keys.length === 0) return;
    const proofs = proofsOf({ ...NO_CREDENTIALS, keys }, this.#request, this.#context);
    const found = await forSender(this, () => lookedUp(proofs.map(async (proof) => proof.caller())));
    if (!found.some((caller) => caller?.role === "service_role")) return;
    if (!this.#context.hasServiceKey) throw problem("service key off");
    if (this.#request.headers.origin) throw problem("service key in browser");
  }

  /**
   * Rejects with Problem if the credentials no longer identify the caller whom they have identified before. A client may complete its
   * request long after its headers: a thief, after the owner has signed out everywhere.
   */
  async recheck(): Promise<void> {
    if (this.#found === null || this.#proofs.length === 0) return;
    if (!isSame(await this.#resolve(NO_RULES), this.#found)) throw problem("revoked token");
  }

  #keep(caller: Caller): Caller {
    this.#found = caller;
    return caller;
  }

  #resolve({ needsKey }: CallerRules): Caller | Promise<Caller> {
    const { unreadable, keys } = this.credentials;
    if (unreadable !== null) throw problem("unreadable", unreadable === "Basic" ? { scheme: unreadable } : {});
    if (needsKey && keys.length === 0 && this.trial === null) throw problem("no key");
    const found = this.#proofs.length === 0 ? [] : forSender(this, () => this.#callers());
    const isCached = found.every((caller) => !(caller instanceof Promise));
    if (isCached) return this.#agreed(found as readonly (Caller | null)[]);
    return lookedUp(found).then((callers) => this.#agreed(callers));
  }

  /** The same client on a WebSocket, whose first message may replace some of the headers. */
  onSocket(headers: IncomingHttpHeaders): RequestIdentity {
    const all = { ...this.#request.headers, ...headers };
    return new RequestIdentity(this.#request, all, this.#apiKey, this.#context, { isSocket: true });
  }

  #callers(): ReturnType<Proof["caller"]>[] {
    const found: ReturnType<Proof["caller"]>[] = [];
    try {
      for (const proof of this.#proofs) found.push(proof.caller());
    } catch (error) {
      // The lookups that have already started are no longer awaited.
      for (const caller of found) if (caller instanceof Promise) caller.catch(() => {});
      throw error;
    }
    return found;
  }

  /** The caller that all credentials agree on; null stands for a session that has ended. */
  #agreed(callers: readonly (Caller | null)[]): Caller {
    const { anonymousRole, anonymous, hasServiceKey } = this.#context;
    let agreed: Caller | null = null;
    for (const caller of callers) {
      if (caller === null) continue;
      if (caller.role === "service_role" && !hasServiceKey) throw problem("service key off");
      if (this.#request.headers.origin && caller.role === "service_role") throw problem("service key in browser");
      if (isAnonymous(caller, anonymousRole)) {
        // A credential that takes precedence over the service key is the anon key, which has fewer rights.
        if (agreed?.role === "service_role") throw problem("disagreement");
        continue;
      }
      if (agreed !== null && !isSame(agreed, caller)) throw problem("disagreement");
      // A cookie, which browsers send by themselves, proves less than a credential in another header.
      if (agreed === null || agreed.credential?.kind === "session") agreed = caller;
    }
    // The cookie may belong to another service on the same host, so it need not be valid if there is another credential.
    if (agreed === null && callers.includes(null)) throw problem("no session");
    const { keys, bearer, basic } = this.trial === null ? this.credentials : NO_CREDENTIALS;
    // The claims of Authorization win over those of a key that agrees with it.
    const named = (bearer ?? basic) && callers.at(bearer === null ? -1 : keys.length);
    const caller = named && (agreed === null || isSame(named, agreed)) ? named : (agreed ?? callers[0] ?? anonymous);
    if (caller.role === "") throw problem("anonymous off");
    if (caller.credential?.kind === "session") this.#refuseForgery();
    return caller;
  }

  /** A cookie alone does not prove who wrote the request. */
  #refuseForgery(): void {
    const { method = "GET", headers } = this.#request;
    const store = this.#context.store!;
    // Every message of a WebSocket may change data, and browsers cannot send a CSRF token with the upgrade.
    if (this.#isSocket) {
      if (!store.isSameOrigin(headers)) throw problem("foreign page");
    } else if (!SAFE_METHODS.has(method)) {
      const token = csrfTokenIn(this.#request);
      if (token === null || !store.isCsrfToken(token, this.credentials.session!)) throw problem("no csrf token");
    }
  }
}

/** Rejects with Problem also if the database cannot answer now. */
const lookedUp = (callers: readonly (Caller | null | Promise<Caller | null>)[]) =>
  Promise.all(callers).catch((error) => {
    throw unavailabilityOf(error) ?? error;
  });

const NO_CREDENTIALS = { bearer: null, session: null, basic: null, unreadable: null, keys: [] as readonly string[] };
const isSame = (one: Caller, other: Caller) => one.role === other.role && one.claims.sub === other.claims.sub;

/** Who has sent a request, as far as it is known before its credentials are verified. */
type Sender = {
  /** The IP address. */
  readonly address: string;
};

const work = new AsyncLocalStorage<{ readonly sender: Sender; hasBegun: boolean }>();

/** Runs work of a request that has no caller yet, or none at all: sign-in, and lookups of credentials. */
export const forSender = <Result>(sender: Sender, run: () => Result): Result =>
  work.run({ sender, hasBegun: false }, run);

/** The network that the present work is done for. Null for background work. */
export function networkOfSender(): string | null {
  const current = work.getStore();
  return current === undefined ? null : networkOf(current.sender.address);
}

/** The sender as the client of its next transaction. Null for background work. Close it after the transaction. */
export function recipientOfSender(): Recipient | null {
  const network = networkOfSender();
  if (network === null) return null;
  const current = work.getStore()!;
  const recipient = new Recipient(network, network, { isContinued: current.hasBegun });
  current.hasBegun = true;
  return recipient;
}
