import type { z } from "zod";
import type { ProviderSettings } from "../../config/provider-entry.ts";
import { problem } from "../../problems/problem.ts";
import { type Federated, providersOf, type SignInRequest } from "../../rest-gateway/auth/federated.ts";
import { issue } from "../../rest-gateway/auth/issue.ts";
import { type MailCode, mailsIn } from "../../rest-gateway/auth/mail/mails.ts";
import { takeCode } from "../../rest-gateway/auth/sign-in-codes.ts";
import { isUuid, searchOf } from "../../rest-gateway/conventions/parameters.ts";
import { IdTokenGrant, PkceGrant, readAuthBody, SsoRequest } from "./bodies.ts";
import { type AuthCall, requireRecent, requireSecondFactor, signedInOf } from "./call.ts";
import { challengeOf } from "./destination.ts";
import { linkingOf, takeTicket, ticketUrl } from "./linking.ts";
import { invalid } from "./problem.ts";
import { AUTH_SESSION, type SessionAnswer } from "./session.ts";
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
    return requireProvider(call, provider).begin(call, provider, start);
  }
  const name = sent.get("provider") ?? "";
  await requireProvider(call, name).begin(call, name, startIn(call, sent, "token"));
}

/**
 * `GET /user/identities/authorize?provider=acme&redirect_to=…&skip_http_redirect=true`: the URL at which the browser of the user begins
 * to link an identity. It returns as a sign-in does.
 */
export async function authorizeLink(call: AuthCall): Promise<object | undefined> {
  const sent = new URLSearchParams(searchOf(call.request));
  const name = sent.get("provider") ?? "";
  requireProvider(call, name);
  const url = await ticketUrl(call, name, startIn(call, sent, "link"));
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
  const { name } = requireSamlProvider(call, sent);
  const { redirect_to, code_challenge, code_challenge_method } = sent;
  const parameters = Object.entries({ redirect_to, code_challenge, code_challenge_method }).filter(
    ([, value]) => value,
  );
  const search = new URLSearchParams([["provider", name], ...(parameters as [string, string][])]);
  startIn(call, search, "token");
  const url = `${auth.url}/auth/v1/authorize?${search}`;
  if (sent.skip_http_redirect) return { url };
  return void response.redirect(303, url);
}

/** Throws Problem. */
function requireSamlProvider({ auth }: AuthCall, sent: z.infer<typeof SsoRequest>): ProviderSettings {
  const [id, domain] = [sent.provider_id?.toLowerCase(), sent.domain?.toLowerCase()];
  if (!id && !domain) throw invalid("A provider_id or a domain is required");
  const providers = providersOf(auth).filter(({ kind }) => kind === "saml");
  if (providers.length === 0) throw problem("SAML off");
  const found = providers.find(({ name, domains }) => (id ? name === id : domains?.includes(domain!)));
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
  return { mode, returnTo, challenge: challengeOf(Object.fromEntries(sent)), wire: WIRE };
}

/** What signs in at a provider of this name. Throws Problem. */
function requireProvider({ auth }: AuthCall, name: string): Federated {
  const { federated } = auth;
  if (federated?.list().some((each) => each.name === name)) return federated;
  throw invalid(`Unsupported provider: provider ${name.slice(0, 50)} could not be found`);
}

/** `POST /token?grant_type=pkce`: exchanges the code with which a sign-in at a provider, or the link of an e-mail, has continued. */
export async function grantByCode(call: AuthCall): Promise<SessionAnswer> {
  const { auth, request, client } = call;
  const { auth_code: code, code_verifier: verifier } = await readAuthBody(request, auth.limits, PkceGrant);
  if (!code || !verifier) throw invalid("invalid request: both auth code and code verifier should be non-empty");
  const mail = await takeCode<MailCode>(auth, code, "mail", verifier);
  // The token is taken only now: until then, the link can be opened again.
  const tokenHash = mail && Buffer.from(mail.tokenHash, "hex");
  const login = tokenHash && (await mailsIn(auth).takeCode(call, tokenHash, [mail.kind], "invalid sign-in code"));
  if (login !== null) return issue(call, login, AUTH_SESSION);
  if (auth.federated === null) throw problem("invalid sign-in code");
  return issue(call, await auth.federated.admitCode(auth, code, verifier, client), AUTH_SESSION);
}

/**
 * `POST /token?grant_type=id_token`: signs in with the ID token that a client has received from a provider of OpenID Connect itself, or
 * links its identity to the user of the request. A token signs in once.
 */
export async function grantByIdToken(call: AuthCall): Promise<SessionAnswer> {
  const { auth, request } = call;
  const sent = await readAuthBody(request, auth.limits, IdTokenGrant);
  const { id_token: idToken, access_token: accessToken, nonce } = sent;
  if (!idToken || !sent.provider) throw invalid("id_token and provider required");
  const { federated } = auth;
  if (!federated?.issuesIdTokens(sent.provider)) throw problem("provider off", { name: sent.provider });
  const linking = sent.link_identity ? await linkingOf(call) : null;
  const token = { idToken, nonce: nonce || null, accessToken: accessToken || null };
  return issue(call, await federated.admitIdToken(call, sent.provider, token, linking), AUTH_SESSION);
}

/** `DELETE /user/identities/{identityId}`: ends all other sign-ins of the user. */
export async function unlinkIdentity(call: AuthCall): Promise<object> {
  const { auth, request, client } = call;
  const signedIn = await signedInOf(call);
  requireSecondFactor(signedIn);
  requireRecent(auth, signedIn);
  const id = String(request.params.identityId).toLowerCase();
  // The password has the id of the user, and stays.
  if (id === signedIn.user.id) throw problem("last way to sign in");
  if (!isUuid(id)) throw problem("no such identity");
  const { userId, session } = signedIn;
  if (auth.federated === null) throw problem("no such identity");
  if (!(await auth.federated.unlink(auth, { id: userId, session }, id, client))) throw problem("session ended");
  return {};
}
