import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import type { Parameters } from "../conventions/parameters.ts";
import { badParameter } from "../conventions/problem.ts";

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

/** Throws Problem for a `return_to` that is not allowed. */
export function parseReturnTo(parameters: Pick<Parameters, "get">, returnUrls: ReturnUrls): string | null {
  const text = parameters.get("return_to");
  if (text === null) return null;
  const url = returnUrls.parse(text);
  if (url !== null) return url;
  const message = "return_to must be a path of this service, or a URL whose origin is in AUTH_RETURN_ORIGINS";
  throw badParameter("return_to", message);
}
