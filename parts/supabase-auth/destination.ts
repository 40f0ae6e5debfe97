import type { Destination } from "../../rest-gateway/auth/mail/mails.ts";
import type { AuthCall } from "./call.ts";
import { invalid } from "./problem.ts";
import { WIRE } from "./wire.ts";

// Where a client continues after a sign-in that it does not complete itself.

/** `?redirect_to=`: a URL that is not allowed is left out, as on the wire of Supabase. */
export function returnToIn({ auth, request }: AuthCall): string | null {
  const { redirect_to: target } = request.query;
  return typeof target === "string" ? auth.returnUrls.parse(target) : null;
}

/** Where the link of an e-mail leads: to the application, which is signed in, if it has named a URL that is allowed. Throws Problem. */
export function destinationIn(call: AuthCall, type: string, sent: SentChallenge = {}): Destination {
  const returnTo = returnToIn(call);
  const challenge = challengeOf(sent);
  const withCode = returnTo !== null && challenge !== null && { challenge };
  return { returnTo, application: { wire: WIRE, type, ...withCode } };
}

/** The challenge that a client has sent; null without one. Throws Problem. */
export function challengeOf({
  code_challenge: challenge,
  code_challenge_method: method,
}: SentChallenge): string | null {
  if (!challenge) return null;
  if (method?.toLowerCase() === "s256" && /^[\w-]{43}$/.test(challenge)) return challenge;
  throw invalid("code_challenge must be the SHA-256 of the verifier in base64url, with code_challenge_method=s256");
}

export type SentChallenge = {
  readonly code_challenge?: string | null | undefined;
  readonly code_challenge_method?: string | null | undefined;
};
