import { isIP } from "node:net";
import { valuesOf } from "../../config/declared.ts";
import { isLoopbackHost } from "../../config/json-file.ts";
import { problem } from "../../problems/problem.ts";
import type { PasskeySettings } from "../../rest-gateway/auth/passkeys/passkeys.ts";
import { PASSKEYS } from "./settings.ts";

/** Where passkeys of this service are used: its domain, and the pages that may ask for them. Source: WebAuthn, "relying party". */
export class RelyingParty {
  readonly #url: URL;
  /** Null if browsers allow no passkeys at the URL of the service. */
  readonly #domain: string | null;
  #origins: readonly string[] = [];

  /** `url` is the public URL of the service. */
  constructor(url: string, settings: PasskeySettings) {
    this.#url = new URL(url);
    this.#domain = domainOf(this.#url, valuesOf(settings, PASSKEYS).passkeyDomain);
    this.follow(settings);
  }

  /** Accepts the pages of these origins from now on, besides that of the service. */
  follow({ corsOrigins, authReturnOrigins }: Pick<PasskeySettings, "corsOrigins" | "authReturnOrigins">): void {
    const own = new URL(this.#url);
    if (isLoopbackHost(own.hostname)) own.hostname = LOCALHOST;
    this.#origins = [own.origin, ...corsOrigins, ...authReturnOrigins].filter((origin) => origin !== "*");
  }

  get isOn(): boolean {
    return this.#domain !== null;
  }

  /** Throws Problem if browsers allow no passkeys. */
  get domain(): string {
    if (this.#domain === null) throw problem("passkeys off", { url: this.#url.origin });
    return this.#domain;
  }

  get origins(): readonly string[] {
    return this.#origins;
  }

  /** Throws Problem for a page that may not use passkeys. */
  requireOrigin(origin: string): void {
    if (!this.#origins.includes(origin)) throw problem("passkey origin", { origin: origin.slice(0, 200) });
  }
}

const LOCALHOST = "localhost";

/** Browsers allow passkeys with https and a domain name, or on localhost. */
function domainOf({ protocol, hostname }: URL, chosen: string): string | null {
  if (isLoopbackHost(hostname)) return LOCALHOST;
  const isSecure = protocol === "https:" || hostname.endsWith(`.${LOCALHOST}`);
  if (!isSecure || isIP(hostname.replace(/^\[|\]$/g, "")) !== 0) return null;
  return chosen === "" ? hostname : chosen;
}
