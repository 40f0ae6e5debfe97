import type { IncomingHttpHeaders } from "node:http";
import { RefusedError } from "../../identity/refused.ts";

export type OwnPagesOptions = {
  /** The address of the service; "" when it is that of the request. */
  readonly baseUrl: string;
  /** Origins that may call with cookies; `*` names none. */
  readonly corsOrigins: readonly string[];
};

/**
 * Whether a page of ours sends a request, or a program: the protection of what needs no token, as there is no session
 * yet, or nothing to lose but the session.
 */
export class OwnPages {
  readonly #origins: ReadonlySet<string>;

  constructor({ baseUrl, corsOrigins }: OwnPagesOptions) {
    this.#origins = new Set([
      ...corsOrigins.filter((origin) => origin !== "*"),
      ...(baseUrl === "" ? [] : [new URL(baseUrl).origin]),
    ]);
  }

  /** Browsers say both in their own name: no page can write Origin or Sec-Fetch-Site. */
  sends(headers: IncomingHttpHeaders): boolean {
    const { origin, host, "sec-fetch-site": site } = headers;
    if (origin !== undefined && this.#origins.has(origin)) return true;
    // Said over https and on localhost alone.
    if (site !== undefined) return site === "same-origin" || site === "none";
    // The scheme does not count: a proxy may end TLS in front of us.
    return origin === undefined || origin.replace(/^https?:\/\//, "") === host;
  }

  /** Throws RefusedError for pages of others. */
  refuseOthers(headers: IncomingHttpHeaders): void {
    if (!this.sends(headers)) throw new RefusedError("foreign page");
  }
}
