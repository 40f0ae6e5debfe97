import type { IncomingHttpHeaders } from "node:http";
import { RefusedError } from "../../identity/refused.ts";

export type OwnPagesOptions = {
  /** The URL of the service; "" if it is that of the request. */
  readonly baseUrl: string;
  /** Origins that may send cookies; `*` is not one of them. */
  readonly corsOrigins: readonly string[];
};

/**
 * Whether a same-origin page, or a program, sends a request. It protects routes that need no CSRF token: there is no session
 * yet, or only the session to lose.
 */
export class OwnPages {
  readonly #origins: ReadonlySet<string>;

  constructor({ baseUrl, corsOrigins }: OwnPagesOptions) {
    this.#origins = new Set([
      ...corsOrigins.filter((origin) => origin !== "*"),
      ...(baseUrl === "" ? [] : [new URL(baseUrl).origin]),
    ]);
  }

  /** Browsers set Origin and Sec-Fetch-Site themselves: no page can forge them. */
  sends(headers: IncomingHttpHeaders): boolean {
    const { origin, host, "sec-fetch-site": site } = headers;
    if (origin !== undefined && this.#origins.has(origin)) return true;
    // Sent over https and to localhost only.
    if (site !== undefined) return site === "same-origin" || site === "none";
    // The scheme is not compared: a proxy may end TLS in front of the service.
    return origin === undefined || origin.replace(/^https?:\/\//, "") === host;
  }

  /** Throws RefusedError for a page of another origin. */
  refuseOthers(headers: IncomingHttpHeaders): void {
    if (!this.sends(headers)) throw new RefusedError("foreign page");
  }
}
