const MAX_LENGTH = 2000;

/**
 * The absolute URL to which a browser returns after a sign-in: a path of this service, or a URL of an allowed origin. Null for
 * every other text. Only the normalized URL is stored and sent, so that a browser cannot read it as that of another origin.
 *
 *   new ReturnUrls("https://api.example.com/v1", []).parse("/app?a=b")     // "https://api.example.com/app?a=b"
 *   new ReturnUrls("https://api.example.com", []).parse("//evil.example")  // null
 */
export class ReturnUrls {
  readonly #origin: string;
  readonly #allowed: ReadonlySet<string>;

  /** `origins` are those of AUTH_RETURN_ORIGINS. */
  constructor(baseUrl: string, origins: readonly string[]) {
    this.#origin = new URL(baseUrl).origin;
    this.#allowed = new Set([this.#origin, ...origins]);
  }

  parse(text: string): string | null {
    if (text.length > MAX_LENGTH || !PRINTABLE.test(text)) return null;
    const isPath = /^\/(?![/\\])/.test(text);
    if (!isPath && !/^https?:\/\//i.test(text)) return null;
    const url = URL.parse(text, this.#origin);
    if (url === null || url.username !== "" || url.password !== "" || !this.#allowed.has(url.origin)) return null;
    return url.href;
  }
}

/** Browsers remove tabs and line breaks from URLs, and read a backslash as a slash. */
const PRINTABLE = /^[^\\\s\p{Cc}]+$/u;
