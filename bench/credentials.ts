import { Tokens } from "../identity/tokens.ts";

/** Shared by all servers, so that they accept the same tokens. */
export const SECRET = "a secret of the bench, long enough for HS256";

const tokens = new Tokens({ secret: SECRET, privateKey: "", audience: "", anonymousRole: "anon", accessSeconds: 3600 });

/** `Bearer eyJ…` of a user, valid for an hour. */
export function bearer(id = 1): string {
  const user = { id: String(id), name: `User number ${id}`, role: "authenticated", permissions: [] };
  return `Bearer ${tokens.issuePair(user).accessToken}`;
}

/** The key of anonymous callers. */
export const ANON_KEY = tokens.issueKey("anon");
