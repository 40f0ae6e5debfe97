import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { anonymous, type Caller } from "../db/caller.ts";
import { networkOf } from "../db/network.ts";
import type { Trial } from "../db/transaction/run-options.ts";
import { problem } from "../problems/problem.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import {
  type AgreementContext,
  agreedCaller,
  type CredentialSender,
  callersOf,
  isSame,
  lookedUp,
} from "./agreement.ts";
import { apiKeyIn, type Credentials, readCredentials } from "./credentials.ts";
import { type KnownCaller, type KnownCallers, knownCallerOf, knownCallers } from "./known-caller.ts";
import { type IdentityContext, nameOfCaller, type Proof, proofsOf } from "./proofs.ts";
import { Sender } from "./sender.ts";
import type { CacheUse } from "./verified-tokens.ts";

export type CallerResolverOptions = Omit<IdentityContext, "anonymous">;

type Context = IdentityContext &
  AgreementContext & {
    /** Those whom credentials have identified in this context. */
    readonly known: KnownCallers;
    /** The tokens that were found among the known callers. */
    readonly use: { hits: number };
  };

/** Credentials → caller, for every interface. */
export class CallerResolver {
  #context: Context;

  constructor(options: CallerResolverOptions) {
    const { anonymousRole } = options;
    this.#context = {
      ...options,
      anonymous: anonymous(anonymousRole),
      hasServiceKey: true,
      known: knownCallers(),
      use: { hits: 0 },
    };
  }

  /** Verifies the tokens of later requests with another verifier, and gives anonymous callers another role. */
  follow({ tokens, anonymousRole }: Pick<CallerResolverOptions, "tokens" | "anonymousRole">): void {
    const changed = { tokens, anonymousRole, anonymous: anonymous(anonymousRole), known: knownCallers() };
    this.#context = { ...this.#context, ...changed };
  }

  /** From now on, the service key is refused: its role does not bypass row-level security. */
  refuseServiceKey(): void {
    this.#context = { ...this.#context, hasServiceKey: false, known: knownCallers() };
  }

  /** The metrics of verified tokens. */
  registerMetrics(metrics: Metrics): void {
    const counter = (name: keyof CacheUse, about: string, ofKnown = () => 0) => {
      const read = () => this.#context.tokens.cache[name] + ofKnown();
      metrics.counter({ name: `jwt_cache_${name}_total`, about, read });
    };
    const hits = () => this.#context.use.hits;
    counter("requests", "Lookups in the cache of checked tokens.", hits);
    counter("hits", "Lookups that found a token in the cache of checked tokens.", hits);
    counter("evictions", "Tokens evicted from the cache of checked tokens to make room for others.");
  }

  /** Identifies a request. With `hasFilters`, parameters of its URL are filters. No credential is looked up in the database yet. */
  identify(request: IncomingMessage, hasFilters = false): RequestIdentity {
    const apiKey = request.url!.includes("key") ? apiKeyIn(request.url!, hasFilters) : null;
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
    const proof = proofsOf({ ...NO_CREDENTIALS, ...kept }, request, this.#context)[0]!;
    return proof.caller(new Sender(this.#context.addressOf(request)));
  }

  /** Whether the user of a task still has the role that the task was accepted with. Signing out does not matter. */
  async isCurrent({ role, claims: { sub } }: Caller): Promise<boolean> {
    const { store } = this.#context;
    if (store === null || typeof sub !== "string") return true;
    return (await store.accounts.get(sub, null))?.role === role;
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

/**
 * The credentials of one request, and the caller that they identify. Each credential must be valid and all of them must
 * identify the same caller; an invalid one is refused and never ignored in favour of a weaker one. The anon key may
 * accompany every other credential. Credentials that have been checked before are found by their text, and only what is new, or
 * may have changed, is read and checked.
 */
export class RequestIdentity {
  /** Null for the requests of clients. */
  readonly trial: Trial | null;
  readonly #request: IncomingMessage;
  readonly #headers: IncomingHttpHeaders;
  /** The key in the URL. */
  readonly #apiKey: string | null;
  readonly #context: Context;
  readonly #isSocket: boolean;
  /** Null if the credentials have to be checked. */
  readonly #text: string | null;
  #known: KnownCaller | null;
  #credentials: Credentials | null;
  #proofs: readonly Proof[] | null;
  #network: string | null = null;
  /** Null before the credentials have identified the caller. */
  #found: Caller | null = null;

  constructor(
    request: IncomingMessage,
    headers: IncomingHttpHeaders,
    apiKey: string | null,
    context: Context,
    { isSocket = false, tried = null }: IdentityKind = {},
  ) {
    this.trial = tried?.trial ?? null;
    this.#text = tried || isSocket ? null : textOf(headers, apiKey);
    this.#known = this.#text === null ? null : (context.known.get(this.#text) ?? null);
    this.#proofs = tried ? [proofOf(tried.caller)] : null;
    this.#credentials = tried ? NO_CREDENTIALS : null;
    this.#request = request;
    this.#headers = headers;
    this.#apiKey = apiKey;
    this.#context = context;
    this.#isSocket = isSocket;
  }

  /** The name of a caller who has sent the same credential before; null for anonymous and unknown callers. Costs no query. */
  get knownName(): string | null {
    const known = this.#current();
    if (known !== null) return known.name;
    for (const proof of this.#allProofs) {
      const name = proof.knownName();
      if (name !== null) return name;
    }
    return null;
  }

  /** The name of the caller for the limits: `"user 7"` or `"key 5d3f…"`. Null for an anonymous caller. */
  nameOf(caller: Caller): string | null {
    return caller === this.#known?.caller ? this.#known.name : nameOfCaller(caller, this.#context.anonymousRole);
  }

  /** Whether functions of the database can read the credentials. */
  get showsCredentials(): boolean {
    return this.#context.showsCredentials;
  }

  /** The IP address of the client. */
  get address(): string {
    return this.#context.addressOf(this.#request);
  }

  /** The network of the client, under which the limits count it. */
  get network(): string {
    this.#network ??= networkOf(this.address);
    return this.#network;
  }

  /** The name under which the limits count the request: that of a known caller, or else the network. */
  get client(): string {
    return this.knownName ?? this.network;
  }

  /** Throws, or rejects with, Problem. A cached caller is returned without a promise. */
  caller(rules = NO_RULES): Caller | Promise<Caller> {
    const known = this.#current();
    const isInBrowser = known?.caller.role === "service_role" && this.#request.headers.origin !== undefined;
    if (known !== null && (known.hasKey || !rules.needsKey) && !isInBrowser) {
      if (known.hasToken) this.#context.use.hits++;
      return this.#keep(known.caller);
    }
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
    const sender = new Sender(this.address);
    const found = await lookedUp(proofs.map(async (proof) => proof.caller(sender)));
    if (!found.some((caller) => caller?.role === "service_role")) return;
    if (!this.#context.hasServiceKey) throw problem("service key off");
    if (this.#request.headers.origin) throw problem("service key in browser");
  }

  /** Rejects with Problem if the caller has changed: a thief may complete a request after the owner has signed out everywhere. */
  async recheck(): Promise<void> {
    const before = this.#found;
    if (before === null) return;
    const caller = await this.caller();
    if (caller !== before && !isSame(caller, before)) throw problem("revoked token");
  }

  #keep(caller: Caller): Caller {
    this.#found = caller;
    return caller;
  }

  #resolve({ needsKey }: CallerRules): Caller | Promise<Caller> {
    const { unreadable, keys } = this.credentials;
    if (unreadable !== null) throw problem("unreadable", unreadable === "Basic" ? { scheme: unreadable } : {});
    if (needsKey && keys.length === 0 && this.trial === null) throw problem("no key");
    const found = this.#allProofs.length === 0 ? [] : callersOf(this.#allProofs, new Sender(this.address));
    const isCached = found.every((caller) => !(caller instanceof Promise));
    if (!isCached) return lookedUp(found).then((callers) => agreedCaller(callers, this.#sender, this.#context));
    const caller = agreedCaller(found as readonly (Caller | null)[], this.#sender, this.#context);
    if (this.#text !== null) this.#remember(caller, found as readonly Caller[], this.#text);
    return caller;
  }

  /** Only what was found without waiting: no change can have been reported meanwhile. */
  #remember(caller: Caller, found: readonly Caller[], text: string): void {
    const { knownName: name } = this;
    const version = versionOf(this.#context);
    this.#known = knownCallerOf(this.credentials, { caller, name, version, found }, this.#context);
    if (this.#known) this.#context.known.set(text, this.#known);
  }

  /** The caller whom the credentials have identified before, if nothing has expired or changed since. */
  #current(): KnownCaller | null {
    const known = this.#known;
    if (known === null || known.version !== versionOf(this.#context)) return null;
    const { expiresAt } = known;
    if (expiresAt !== Number.POSITIVE_INFINITY) {
      const { store } = this.#context;
      if (expiresAt <= Date.now() || (store !== null && expiresAt <= store.clock())) return null;
    }
    return known;
  }

  get credentials(): Credentials {
    this.#credentials ??= readCredentials(this.#headers, this.#apiKey);
    return this.#credentials;
  }

  get #sender(): CredentialSender {
    return { request: this.#request, credentials: this.credentials, isSocket: this.#isSocket };
  }

  get #allProofs(): readonly Proof[] {
    this.#proofs ??= proofsOf(this.credentials, this.#request, this.#context);
    return this.#proofs;
  }

  /** The same client on a WebSocket, whose first message may replace some of the headers. */
  onSocket(headers: IncomingHttpHeaders): RequestIdentity {
    const all = { ...this.#request.headers, ...headers };
    return new RequestIdentity(this.#request, all, this.#apiKey, this.#context, { isSocket: true });
  }
}

const NO_CREDENTIALS = { bearer: null, session: null, basic: null, unreadable: null, keys: [] as readonly string[] };

/** Differs after a change of any account or signing key: what was checked before may have been revoked. */
const versionOf = ({ tokens, store }: Pick<IdentityContext, "tokens" | "store">): number =>
  tokens.validity.version + (store === null ? 0 : store.accounts.version);

/**
 * The text of all credentials of a request; `apiKey` is the key in its URL. Null with the cookie of a session, which does not prove who
 * wrote the request, and whose use extends the session: it is checked with each request. Header values have no line breaks.
 */
function textOf(headers: IncomingHttpHeaders, apiKey: string | null): string | null {
  const { authorization = "", apikey = "", "x-api-key": other = "", cookie } = headers;
  if (cookie?.includes("SESSION=")) return null;
  return `${authorization}\n${apikey}\n${other}\n${apiKey ?? ""}`;
}
