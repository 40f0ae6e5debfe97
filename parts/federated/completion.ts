import type { Account } from "../../identity/account.ts";
import type { Linking } from "../../rest-gateway/auth/federated.ts";
import { bytes } from "../../rest-gateway/auth/functions.ts";
import { normalizedEmail } from "../../rest-gateway/auth/login-names.ts";
import { refuseRaised } from "../../rest-gateway/auth/problem.ts";
import { isSignupOpen } from "../../rest-gateway/auth/registration.ts";
import { noteEvent } from "../../rest-gateway/auth/repository.ts";
import { signInFailure } from "./failure.ts";
import type { ConfirmedIdentity, Provider } from "./provider.ts";
import type { FederatedServices } from "./services.ts";

/** `signIn` is encrypted, and so is readable only by the service; in base64. */
export type SealedIdentity = ConfirmedIdentity & { readonly isSealed: true };

/** An identity, and the name of the provider that has confirmed it. */
export type Confirmed = {
  readonly provider: string;
  readonly identity: SealedIdentity;
  /** The user of `/auth/v1` whom the identity is linked to. */
  readonly linking?: Linking | undefined;
};

// Turns an identity that a provider has confirmed into an account.

/** The identity as it is stored. */
export function sealIdentity({ box }: FederatedServices, identity: ConfirmedIdentity): SealedIdentity {
  const { signIn } = identity;
  const owner = ownerOf(identity.issuer, identity.subject);
  return { ...identity, signIn: signIn && box.seal(signIn, owner).toString("base64"), isSealed: true };
}

/** What is sealed, as an argument of the type bytea. */
export const sealedIn = ({ signIn }: SealedIdentity): string | null => signIn && bytes(Buffer.from(signIn, "base64"));

/**
 * The account of an identity, by issuer and subject. If it has none and the provider may sign users up, a new account is created: an e-mail
 * is never enough to use an existing one. Rejects with Problem, also if a trigger of the database refuses the new user.
 */
export async function accountOfIdentity(
  services: FederatedServices,
  identity: SealedIdentity,
  { settings }: Provider,
  address: string,
): Promise<Account> {
  const account =
    (await useIdentity(services, identity, settings.name)) ?? (await register(services, identity, settings, address));
  if (!account.isDisabled) return account;
  const detail = { reason: "disabled", provider: settings.name };
  await noteEvent(services, { event: "login_refused", userId: account.id, address, detail });
  throw signInFailure("account disabled");
}

/** Records a sign-in. Returns null if the identity is not linked to an account. */
function useIdentity(
  { functions }: FederatedServices,
  identity: SealedIdentity,
  provider: string,
): Promise<Account | null> {
  const { issuer, subject, email } = identity;
  const values = [issuer, subject, provider, email && normalizedEmail(email), sealedIn(identity), functions.now()];
  return functions.call("use_identity($1, $2, $3, $4, $5::bytea, $6::timestamptz)", values);
}

async function register(
  services: FederatedServices,
  identity: SealedIdentity,
  { name: provider, signUp }: Provider["settings"],
  address: string,
): Promise<Account> {
  const { functions, settings } = services;
  const { issuer, subject, name, email } = identity;
  if (!signUp || !isSignupOpen(settings)) throw signInFailure("sign-up off");
  if (name === null || email === null) throw signInFailure("no e-mail");
  const values = [issuer, subject, provider, name, normalizedEmail(email), sealedIn(identity)];
  const types = "$1, $2, $3, $4, $5, $6::bytea, $7::inet, $8::timestamptz";
  const outcome = await functions
    .call<"registered" | "linked" | "email taken" | "malformed">(`register_identity(${types})`, [
      ...[...values, address || null, functions.now()],
    ])
    .catch(refuseRaised);
  if (outcome === "email taken") throw signInFailure("e-mail taken");
  if (outcome === "malformed") throw signInFailure("no e-mail", "the name or the e-mail is malformed");
  // Registered, or linked by another first sign-in at the same time.
  const account = await useIdentity(services, identity, provider);
  if (account === null) throw signInFailure("expired", "the account was deleted at the same time");
  return account;
}

/** Returns and deletes the data of the user's last sign-in that a sign-out at the issuer needs. Null if there is none. */
export async function takeSignIn(
  { functions, box }: FederatedServices,
  userId: string,
  issuer: string,
): Promise<string | null> {
  type Found = { readonly subject: string; readonly signIn: string };
  const found = await functions.call<Found | null>("take_sign_in($1, $2)", [userId, issuer]);
  return found && box.open(Buffer.from(found.signIn, "hex"), ownerOf(issuer, found.subject));
}

const ownerOf = (issuer: string, subject: string) => `${issuer}\0${subject}`;
