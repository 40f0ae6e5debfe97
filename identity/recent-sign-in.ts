import type { Caller } from "../db/caller.ts";

/**
 * Whether the caller has proved the password, and the second factor if one is enabled, within the last `seconds`. A refreshed
 * token is as old as its sign-in, and a key is never recent. `auth.has_recent_sign_in()` is the same rule for policies and
 * triggers. `now` is milliseconds since 1970.
 */
export function hasRecentSignIn({ claims }: Caller, now: number, seconds: number): boolean {
  const { auth_time: signedInAt } = claims;
  return typeof signedInAt === "number" && signedInAt * 1000 > now - seconds * 1000;
}
