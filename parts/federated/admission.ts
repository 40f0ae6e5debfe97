import jwt from "jsonwebtoken";
import type { z } from "zod";
import { hashOf } from "../../identity/secrets.ts";
import { CLOCK_TOLERANCE } from "../../identity/verified-tokens.ts";
import { problem } from "../../problems/problem.ts";
import type { Linking, SentIdToken } from "../../rest-gateway/auth/federated.ts";
import { issueUnlessFactor, SIGNED_IN } from "../../rest-gateway/auth/issue.ts";
import { keepOnce } from "../../rest-gateway/auth/one-time-values.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import type { AdmittedLogin } from "../../rest-gateway/auth/sign-in.ts";
import { type CodePurpose, takeCode } from "../../rest-gateway/auth/sign-in-codes.ts";
import { type Client, reserveResponse, settle } from "../../rest-gateway/auth/throttle.ts";
import type { SignInCodeBody } from "./bodies.ts";
import { accountOfIdentity, type Confirmed, type SealedIdentity, sealIdentity } from "./completion.ts";
import { isSignInFailure } from "./failure.ts";
import { linkTo } from "./identities.ts";
import { type Provider, proofOf } from "./provider.ts";
import { type FederatedServices, servicesOf } from "./services.ts";

// Who signs in with an identity that a provider has confirmed.

/** The account of an identity, or the one that it is linked to first. */
export async function admit(
  services: FederatedServices,
  provider: Provider,
  identity: SealedIdentity,
  linking: Linking | null | undefined,
  { address }: Client,
): Promise<AdmittedLogin> {
  const account = linking
    ? await linkTo(services, linking, provider.settings.name, identity, address)
    : await accountOfIdentity(services, identity, provider, address);
  return { account, attempt: [], address, ...proofOf(provider) };
}

/** Rejects with Problem if the code is not valid, or the provider was removed after it had confirmed the identity. */
async function admitConfirmed(
  services: FederatedServices,
  confirmed: Confirmed | null,
  client: Client,
): Promise<AdmittedLogin> {
  const provider = confirmed && services.providers.byName(confirmed.provider);
  if (!confirmed || !provider) throw problem("invalid sign-in code");
  return admit(services, provider, confirmed.identity, confirmed.linking, client);
}

/** `POST /auth/federated/token` */
export async function exchangeSignInCode(call: Call<"none", z.infer<typeof SignInCodeBody>>) {
  const { auth, client, body } = call;
  const services = servicesOf(auth);
  const confirmed = await takeCode<Confirmed>(services, body.signInCode, "token", body.codeVerifier);
  return issueUnlessFactor(call, await admitConfirmed(services, confirmed, client), SIGNED_IN);
}

/** With a code of either purpose. */
export async function admitCode(
  services: FederatedServices,
  code: string,
  verifier: string,
  client: Client,
): Promise<AdmittedLogin> {
  const take = (purpose: CodePurpose) => takeCode<Confirmed>(services, code, purpose, verifier);
  return admitConfirmed(services, (await take("token")) ?? (await take("link")), client);
}

/** With an ID token, once. Only of providers that issue them. */
export async function admitIdToken(
  services: FederatedServices,
  provider: Provider,
  token: SentIdToken,
  linking: Linking | null,
  client: Client,
): Promise<AdmittedLogin> {
  const identity = await verifyResponse(services, client, () => provider.finishIdToken!(token)).catch(refuseIdToken);
  // With the time by which clocks may differ.
  const { exp } = jwt.decode(token.idToken) as jwt.JwtPayload;
  if (await keepOnce(services, "id token", hashOf(token.idToken), {}, (exp! + CLOCK_TOLERANCE) * 1000))
    return admit(services, provider, sealIdentity(services, identity), linking, client);
  throw problem("bad ID token", { why: "it was used before" });
}

/** Why a token is refused helps the developer of the client, and tells an attacker nothing new. */
function refuseIdToken(error: unknown): never {
  if (isSignInFailure(error) && error.reason === "not verified") {
    throw problem("bad ID token", { why: error.more.detail! });
  }
  throw error;
}

/** A response that cannot be verified counts as a failed login from the IP address: verifying one takes long. */
export async function verifyResponse<Identity>(
  services: FederatedServices,
  client: Client,
  verify: () => Promise<Identity>,
): Promise<Identity> {
  const attempt = await reserveResponse(services, client);
  try {
    const identity = await verify();
    await settle(services, attempt, false);
    return identity;
  } catch (error) {
    await settle(services, attempt, isSignInFailure(error) && error.reason === "not verified");
    throw error;
  }
}
