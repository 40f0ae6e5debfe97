import type { IncomingHttpHeaders } from "node:http";
import { problem } from "../../problems/problem.ts";

type SameOriginOptions = {
  /** The public URL of the service; "" to use the host of each request. */
  readonly baseUrl: string;
  /** Origins that may send cookies. `*` is ignored: it would accept every page. */
  readonly corsOrigins: readonly string[];
};

/**
 * Rejects requests from pages of other origins. It protects the routes that need no CSRF token: at a login there is no session
 * yet, and a logout can only end the session.
 */
export class SameOriginCheck {
  #origins: ReadonlySet<string> = new Set();

  constructor(options: SameOriginOptions) {
    this.follow(options);
  }

  /** Accepts these origins from now on. */
  follow({ baseUrl, corsOrigins }: SameOriginOptions): void {
    this.#origins = new Set([
      ...corsOrigins.filter((origin) => origin !== "*"),
      ...(baseUrl === "" ? [] : [new URL(baseUrl).origin]),
    ]);
  }

  /**
   * True for a page of an accepted origin, and for a client that is not a browser. Browsers set Origin and Sec-Fetch-Site
   * themselves: a page cannot forge them.
   */
  accepts(headers: IncomingHttpHeaders): boolean {
    const { origin, host, "sec-fetch-site": site } = headers;
    if (origin !== undefined && this.#origins.has(origin)) return true;
    // Browsers send it only over https and to localhost.
    if (site !== undefined) return site === "same-origin" || site === "none";
    // The scheme is not compared: a proxy in front of the service may terminate TLS.
    return origin === undefined || origin.replace(/^https?:\/\//, "") === host;
  }

  /** Throws Problem unless `accepts` is true. */
  require(headers: IncomingHttpHeaders): void {
    if (!this.accepts(headers)) throw problem("foreign page");
  }
}
