import { type Caller, nobody } from "../../db/caller.ts";
import { bearerToken } from "./bearer.ts";
import { TokenError, type Verifier } from "./verified-tokens.ts";

/** What an interface says to credentials that it does not take, in its own vocabulary. */
export type Refusals = {
  noApiKey(): Error;
  badApiKey(): Error;
  expiredKey(): Error;
  badToken(): Error;
  expiredToken(): Error;
  disagreeingCredentials(): Error;
  serviceKeyInBrowser(): Error;
  anonymousOff(): Error;
};

export type CallerOptions = {
  readonly tokens: Verifier;
  readonly apiKeyRequired: boolean;
  /** "" when nobody may come without a token. */
  readonly anonymousRole: string;
  readonly refusals: Refusals;
};

/** Headers of a request. An empty one is none. */
export type Credentials = {
  readonly apikey?: string | readonly string[] | undefined;
  readonly authorization?: string | undefined;
  /** Browsers send it; other programs don't. */
  readonly origin?: string | undefined;
};

/**
 * Who asks: the header `apikey` lets in, `Authorization: Bearer` may say who it is. Both may carry
 * the same key. A credential that is not good is refused, never passed over for a weaker one.
 */
export class Callers {
  readonly #options: CallerOptions;
  readonly #nobody: Caller;

  constructor(options: CallerOptions) {
    this.#options = options;
    this.#nobody = nobody(options.anonymousRole);
  }

  /** Throws what the refusals make. */
  resolve({ apikey, authorization, origin }: Credentials): Caller {
    const key = this.#callerOfKey(apikey);
    const bearer = this.#callerOfBearer(authorization);
    if (origin && (isService(key) || isService(bearer))) throw this.#options.refusals.serviceKeyInBrowser();
    const caller = this.#agree(key, bearer);
    if (caller.role === "") throw this.#options.refusals.anonymousOff();
    return caller;
  }

  #callerOfKey(apikey: Credentials["apikey"]): Caller | null {
    const { tokens, apiKeyRequired, refusals } = this.#options;
    if (apikey) return orThrow(() => tokens.verifyKey(String(apikey)), refusals.expiredKey, refusals.badApiKey);
    if (apiKeyRequired) throw refusals.noApiKey();
    return null;
  }

  #callerOfBearer(authorization: string | undefined): Caller | null {
    if (!authorization) return null;
    const { tokens, refusals } = this.#options;
    const token = bearerToken(authorization);
    if (token === null) throw refusals.badToken();
    return orThrow(() => tokens.verify(token), refusals.expiredToken, refusals.badToken);
  }

  /** The anonymous key lets everybody in; every other is somebody, whom the token may not contradict. */
  #agree(key: Caller | null, bearer: Caller | null): Caller {
    if (key === null || bearer === null) return bearer ?? key ?? this.#nobody;
    const isAnybody = key.role === this.#options.anonymousRole;
    if (!isAnybody && (key.role !== bearer.role || key.claims.sub !== bearer.claims.sub))
      throw this.#options.refusals.disagreeingCredentials();
    return bearer;
  }
}

const isService = (caller: Caller | null) => caller?.role === "service_role";

function orThrow(verify: () => Caller, expired: () => Error, invalid: () => Error): Caller {
  try {
    return verify();
  } catch (error) {
    if (!(error instanceof TokenError)) throw error;
    throw error.reason === "expired" ? expired() : invalid();
  }
}
