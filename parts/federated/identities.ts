import type { z } from "zod";
import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import { isRecent, requireRecentSignIn } from "../../rest-gateway/auth/confirmation.ts";
import type { LinkedIdentity, Linking } from "../../rest-gateway/auth/federated.ts";
import type { Database } from "../../rest-gateway/auth/functions.ts";
import { normalizedEmail } from "../../rest-gateway/auth/login-names.ts";
import { findAccountOf } from "../../rest-gateway/auth/repository.ts";
import { type Call, currentSignInOf } from "../../rest-gateway/auth/route.ts";
import type { CurrentSignIn } from "../../rest-gateway/auth/session-repository.ts";
import { takeCode } from "../../rest-gateway/auth/sign-in-codes.ts";
import type { Client } from "../../rest-gateway/auth/throttle.ts";
import type { LinkBody } from "./bodies.ts";
import { type Confirmed, type SealedIdentity, sealedIn } from "./completion.ts";
import { type FederatedServices, servicesOf } from "./services.ts";

/** Identities that one account may have. */
export const MAX_IDENTITIES = 20;

export const listIdentities = async ({ auth, signedIn }: Call<"account">) => ({
  data: await listLinked(auth, signedIn.id),
});

/** Newest first. */
export const listLinked = ({ functions }: Database, userId: string): Promise<readonly LinkedIdentity[]> =>
  functions.call("list_identities($1)", [userId]);

export async function linkIdentity(call: Call<"account", z.infer<typeof LinkBody>>): Promise<LinkedIdentity> {
  const { auth, client, signedIn, body } = call;
  const services = servicesOf(auth);
  const { signInCode, codeVerifier, ...confirmation } = body;
  // From then on, the identity signs in.
  await requireRecentSignIn(auth, signedIn, confirmation, client);
  const confirmed = await takeCode<Confirmed>(services, signInCode, "link", codeVerifier);
  if (confirmed === null) throw problem("invalid sign-in code");
  const { provider, identity } = confirmed;
  const linked = await link(services, currentSignInOf(signedIn), provider, identity, client.address);
  if (linked === null) throw problem("revoked token");
  return (await listLinked(services, signedIn.id)).find(({ id }) => id === linked)!;
}

export async function unlinkIdentity({ auth, client, signedIn, id }: Call<"account">): Promise<void> {
  // The request has no body that could confirm it.
  if (!isRecent(auth, signedIn)) throw problem("recent sign-in required", { seconds: auth.settings.recentSignIn });
  if (!(await unlink(servicesOf(auth), currentSignInOf(signedIn), id, client))) throw problem("revoked token");
}

/** Ends all other sign-ins of the user. Returns false if this one has ended. Rejects with Problem. */
export async function unlink(
  { providers, functions }: FederatedServices,
  { id: userId, session }: CurrentSignIn,
  id: string,
  { address }: Client,
): Promise<boolean> {
  // Those with which the user can still sign in.
  const issuers = JSON.stringify(await providers.issuers());
  const values = [userId, id, issuers, session, address || null, functions.now()];
  const types = "$1, $2::uuid, array(select jsonb_array_elements_text($3::jsonb)), $4::uuid, $5::inet, $6::timestamptz";
  type Outcome = "unlinked" | "missing" | "last" | "changed";
  const outcome = await functions.change<Outcome>(`unlink_identity(${types})`, values);
  if (outcome === "missing") throw problem("no such identity");
  if (outcome === "last") throw problem("last way to sign in");
  return outcome === "unlinked";
}

/** Links an identity to the user who has begun, and returns the account. Rejects with Problem. */
export async function linkTo(
  services: FederatedServices,
  { userId, session }: Linking,
  provider: string,
  identity: SealedIdentity,
  address: string,
): Promise<Account> {
  const linked = await link(services, { id: userId, session }, provider, identity, address);
  if (linked === null) throw problem("session ended");
  return (await findAccountOf(services, userId))!;
}

type Linked =
  | { readonly outcome: "linked"; readonly id: string }
  | { readonly outcome: "taken" | "too many" | "changed" };

/** The id of the link. Null if the sign-in has ended. Rejects with Problem. */
async function link(
  { functions }: FederatedServices,
  { id: userId, session }: CurrentSignIn,
  provider: string,
  identity: SealedIdentity,
  address: string,
): Promise<string | null> {
  const { issuer, subject, email } = identity;
  const values = [
    ...[userId, session, issuer, subject, provider, email && normalizedEmail(email), sealedIn(identity)],
    ...[String(MAX_IDENTITIES), address || null, functions.now()],
  ];
  const types = "$1, $2::uuid, $3, $4, $5, $6, $7::bytea, $8::integer, $9::inet, $10::timestamptz";
  const linked = await functions.change<Linked>(`link_identity(${types})`, values);
  if (linked.outcome === "taken") throw problem("identity taken");
  if (linked.outcome === "too many") throw problem("too many identities", { max: MAX_IDENTITIES });
  return linked.outcome === "linked" ? linked.id : null;
}
