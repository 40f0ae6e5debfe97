import { type Key, readJwks } from "../config/json-web-keys.ts";
import type { Clock } from "./account.ts";
import { type Outbound, OutboundError } from "./outbound.ts";

/** Milliseconds between two requests because of tokens with another key, which anyone can invent. */
const COOLDOWN = 30_000;
/** Milliseconds after which keys are read again, so that those that the issuer has withdrawn become invalid. */
const MAX_AGE = 600_000;

export type RemoteKeysOptions = {
  readonly issuer: string;
  /** Null to discover the URL. */
  readonly jwksUrl: string | null;
  readonly outbound: Outbound;
  readonly clock: Clock;
  /** Called when the keys have changed. */
  onChange(): void;
  /** Reports a request that failed. */
  onError(error: unknown): void;
};

/** A key set as its issuer publishes it, and the keys in it that verify tokens. */
export type KeySet = { readonly document: Readonly<Record<string, unknown>>; readonly keys: readonly Key[] };

/**
 * The public keys of an issuer. They are read when they are first needed, again after MAX_AGE in the background, and when a
 * token has another key: then at most once per COOLDOWN. If a request fails, the previous keys stay.
 */
export class RemoteKeys {
  readonly #options: RemoteKeysOptions;
  #url: string | null;
  #set: KeySet | null = null;
  #readAt = Number.NEGATIVE_INFINITY;
  /** When a request because of another key, or in place of a failed one, is allowed again. */
  #allowedAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(options: RemoteKeysOptions) {
    this.#options = options;
    this.#url = options.jwksUrl;
  }

  /** Rejects if the keys have never been read. */
  async current(): Promise<KeySet> {
    if (this.#set === null) await this.#readFirst();
    else if (this.#options.clock() - this.#readAt > MAX_AGE) this.#readAgain();
    return this.#set!;
  }

  /** The keys after another request, if one is allowed: for a token that none of the current keys has signed. */
  async newer(): Promise<KeySet> {
    if (this.#reading !== null || this.#takeTurn()) await this.#readAgain();
    return this.current();
  }

  async #readFirst(): Promise<void> {
    if (this.#reading === null && !this.#takeTurn()) throw new OutboundError("the last request has failed");
    await this.#read();
  }

  async #readAgain(): Promise<void> {
    await this.#read().catch(() => {});
  }

  #takeTurn(): boolean {
    const now = this.#options.clock();
    if (now < this.#allowedAt) return false;
    this.#allowedAt = now + COOLDOWN;
    return true;
  }

  /** Requests at the same time are one. */
  #read(): Promise<void> {
    this.#reading ??= this.#request().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #request(): Promise<void> {
    const { issuer, outbound, clock, onChange, onError } = this.#options;
    // Also after a failure, so that the next background request waits.
    this.#readAt = clock();
    try {
      this.#url ??= await discoverKeys(issuer, outbound);
      const document = await outbound.json(this.#url);
      const text = JSON.stringify(document);
      if (this.#set !== null && text === JSON.stringify(this.#set.document)) return;
      const keys = readPublicKeys(text);
      // The first token with another key may have a new one.
      if (this.#set === null) this.#allowedAt = Number.NEGATIVE_INFINITY;
      this.#set = { document, keys };
    } catch (error) {
      this.#url = this.#options.jwksUrl;
      onError(error);
      throw error;
    }
    onChange();
  }
}

/** The URL of the keys. Rejects with OutboundError. Source: OpenID Connect Discovery 1.0, section 4. */
export async function discoverKeys(issuer: string, outbound: Outbound): Promise<string> {
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const { issuer: named, jwks_uri: keys } = await outbound.json(url);
  if (named !== issuer) throw new OutboundError(`${url} names the issuer ${JSON.stringify(named)}, not ${issuer}`);
  if (typeof keys !== "string") throw new OutboundError(`${url} has no jwks_uri`);
  return keys;
}

/** Throws OutboundError if there is none. A secret in a public document is not a key. */
export function readPublicKeys(text: string): readonly Key[] {
  let keys: readonly Key[];
  try {
    keys = readJwks(text).filter(({ verify }) => verify.type === "public");
  } catch (error) {
    throw new OutboundError(`the key set ${(error as Error).message}`, { cause: error });
  }
  if (keys.length === 0) throw new OutboundError("the key set has no public key that verifies tokens");
  return keys;
}
