import { networkOf } from "../../db/network.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { Linking, SignInRequest } from "../../rest-gateway/auth/federated.ts";
import { keepOnce, takeOnce } from "../../rest-gateway/auth/one-time-values.ts";
import { type AuthCall, requireRecent, requireSecondFactor, signedInOf } from "./call.ts";

// `supabase.auth.linkIdentity`: the user of a session signs in at a provider, whose identity then signs the user in too.

/** Seconds within which the browser must follow the URL that a client has received. */
const TICKET_SECONDS = 60;

/** What a ticket stands for. */
export type Ticket = { readonly provider: string; readonly network: string; readonly start: SignInRequest };

/** A URL of this service that begins the sign-in, for the browser: only there the cookie of the sign-in is set. */
export async function ticketUrl(call: AuthCall, provider: string, start: SignInRequest): Promise<string> {
  const { auth, client } = call;
  const linking = await linkingOf(call);
  const ticket = newSecret();
  const data: Ticket = { provider, network: networkOf(client.address), start: { ...start, linking } };
  await keepOnce(auth, "link", hashOf(ticket), data, auth.clock() + TICKET_SECONDS * 1000);
  return `${auth.url}/auth/v1/authorize?link=${ticket}`;
}

/** The user of the request, who may link an identity. Rejects with Problem. */
export async function linkingOf(call: AuthCall): Promise<Linking> {
  const signedIn = await signedInOf(call);
  const { userId, session } = signedIn;
  requireSecondFactor(signedIn);
  // An anonymous user cannot sign in again.
  if (!signedIn.user.is_anonymous) requireRecent(call.auth, signedIn);
  return { userId, session };
}

/**
 * What the ticket in the URL stands for, once. An attacker could send their own URL to another person, whose identity would then be
 * linked to the account of the sender. With PKCE the code would be useless in the browser of that person. Without it, the
 * browser must come from the page to which it returns. Rejects with Problem.
 */
export async function takeTicket({ auth, request, client }: AuthCall, ticket: string): Promise<Ticket> {
  const found = await takeOnce<Ticket>(auth, "link", hashOf(ticket));
  if (found === null || found.network !== networkOf(client.address)) throw problem("link expired");
  const { challenge, returnTo } = found.start;
  const isOwn = request.get("Sec-Fetch-Site") === "same-origin";
  const referrer = URL.parse(request.get("Referer") ?? "")?.origin;
  if (challenge !== null || isOwn || referrer === new URL(returnTo!).origin) return found;
  throw problem("link from elsewhere");
}
