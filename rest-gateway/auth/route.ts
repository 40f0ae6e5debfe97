import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { type RequestHandler, Router } from "express";
import type { Caller } from "../../db/caller.ts";
import { problem } from "../../db/problems/problem.ts";
import { identityOf } from "../../http/pipeline/exchange.ts";
import { byMethod, type Methods } from "../../http/pipeline/express.ts";
import { ClientGone } from "../../http/pipeline/response.ts";
import type { Auth } from "./auth.ts";
import type { CurrentSignIn } from "./repository.ts";
import type { Client } from "./throttle.ts";

/** `routes({ "/auth/login": { POST: login } })`; other methods get 405. */
export function routes(paths: Readonly<Record<string, Methods>>): Router {
  const router = Router({ strict: true, caseSensitive: true });
  for (const [path, handlers] of Object.entries(paths)) router.all(path, byMethod(handlers));
  return router;
}

/** Disables caching of the response. */
export const route =
  (handler: (...given: Parameters<RequestHandler>) => Promise<void>): RequestHandler =>
  async (request, response, next) => {
    response.set("Cache-Control", "no-store");
    await handler(request, response, next);
  };

export const clientOf = ({ addressOf }: Auth, request: IncomingMessage, response: ServerResponse): Client => ({
  address: addressOf(request),
  signal: new ClientGone(response),
});

/** A signed-in user, who manages their own account. */
export type Owner = { readonly id: string; readonly caller: Caller };

/**
 * The caller, who manages their own account. An API key is not accepted: a thief could use it to create further keys, or to lock
 * the user out with a second factor. Rejects with Problem.
 */
export async function ownerOf(request: IncomingMessage): Promise<Owner> {
  const caller = await identityOf(request).caller();
  const { claims, credential } = caller;
  if (typeof claims.sub !== "string") throw problem("login required");
  if (credential?.kind === "key") throw problem("signed in by key");
  return { id: claims.sub, caller };
}

/** What the user is signed in with. */
export const currentSignInOf = ({ id, caller: { claims, credential } }: Owner): CurrentSignIn => ({
  id,
  family: credential?.kind === "token" && typeof claims.sid === "string" ? claims.sid : null,
  session: credential?.kind === "session" ? credential.id : null,
});

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
