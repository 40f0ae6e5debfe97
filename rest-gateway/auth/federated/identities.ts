import type { z } from "zod";
import { problem } from "../../../db/problems/problem.ts";
import type { Account } from "../../../identity/account.ts";
import type { Auth } from "../auth.ts";
import { isRecent, requireRecentSignIn } from "../confirmation.ts";
import { type Call, currentSignInOf } from "../route.ts";
import { challengeOf, signIn } from "../tokens.ts";
import type { LinkBody, SignInCodeBody } from "./bodies.ts";
import type { SealedIdentity } from "./identity-repository.ts";
import { type Provider, proofOf } from "./provider.ts";
import type { Linking } from "./sign-in-request.ts";

/** Identities that one account may have. */
export const MAX_IDENTITIES = 20;

export const listProviders = async ({ auth }: Call) => ({
  data: auth.federated.providers.list().map(describeProvider),
});

export async function exchangeSignInCode(call: Call<"none", z.infer<typeof SignInCodeBody>>) {
  const { auth, client, body } = call;
  const { completion } = auth.federated;
  const confirmed = requireCode(await completion.takeCode(body.signInCode, "token", body.codeVerifier));
  const provider = requireCode(findByName(auth, confirmed.provider));
  const { address } = client;
  const account = await completion.accountOf(confirmed.identity, provider, address);
  const login = { account, attempt: [], address, ...proofOf(provider) };
  if (account.hasFactor) throw challengeOf(auth, account, login);
  return signIn(call, login);
}

/** Null if the provider was removed after it had confirmed the identity. */
const findByName = ({ federated }: Auth, name: string): Provider | null =>
  federated.providers.list().find(({ settings }) => settings.name === name) ?? null;

export const listIdentities = async ({ auth, signedIn }: Call<"account">) => ({
  data: await auth.federated.identities.list(signedIn.id),
});

export async function linkIdentity(call: Call<"account", z.infer<typeof LinkBody>>) {
  const { auth, response, client, signedIn, body } = call;
  const { identities, completion } = auth.federated;
  const { signInCode, codeVerifier, ...confirmation } = body;
  // From then on, the identity signs in.
  await requireRecentSignIn(auth, signedIn, confirmation, client);
  const { provider, identity } = requireCode(await completion.takeCode(signInCode, "link", codeVerifier));
  const linked = await identities.link(currentSignInOf(signedIn), identity, provider, MAX_IDENTITIES, client.address);
  if (linked.outcome === "changed") throw problem("revoked token");
  if (linked.outcome !== "linked") throw LINK_REFUSALS[linked.outcome]();
  auth.forget(signedIn.id);
  response.location(`/auth/identities/${linked.id}`);
  return (await identities.list(signedIn.id)).find(({ id }) => id === linked.id)!;
}

export async function unlinkIdentity({ auth, client, signedIn, id }: Call<"account">) {
  const { providers, identities } = auth.federated;
  // The request has no body that could confirm it.
  if (!isRecent(auth, signedIn)) throw problem("recent sign-in required", { seconds: auth.settings.recentSignIn });
  const outcome = await identities.unlink(currentSignInOf(signedIn), id, await providers.issuers(), client.address);
  if (outcome === "changed") throw problem("revoked token");
  if (outcome === "missing") throw problem("no such identity");
  if (outcome === "last") throw problem("last way to sign in");
  auth.forget(signedIn.id);
}

export const describeProvider = ({ settings: { name, title, kind } }: Provider) => ({
  name,
  title,
  kind,
  signIn: `/auth/${kind}/${name}`,
});

function requireCode<Found>(found: Found | null): Found {
  if (found !== null) return found;
  throw problem("invalid sign-in code");
}

const LINK_REFUSALS = {
  taken: () => problem("identity taken"),
  "too many": () => problem("too many identities", { max: MAX_IDENTITIES }),
};

/** Links an identity to the user who has begun, and returns the account. Rejects with Problem. */
export async function linkTo(
  auth: Auth,
  { userId, session }: Linking,
  { provider, identity }: { readonly provider: string; readonly identity: SealedIdentity },
  address: string,
): Promise<Account> {
  const signIn = { id: userId, session };
  const linked = await auth.federated.identities.link(signIn, identity, provider, MAX_IDENTITIES, address);
  if (linked.outcome === "changed") throw problem("session ended");
  if (linked.outcome === "taken") throw problem("identity taken");
  if (linked.outcome === "too many") throw problem("too many identities", { max: MAX_IDENTITIES });
  auth.forget(userId);
  return (await auth.repository.accountOf(userId))!;
}
