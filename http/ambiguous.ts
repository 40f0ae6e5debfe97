import type { IncomingMessage } from "node:http";

/** Node keeps the first of two and forgets the other, where a proxy in front may have gone by the other. */
const ONCE = new Set(["host", "authorization"]);

/**
 * Why others may read this request differently from us: two Host or Authorization headers, or an address with a host
 * in it (`GET http://elsewhere/graphql`). Null for every other request.
 */
export function ambiguityOf({ rawHeaders, url = "/" }: IncomingMessage): string | null {
  if (!url.startsWith("/") && url !== "*") return "the request must name a path, not an address";
  const seen = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (!ONCE.has(name)) continue;
    if (seen.has(name)) return `the header ${name} must not be sent twice`;
    seen.add(name);
  }
  return null;
}
