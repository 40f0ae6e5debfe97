import type { IncomingMessage, ServerResponse } from "node:http";

/** A cookie of the service: how it is written and read. */
export class Cookie {
  readonly #name: string;
  readonly #attributes: string;
  readonly #pattern: RegExp;

  constructor(name: string, attributes = "Path=/; HttpOnly; Secure; SameSite=Strict") {
    this.#name = name;
    this.#attributes = attributes;
    this.#pattern = new RegExp(`(?:^|;)\\s*${name}=([^;]*)`);
  }

  /** Null if it is missing or empty. If it is sent twice, the first counts, as it does for functions of the database. */
  in({ headers: { cookie } }: Pick<IncomingMessage, "headers">): string | null {
    return cookie === undefined ? null : this.#pattern.exec(cookie)?.[1]?.trim() || null;
  }

  /** Replaces what the response has set before. `seconds` is its lifetime; without it, the browser drops it when it is closed. */
  set(response: ServerResponse, value: string, seconds?: number): void {
    const start = `${this.#name}=`;
    const age = seconds === undefined ? "" : `; Max-Age=${seconds}`;
    const others = [response.getHeader("Set-Cookie") ?? []].flat().map(String);
    const kept = others.filter((each) => !each.startsWith(start));
    response.setHeader("Set-Cookie", [...kept, `${start}${value}; ${this.#attributes}${age}`]);
  }

  end(response: ServerResponse): void {
    this.set(response, "", 0);
  }
}

/** That of a session in a browser. The attributes and their order are those of the contract. */
export const SESSION = new Cookie("SESSION");
/** Seconds for which a session may be idle, and the lifetime of the cookie. Source: the contract, Session cookie. */
export const IDLE_SECONDS = 1800;
export const setSession = (response: ServerResponse, cookie: string): void =>
  SESSION.set(response, cookie, IDLE_SECONDS);
