import { Tokens } from "../rest-gateway/principal/tokens.ts";

/** All servers know it, and so take the same tokens. */
export const SECRET = "a secret of the bench, long enough for HS256";

const tokens = new Tokens({ secret: SECRET, privateKey: "", audience: "", anonymousRole: "anon" });

/** `Bearer eyJ…` of the first user, good for an hour. */
export function bearer(): string {
  const user = { id: "1", name: "User number 1", role: "authenticated", permissions: [] };
  return `Bearer ${tokens.issuePair(user).accessToken}`;
}

/** The key for everybody. */
export const ANON_KEY = tokens.issueKey("anon");
