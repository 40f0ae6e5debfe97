import { createHmac } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Cookie } from "../../identity/cookies.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import { deriveKey } from "../../rest-gateway/auth/secret-box.ts";

/** What one sign-in at a provider sends there. Nothing of it is stored: the rest follows from the state. */
export type Flow = {
  /** 256 random bits, as `state` or `RelayState`. */
  readonly state: string;
  readonly nonce: string;
  /** The secret of PKCE, 43 characters. Source: RFC 7636. */
  readonly codeVerifier: string;
  /** The id of a SAML request. */
  readonly requestId: string;
};

/** Creates flows, and recreates them from their state. */
export class Flows {
  readonly #key: Buffer;

  /** `secret` is the secret of the service. */
  constructor(secret: string) {
    this.#key = deriveKey(secret, "sign-in at a provider");
  }

  create(): Flow {
    return this.of(newSecret());
  }

  /** The provider and the browser see the state, and cannot compute the other values without the key. */
  of(state: string): Flow {
    const derive = (purpose: string, encoding: "base64url" | "hex") =>
      createHmac("sha256", this.#key).update(`${purpose}\0${state}`).digest(encoding);
    return {
      state,
      nonce: derive("nonce", "base64url"),
      codeVerifier: derive("code verifier", "base64url"),
      requestId: `_${derive("request", "hex")}`,
    };
  }
}

/** Whether a text has the form of a state or of the id of a browser. */
export const isState = (text: unknown): text is string => typeof text === "string" && /^[\w-]{43}$/.test(text);

/** The key of a flow: only the same browser can continue it, and only at the same provider. */
export const flowKey = (state: string, browser: string, provider: string): Buffer =>
  hashOf([state, browser, provider].join("\0"));

/**
 * The cookie that says in which browser a sign-in began. Browsers accept the prefix only with Secure, Path=/ and without
 * Domain, so no other host can set it. SameSite=Strict would leave it out when the provider sends the browser back; a POST
 * of the provider, as SAML uses, needs None.
 */
const COOKIES = {
  Lax: new Cookie("__Host-sign-in", "Path=/; HttpOnly; Secure; SameSite=Lax"),
  None: new Cookie("__Host-sign-in-post", "Path=/; HttpOnly; Secure; SameSite=None"),
};
export type SameSite = keyof typeof COOKIES;

/** Maximum duration of a sign-in, in seconds. */
export const FLOW_SECONDS = 600;

export const setBrowser = (response: ServerResponse, sameSite: SameSite, browser: string): void =>
  COOKIES[sameSite].set(response, browser, FLOW_SECONDS);

/** The id of the browser in the cookie; null without one. */
export function browserOf(request: IncomingMessage, sameSite: SameSite): string | null {
  const browser = COOKIES[sameSite].in(request);
  return isState(browser) ? browser : null;
}
