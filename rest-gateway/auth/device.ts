import type { IncomingMessage } from "node:http";
import { isIPv4, isIPv6 } from "node:net";
import { networkOf } from "../../db/network.ts";

/** What a user signs in with, as lists of sessions show it. */
export type Device = {
  /** `"Firefox on Linux"`, `"curl"`; null if the client has not named itself. */
  readonly name: string | null;
  /** The range of IP addresses of the client: `"203.0.113.0/24"`; null if its address is unknown. */
  readonly network: string | null;
};

export const deviceOf = ({ headers }: Pick<IncomingMessage, "headers">, address: string): Device => ({
  name: deviceName(headers["user-agent"] ?? ""),
  network: networkAround(address),
});

/** In this order: most browsers also name those before them, and systems those that they are based on. */
const BROWSERS = {
  Edg: "Edge",
  OPR: "Opera",
  Firefox: "Firefox",
  FxiOS: "Firefox",
  Chrome: "Chrome",
  CriOS: "Chrome",
  Safari: "Safari",
};
const SYSTEMS = {
  Android: "Android",
  iPhone: "iOS",
  iPad: "iPadOS",
  CrOS: "ChromeOS",
  Windows: "Windows",
  "Mac OS X": "macOS",
  Linux: "Linux",
};
/** Characters of the name of a program. */
const MAX_PROGRAM = 50;

/**
 *   deviceName("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")  // "Firefox on Linux"
 *   deviceName("curl/8.5.0")                                                               // "curl"
 */
export function deviceName(userAgent: string): string | null {
  if (!userAgent.startsWith("Mozilla/")) {
    const [program = ""] = /^[\w.+ -]+/.exec(userAgent) ?? [];
    // Programs of e-mail make links of domain names, and the program may be that of an attacker.
    return program.replaceAll(".", " ").trim().slice(0, MAX_PROGRAM) || null;
  }
  const browser = findIn(BROWSERS, (name) => userAgent.includes(`${name}/`)) ?? "Browser";
  const system = findIn(SYSTEMS, (name) => userAgent.includes(name));
  return system === null ? browser : `${browser} on ${system}`;
}

function findIn(names: Readonly<Record<string, string>>, isNamed: (name: string) => boolean): string | null {
  const [, found = null] = Object.entries(names).find(([name]) => isNamed(name)) ?? [];
  return found;
}

/**
 * The /24 of an IPv4 address and the /64 of an IPv6 address, so that users recognize where a session is from, and no address is stored.
 *
 *   networkAround("203.0.113.7")  // "203.0.113.0/24"
 */
export function networkAround(address: string): string | null {
  const network = networkOf(address);
  if (isIPv4(network)) return `${network.slice(0, network.lastIndexOf("."))}.0/24`;
  // networkOf returns every other text as it is.
  return isIPv6(`${network}::`) && network !== "" ? `${network}::/64` : null;
}
