import { bytesOf, Cache } from "../cache/cache.ts";
import type { Caller } from "../db/caller.ts";
import type { Credentials } from "./credentials.ts";
import type { IdentityContext } from "./proofs.ts";
import { isOpaqueKey } from "./secrets.ts";

/** Whom the credentials of a request have identified before. */
export type KnownCaller = {
  readonly caller: Caller;
  /** The name of the caller for the limits: `"user 7"` or `"key 5d3f…"`. Null for an anonymous caller. */
  readonly name: string | null;
  readonly hasKey: boolean;
  /** When the first of the credentials expires, in milliseconds since 1970; Infinity if none does. */
  readonly expiresAt: number;
  /** That of accounts and signing keys when the credentials were checked: they are checked again after any change. */
  readonly version: number;
  /** Whether one of the credentials is a token. */
  readonly hasToken: boolean;
};

/** By the text of the credentials. */
export type KnownCallers = Cache<KnownCaller>;

export const knownCallers = (): KnownCallers =>
  new Cache({ name: "identities", sizeOf: ({ caller }, text) => bytesOf(text) + bytesOf(caller) });

/**
 * What may be kept of credentials that agree on `caller`, all found without a lookup; `found` has the caller of each. Null for passwords,
 * which are verified again after a minute, for keys of the database, of which the process keeps only hashes, and for tokens of other
 * issuers, whose keys may have to be read again.
 */
export function knownCallerOf(
  { bearer, basic, session, keys }: Credentials,
  { found, ...known }: Pick<KnownCaller, "caller" | "name" | "version"> & { readonly found: readonly Caller[] },
  { tokens }: Pick<IdentityContext, "tokens">,
): KnownCaller | null {
  if (basic !== null || session !== null) return null;
  const sent = bearer === null ? keys : [...keys, bearer];
  if (sent.some((text) => isOpaqueKey(text) || tokens.isOwn?.(text) === false)) return null;
  const expiresAt = Math.min(...found.map((each) => each.expiresAt ?? Number.POSITIVE_INFINITY));
  return { ...known, hasKey: keys.length > 0, hasToken: sent.length > 0, expiresAt };
}
