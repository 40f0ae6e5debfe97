import { Tokens } from "../identity/tokens.ts";

/** All servers know it, and so take the same tokens. */
export const SECRET = "a secret of the bench, long enough for HS256";

const tokens = new Tokens({ secret: SECRET, privateKey: "", audience: "", anonymousRole: "anon" });

/** `Bearer eyJ…` of a user, good for an hour. */
export function bearer(id = 1): string {
  const user = { id: String(id), name: `User number ${id}`, role: "authenticated", permissions: [] };
  return `Bearer ${tokens.issuePair(user).accessToken}`;
}

/** The key for everybody. */
export const ANON_KEY = tokens.issueKey("anon");
