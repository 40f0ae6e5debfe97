import { type Caller, nobody } from "../../db/caller.ts";
import {
  anonymousOff,
  badApiKey,
  badToken,
  disagreeingCredentials,
  expiredToken,
  noApiKey,
  serviceKeyInBrowser,
} from "../table/problem.ts";
import { bearerToken } from "./bearer.ts";
import { TokenError, type Verifier } from "./verified-tokens.ts";

export type TableCallerOptions = {
  readonly tokens: Verifier;
  readonly apiKeyRequired: boolean;
  /** "" when nobody may come without a token. */
  readonly anonymousRole: string;
};

/** Headers of a request. An empty one is none. */
export type TableCredentials = {
  readonly apikey?: string | readonly string[] | undefined;
  readonly authorization?: string | undefined;
  /** Browsers send it; other programs don't. */
  readonly origin?: string | undefined;
};

/**
 * Who asks the table interface: the header `apikey` lets in, `Authorization: Bearer` may say who it is. Both may carry
 * the same key. A credential that is not good is refused, never passed over for a weaker one.
 */
export class TableCallers {
  readonly #options: TableCallerOptions;
  readonly #nobody: Caller;

  constructor(options: TableCallerOptions) {
    this.#options = options;
    this.#nobody = nobody(options.anonymousRole);
  }

  /** Throws TableError. */
  resolve({ apikey, authorization, origin }: TableCredentials): Caller {
    const key = this.#callerOfKey(apikey);
    const bearer = this.#callerOfBearer(authorization);
    if (origin && (isService(key) || isService(bearer))) throw serviceKeyInBrowser();
    const caller = this.#agree(key, bearer);
    if (caller.role === "") throw anonymousOff();
    return caller;
  }

  #callerOfKey(apikey: TableCredentials["apikey"]): Caller | null {
    const { tokens, apiKeyRequired } = this.#options;
    if (apikey) return orThrow(() => tokens.verifyKey(String(apikey)), badApiKey, badApiKey);
    if (apiKeyRequired) throw noApiKey();
    return null;
  }

  #callerOfBearer(authorization: string | undefined): Caller | null {
    if (!authorization) return null;
    const token = bearerToken(authorization);
    if (token === null) throw badToken();
    return orThrow(() => this.#options.tokens.verify(token), expiredToken, badToken);
  }

  /** The anonymous key lets everybody in; every other is somebody, whom the token may not contradict. */
  #agree(key: Caller | null, bearer: Caller | null): Caller {
    if (key === null || bearer === null) return bearer ?? key ?? this.#nobody;
    const isAnybody = key.role === this.#options.anonymousRole;
    if (!isAnybody && (key.role !== bearer.role || key.claims.sub !== bearer.claims.sub))
      throw disagreeingCredentials();
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
