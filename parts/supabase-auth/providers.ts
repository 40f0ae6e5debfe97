import jwt from "jsonwebtoken";
import type { z } from "zod";
import { problem } from "../../db/problems/problem.ts";
import { hashOf } from "../../identity/secrets.ts";
import { CLOCK_TOLERANCE } from "../../identity/verified-tokens.ts";
import { beginSignIn, verifyResponse } from "../../rest-gateway/auth/federated/browser.ts";
import type { CodePurpose } from "../../rest-gateway/auth/federated/completion.ts";
import { isSignInFailure } from "../../rest-gateway/auth/federated/failure.ts";
import { linkTo } from "../../rest-gateway/auth/federated/identities.ts";
import { type Provider, proofOf } from "../../rest-gateway/auth/federated/provider.ts";
import type { SignInRequest } from "../../rest-gateway/auth/federated/sign-in-request.ts";
import { providerMethodOf } from "../../rest-gateway/auth/session-repository.ts";
import { isUuid, searchOf } from "../../rest-gateway/conventions/parameters.ts";
import { IdTokenGrant, PkceGrant, readAuthBody, SsoRequest } from "./bodies.ts";
import { type AuthCall, requireRecent, requireSecondFactor, signedInOf } from "./call.ts";
import { linkingOf, takeTicket, ticketUrl } from "./linking.ts";
import { invalid } from "./problem.ts";
import { type SessionAnswer, startAuthSession } from "./session.ts";
import { WIRE } from "./wire.ts";

/**
 * `GET /authorize?provider=acme&redirect_to=…&code_challenge=…`: sends the browser to the provider. It comes back to the callback of
 * the provider, which continues at `redirect_to`: with a code, or without a challenge with the tokens in the fragment.
 */
export async function authorize(call: AuthCall): Promise<void> {
  const sent = new URLSearchParams(searchOf(call.request));
  const ticket = sent.get("link");
  if (ticket !== null) {
    const { provider, start } = await takeTicket(call, ticket);
    return beginSignIn(call, requireProvider(call, provider), start);
  }
  await beginSignIn(call, requireProvider(call, sent.get("provider") ?? ""), startIn(call, sent, "token"));
}

/**
 * `GET /user/identities/authorize?provider=acme&redirect_to=…&skip_http_redirect=true`: the URL at which the browser of the user begins
 * to link an identity. It returns as a sign-in does.
 */
export async function authorizeLink(call: AuthCall): Promise<object | undefined> {
  const sent = new URLSearchParams(searchOf(call.request));
  const { settings } = requireProvider(call, sent.get("provider") ?? "");
  const url = await ticketUrl(call, settings.name, startIn(call, sent, "link"));
  if (sent.get("skip_http_redirect") === "true") return { url };
  return void call.response.redirect(302, url);
}

/**
 * `POST /sso`: the URL at which a browser begins to sign in at a provider with SAML, which its name or the domain of an e-mail finds. It
 * is one of this service, so that the sign-in is bound to the browser that opens it.
 */
export async function authorizeSso(call: AuthCall): Promise<object | undefined> {
  const { auth, request, response } = call;
  const sent = await readAuthBody(request, auth.limits, SsoRequest);
  const { settings } = requireSamlProvider(call, sent);
  const { redirect_to, code_challenge, code_challenge_method } = sent;
  const parameters = Object.entries({ redirect_to, code_challenge, code_challenge_method }).filter(
    ([, value]) => value,
  );
  const search = new URLSearchParams([["provider", settings.name], ...(parameters as [string, string][])]);
  startIn(call, search, "token");
  const url = `${auth.url}/auth/v1/authorize?${search}`;
  if (sent.skip_http_redirect) return { url };
  return void response.redirect(303, url);
}

/** Throws Problem. */
function requireSamlProvider({ auth }: AuthCall, sent: z.infer<typeof SsoRequest>): Provider {
  const [id, domain] = [sent.provider_id?.toLowerCase(), sent.domain?.toLowerCase()];
  if (!id && !domain) throw invalid("A provider_id or a domain is required");
  const providers = auth.federated.providers.list().filter(({ settings }) => settings.kind === "saml");
  if (providers.length === 0) throw problem("SAML off");
  const found = providers.find(({ settings }) => (id ? settings.name === id : settings.domains?.includes(domain!)));
  if (found === undefined) throw problem("no such SAML provider");
  return found;
}

function startIn(
  { auth: { returnUrls, url } }: AuthCall,
  sent: URLSearchParams,
  mode: "token" | "link",
): SignInRequest {
  const target = sent.get("redirect_to");
  // A URL that is not allowed is replaced, as on the wire of Supabase.
  const returnTo = (target && returnUrls.parse(target)) || new URL("/", url).href;
  return { mode, returnTo, challenge: challengeIn(sent), wire: WIRE };
}

/** Throws Problem. */
function requireProvider(call: AuthCall, name: string): Provider {
  const provider = findProvider(call, name);
  if (provider !== null) return provider;
  throw invalid(`Unsupported provider: provider ${name.slice(0, 50)} could not be found`);
}

function challengeIn(sent: URLSearchParams): string | null {
  const challenge = sent.get("code_challenge") || null;
  if (challenge === null) return null;
  const isHash = (sent.get("code_challenge_method") ?? "").toLowerCase() === "s256";
  if (isHash && /^[\w-]{43}$/.test(challenge)) return challenge;
  throw invalid("code_challenge must be the SHA-256 of the verifier in base64url, with code_challenge_method=s256");
}

const findProvider = ({ auth }: AuthCall, name: string): Provider | null =>
  auth.federated.providers.list().find(({ settings }) => settings.name === name) ?? null;

/** `POST /token?grant_type=pkce`: exchanges the code with which a sign-in at a provider has continued. */
export async function grantByCode(call: AuthCall): Promise<SessionAnswer> {
  const { auth, request, client } = call;
  const { auth_code: code, code_verifier: verifier } = await readAuthBody(request, auth.limits, PkceGrant);
  if (!code || !verifier) throw invalid("invalid request: both auth code and code verifier should be non-empty");
  const { completion } = auth.federated;
  const take = (purpose: CodePurpose) => completion.takeCode(code, purpose, verifier);
  const confirmed = (await take("token")) ?? (await take("link"));
  const provider = confirmed && findProvider(call, confirmed.provider);
  if (!confirmed || !provider) throw problem("invalid sign-in code");
  const account = confirmed.linking
    ? await linkTo(auth, confirmed.linking, confirmed, client.address)
    : await completion.accountOf(confirmed.identity, provider, client.address);
  const login = { attempt: [], address: client.address, ...proofOf(provider) };
  return startAuthSession(call, account, providerMethodOf(login), login);
}

/**
 * `POST /token?grant_type=id_token`: signs in with the ID token that a client has received from a provider of OpenID Connect itself, or
 * links its identity to the user of the request. A token signs in once.
 */
export async function grantByIdToken(call: AuthCall): Promise<SessionAnswer> {
  const { auth, request, client } = call;
  const sent = await readAuthBody(request, auth.limits, IdTokenGrant);
  const { id_token: idToken, access_token: accessToken, nonce } = sent;
  if (!idToken || !sent.provider) throw invalid("id_token and provider required");
  const provider = findProvider(call, sent.provider);
  if (!provider?.finishIdToken) throw problem("provider off", { name: sent.provider });
  const linking = sent.link_identity ? await linkingOf(call) : null;
  const token = { idToken, nonce: nonce || null, accessToken: accessToken || null };
  const { once, federated } = auth;
  const { completion } = federated;
  const identity = completion.seal(
    await verifyResponse(call, () => provider.finishIdToken!(token)).catch(refuseIdToken),
  );
  const { name } = provider.settings;
  const account = linking
    ? await linkTo(auth, linking, { provider: name, identity }, client.address)
    : await completion.accountOf(identity, provider, client.address);
  // With the time by which clocks may differ.
  const { exp } = jwt.decode(idToken) as jwt.JwtPayload;
  if (!(await once.keep("id token", hashOf(idToken), {}, (exp! + CLOCK_TOLERANCE) * 1000)))
    throw problem("bad ID token", { why: "it was used before" });
  return startAuthSession(call, account, "oauth", { attempt: [], address: client.address, provider: name });
}

/** Why a token is refused helps the developer of the client, and tells an attacker nothing new. */
function refuseIdToken(error: unknown): never {
  if (isSignInFailure(error) && error.reason === "not verified") {
    throw problem("bad ID token", { why: error.more.detail! });
  }
  throw error;
}

/** `DELETE /user/identities/{identityId}`: ends all other sign-ins of the user. */
export async function unlinkIdentity(call: AuthCall): Promise<object> {
  const { auth, request, client } = call;
  const signedIn = await signedInOf(call);
  requireSecondFactor(signedIn);
  requireRecent(auth, signedIn);
  const { identities, providers } = auth.federated;
  const id = String(request.params.identityId).toLowerCase();
  // The password has the id of the user, and stays.
  if (id === signedIn.user.id) throw problem("last way to sign in");
  if (!isUuid(id)) throw problem("no such identity");
  const { userId, session } = signedIn;
  const outcome = await identities.unlink({ id: userId, session }, id, await providers.issuers(), client.address);
  if (outcome === "changed") throw problem("session ended");
  if (outcome === "missing") throw problem("no such identity");
  if (outcome === "last") throw problem("last way to sign in");
  auth.forget(userId);
  return {};
}
