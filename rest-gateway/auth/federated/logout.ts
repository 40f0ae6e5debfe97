import type { Request, Response, Router } from "express";
import { identityOf } from "../../../http/pipeline/exchange.ts";
import { Parameters } from "../../conventions/parameters.ts";
import type { Auth } from "../auth.ts";
import { ownerOf, routes } from "../route.ts";
import { endedCookie } from "../sessions.ts";
import { type Attempt, page } from "./attempt.ts";
import { isSignInFailure } from "./failure.ts";
import { FLOW_SECONDS, flowKey, isState } from "./flow.ts";
import { sendSignedOut } from "./pages.ts";
import type { Provider } from "./provider.ts";
import type { SamlProvider } from "./saml.ts";
import { parseReturnTo } from "./start.ts";

/** `/auth/{kind}/{provider}/logout`: ends the sign-in here and at the provider, which sends the browser back to the same URL. */
export function logoutRouter(auth: Auth): Router {
  const handlers = (kind: "oidc" | "saml") => ({
    GET: page(auth, (...given) => signOutInBrowser(auth, kind, ...given), TITLE),
    POST: page(auth, (...given) => signOutByClient(auth, kind, ...given), TITLE),
  });
  return routes({
    "/auth/oidc/:provider/logout": handlers("oidc"),
    "/auth/saml/:provider/logout": handlers("saml"),
  });
}

const TITLE = "You are not signed out";

type Kind = "oidc" | "saml";

/** A link of a page of this service: ends the session, then continues at the provider. */
async function signOutInBrowser(
  auth: Auth,
  kind: Kind,
  request: Request,
  response: Response,
  attempt: Attempt,
): Promise<void> {
  const { federated, sameOrigin, sessions } = auth;
  const provider = federated.providers.find(kind, String(request.params.provider));
  attempt.provider = provider;
  const search = request.url.split("?", 2)[1] ?? "";
  const sent = new URLSearchParams(search);
  if (kind === "saml" && sent.has("SAMLRequest")) {
    return signOutForProvider(auth, provider as SamlProvider, search, request, response);
  }
  const state = sent.get(kind === "saml" ? "RelayState" : "state");
  if (state !== null) return signedOutAtProvider(auth, provider, state, search, response);
  // Otherwise a page of another origin could sign the user out.
  sameOrigin.require(request.headers);
  const returnTo = parseReturnTo(readParameters(search), federated.returnUrls);
  const { credentials } = identityOf(request);
  const session = await sessions.of(credentials);
  const { url, isUnavailable } = await providerUrl(auth, provider, session?.account.id ?? null, returnTo);
  if (credentials.session !== null) response.set("Set-Cookie", endedCookie);
  if (session !== null) {
    await sessions.end(session.id);
    await noteLogout(auth, request, session.account.id, "session");
  }
  if (url !== null) return void response.redirect(303, url);
  if (isUnavailable) return sendSignedOut(response, UNCONFIRMED);
  if (returnTo !== null) return void response.redirect(303, returnTo);
  sendSignedOut(response);
}

/** A program or a page with tokens: ends them as POST /auth/logout does, and returns the URL to continue at. */
async function signOutByClient(
  auth: Auth,
  kind: Kind,
  request: Request,
  response: Response,
  attempt: Attempt,
): Promise<void> {
  const { federated, repository, sessions, forget } = auth;
  const provider = federated.providers.find(kind, String(request.params.provider));
  attempt.provider = provider;
  const returnTo = parseReturnTo(readParameters(request.url.split("?", 2)[1] ?? ""), federated.returnUrls);
  const { id, caller } = await ownerOf(request);
  const { url: location, isUnavailable } = await providerUrl(auth, provider, id, returnTo);
  const session = caller.credential?.kind === "session" ? identityOf(request).credentials.session : null;
  if (session !== null) {
    await sessions.end(session);
    response.set("Set-Cookie", endedCookie);
  } else {
    await repository.endEpoch(id);
    forget(id);
  }
  await noteLogout(auth, request, id, session === null ? "token" : "session");
  response.json({ message: isUnavailable ? "signed out, but not at the provider" : "signed out", location });
}

function readParameters(search: string): Parameters {
  const parameters = new Parameters(search);
  parameters.refuseMalformed();
  parameters.allowOnly(["return_to"]);
  return parameters;
}

const noteLogout = ({ repository, addressOf }: Auth, request: Request, userId: string, by: string) =>
  repository.note({ event: "logout", userId, address: addressOf(request), detail: { by } });

const UNCONFIRMED = "The provider has not confirmed that you are signed out there.";

type ProviderUrl = { readonly url: string | null; readonly isUnavailable: boolean };

/** The URL at the provider that ends the user's sign-in there; null if it has none. A provider at fault does not prevent a sign-out here. */
async function providerUrl(
  { federated, clock }: Auth,
  provider: Provider,
  userId: string | null,
  returnTo: string | null,
): Promise<ProviderUrl> {
  const { providers, completion, flows, once, log } = federated;
  const { name } = provider.settings;
  try {
    const issuer = await providers.issuerOf(provider);
    const signIn = userId === null ? null : await completion.takeSignIn(userId, issuer);
    const flow = flows.create();
    const url = await provider.logout(signIn, flow);
    // Not bound to a browser: the response of the provider only makes the browser continue at an allowed URL.
    const key = flowKey(flow.state, "", name);
    if (url !== null) await once.keep("logout", key, { returnTo }, clock() + FLOW_SECONDS * 1000);
    return { url, isUnavailable: false };
  } catch (error) {
    if (!isSignInFailure(error)) throw error;
    log.warn({ provider: name, detail: error.more.detail }, "a sign-out cannot continue at the provider");
    return { url: null, isUnavailable: true };
  }
}

/** The provider has sent the browser back. */
async function signedOutAtProvider(
  { federated }: Auth,
  provider: Provider,
  state: string,
  query: string,
  response: Response,
): Promise<void> {
  const key = isState(state) ? flowKey(state, "", provider.settings.name) : null;
  const kept = key && (await federated.once.take<{ readonly returnTo: string | null }>("logout", key));
  if (kept !== null) {
    try {
      await provider.finishLogout(query, federated.flows.of(state));
    } catch (error) {
      if (!isSignInFailure(error)) throw error;
      federated.log.warn(
        { provider: provider.settings.name, detail: error.more.detail },
        "a sign-out was not confirmed",
      );
      return sendSignedOut(response, UNCONFIRMED);
    }
  }
  if (kept?.returnTo) response.redirect(303, kept.returnTo);
  else sendSignedOut(response);
}

/** The provider signs a user out everywhere, and has signed its request: ends all sign-ins of the user here. */
async function signOutForProvider(
  auth: Auth,
  provider: SamlProvider,
  query: string,
  request: Request,
  response: Response,
): Promise<void> {
  const { federated, repository, forget } = auth;
  const { providers, identities, flows } = federated;
  const issuer = await providers.issuerOf(provider);
  const sent = await provider.readLogoutRequest(query);
  // If an attribute is the subject, the request does not say whose sign-in it is.
  const isSubject = provider.settings.claims.subject.length === 0;
  const account = isSubject ? await identities.accountOf(issuer, sent.nameId) : null;
  if (account !== null) {
    await repository.endEpoch(account.id);
    forget(account.id);
    await noteLogout(auth, request, account.id, "provider");
  }
  const relayState = new URLSearchParams(query).get("RelayState") ?? "";
  const url = await provider.answerLogout(sent, account !== null, relayState.slice(0, MAX_RELAY_STATE), flows.create());
  if (url === null) sendSignedOut(response);
  else response.redirect(303, url);
}

/** Characters of the RelayState of a provider. Source: SAML 2.0 Bindings, 3.4.3, in bytes. */
const MAX_RELAY_STATE = 80;
