import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import { Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";

/** What the client that starts a sign-in wants to receive. */
export type SignInRequest = {
  /** session: a cookie. token: a pair of tokens. link: the identity is linked to the account of the caller. */
  readonly mode: (typeof MODES)[number];
  /** Absolute; null if the client has named none. */
  readonly returnTo: string | null;
  /**
   * The S256 challenge of a verifier that only the client knows: it receives a sign-in code at `returnTo`, and exchanges it
   * with the verifier. Null to complete the sign-in in the response to the provider.
   */
  readonly challenge: string | null;
  /** The API at which the sign-in has begun, and in whose way it continues; `/auth` if it is absent. */
  readonly wire?: string;
  /** The user of that API whom the identity is linked to. */
  readonly linking?: Linking;
};

/** A user, and the session in which the user has begun. */
export type Linking = { readonly userId: string; readonly session: string };

export const MODES = ["session", "token", "link"] as const;
const PARAMETERS = ["mode", "return_to", "code_challenge", "code_challenge_method"];

/** Parses `?mode=token&return_to=/app&code_challenge=…`. Throws Problem. */
export function parseSignInRequest(search: string, returnUrls: ReturnUrls): SignInRequest {
  const parameters = new Parameters(search);
  parameters.refuseMalformed();
  parameters.allowOnly(PARAMETERS);
  const mode = MODES.find((name) => name === (parameters.get("mode") ?? "session"));
  if (mode === undefined) throw badParameter("mode", `mode must be ${MODES.join(", ")}`);
  const start = { mode, returnTo: parseReturnTo(parameters, returnUrls), challenge: parseChallenge(parameters) };
  if (start.challenge === null) {
    if (mode === "link") throw badParameter("code_challenge", "code_challenge is required with mode=link");
    return start;
  }
  if (mode === "session") throw badParameter("code_challenge", "code_challenge requires mode=token or mode=link");
  if (start.returnTo === null) throw badParameter("return_to", "return_to is required with code_challenge");
  return start;
}

/** Throws Problem for a `return_to` that is not allowed. */
export function parseReturnTo(parameters: Pick<Parameters, "get">, returnUrls: ReturnUrls): string | null {
  const text = parameters.get("return_to");
  if (text === null) return null;
  const url = returnUrls.parse(text);
  if (url !== null) return url;
  const message = "return_to must be a path of this service, or a URL whose origin is in AUTH_RETURN_ORIGINS";
  throw badParameter("return_to", message);
}

function parseChallenge(parameters: Parameters): string | null {
  const challenge = parameters.get("code_challenge");
  const method = parameters.get("code_challenge_method") ?? "S256";
  if (method !== "S256") throw badParameter("code_challenge_method", "code_challenge_method must be S256");
  if (challenge === null || /^[\w-]{43}$/.test(challenge)) return challenge;
  throw badParameter(
    "code_challenge",
    "code_challenge must be the SHA-256 of the verifier in base64url: 43 characters",
  );
}

const MAX_LENGTH = 2000;
/** Milliseconds for which an origin is not logged again, and how many origins are known. */
const PAUSE = 600_000;
const MAX_REFUSED = 100;

/**
 * The absolute URL to which a browser returns after a sign-in: a path of this service, or a URL of an allowed origin. Null for
 * every other text. Only the normalized URL is stored and sent, so that a browser cannot read it as that of another origin.
 *
 *   new ReturnUrls("https://api.example.com/v1", [], log).parse("/app?a=b")     // "https://api.example.com/app?a=b"
 *   new ReturnUrls("https://api.example.com", [], log).parse("//evil.example")  // null
 */
export class ReturnUrls {
  readonly #origin: string;
  readonly #allowed: ReadonlySet<string>;
  readonly #refused = new LRUCache<string, true>({ max: MAX_REFUSED, ttl: PAUSE });
  readonly #log: Pick<Logger, "info">;

  /** `origins` are those of AUTH_RETURN_ORIGINS. The log names each origin that is not allowed once in ten minutes. */
  constructor(baseUrl: string, origins: readonly string[], log: Pick<Logger, "info">) {
    this.#origin = new URL(baseUrl).origin;
    this.#allowed = new Set([this.#origin, ...origins]);
    this.#log = log;
  }

  parse(text: string): string | null {
    if (text.length > MAX_LENGTH || !PRINTABLE.test(text)) return null;
    const isPath = /^\/(?![/\\])/.test(text);
    if (!isPath && !/^https?:\/\//i.test(text)) return null;
    const url = URL.parse(text, this.#origin);
    if (url === null || url.username !== "" || url.password !== "") return null;
    if (this.#allowed.has(url.origin)) return url.href;
    this.#report(url.origin);
    return null;
  }

  #report(origin: string): void {
    if (this.#refused.has(origin)) return;
    this.#refused.set(origin, true);
    this.#log.info(
      { origin },
      "a URL to return to after a sign-in or an e-mail was refused: if its origin is yours, add it to AUTH_RETURN_ORIGINS",
    );
  }
}

/** Browsers remove tabs and line breaks from URLs, and read a backslash as a slash. */
const PRINTABLE = /^[^\\\s\p{Cc}]+$/u;
