import type { Request, Response, Router } from "express";
import { identityOf } from "../../../http/exchange.ts";
import { Parameters } from "../../conventions/parameters.ts";
import type { Auth } from "../auth.ts";
import { ownerOf, routes } from "../route.ts";
import { endedCookie } from "../sessions.ts";
import { type Attempt, page } from "./attempt.ts";
import { FLOW_SECONDS, flowKey, isState } from "./flow.ts";
import { sendSignedOut } from "./pages.ts";
import type { Provider } from "./provider.ts";
import { parseReturnTo } from "./start.ts";

/** `/auth/oidc/{provider}/logout`: ends the sign-in here and at the provider, which sends the browser back to the same URL. */
export function logoutRouter(auth: Auth): Router {
  const logout = {
    GET: page(auth, (...given) => signOutInBrowser(auth, ...given), TITLE),
    POST: page(auth, (...given) => signOutByClient(auth, ...given), TITLE),
  };
  return routes({ "/auth/oidc/:provider/logout": logout });
}

const TITLE = "You are not signed out";

/** A link of a page of this service: ends the session, then continues at the provider. */
async function signOutInBrowser(auth: Auth, request: Request, response: Response, attempt: Attempt): Promise<void> {
  const { federated, sameOrigin, sessions } = auth;
  const provider = federated.providers.find("oidc", String(request.params.provider));
  attempt.provider = provider;
  const search = request.url.split("?", 2)[1] ?? "";
  const state = new URLSearchParams(search).get("state");
  if (state !== null) return signedOutAtProvider(auth, provider, state, response);
  // Otherwise a page of another origin could sign the user out.
  sameOrigin.require(request.headers);
  const returnTo = parseReturnTo(readParameters(search), federated.returnUrls);
  const { credentials } = identityOf(request);
  const session = await sessions.of(credentials);
  const url = await providerUrl(auth, provider, session?.account.id ?? null, returnTo);
  if (credentials.session !== null) response.set("Set-Cookie", endedCookie);
  if (session !== null) {
    await sessions.end(session.id);
    await noteLogout(auth, request, session.account.id, "session");
  }
  if (url !== null) return void response.redirect(303, url);
  if (returnTo !== null) return void response.redirect(303, returnTo);
  sendSignedOut(response);
}

/** A program or a page with tokens: ends them as POST /auth/logout does, and returns the URL to continue at. */
async function signOutByClient(auth: Auth, request: Request, response: Response, attempt: Attempt): Promise<void> {
  const { federated, repository, sessions, forget } = auth;
  const provider = federated.providers.find("oidc", String(request.params.provider));
  attempt.provider = provider;
  const returnTo = parseReturnTo(readParameters(request.url.split("?", 2)[1] ?? ""), federated.returnUrls);
  const { id, caller } = await ownerOf(request);
  const location = await providerUrl(auth, provider, id, returnTo);
  const session = caller.credential?.kind === "session" ? identityOf(request).credentials.session : null;
  if (session !== null) {
    await sessions.end(session);
    response.set("Set-Cookie", endedCookie);
  } else {
    await repository.endEpoch(id);
    forget(id);
  }
  await noteLogout(auth, request, id, session === null ? "token" : "session");
  response.json({ message: "signed out", location });
}

function readParameters(search: string): Parameters {
  const parameters = new Parameters(search);
  parameters.refuseMalformed();
  parameters.allowOnly(["return_to"]);
  return parameters;
}

const noteLogout = ({ repository, addressOf }: Auth, request: Request, userId: string, by: string) =>
  repository.note({ event: "logout", userId, address: addressOf(request), detail: { by } });

/** The URL at the provider that ends the user's sign-in there; null if it has none. */
async function providerUrl(
  { federated, clock }: Auth,
  provider: Provider,
  userId: string | null,
  returnTo: string | null,
): Promise<string | null> {
  const { completion, flows, once } = federated;
  const signIn = userId === null ? null : await completion.takeSignIn(userId, provider);
  const flow = flows.create();
  const url = await provider.logout(signIn, flow);
  if (url === null) return null;
  // Bound to no browser: all that it does is to continue at an allowed URL.
  const key = flowKey(flow.state, "", provider.settings.name);
  await once.keep("logout", key, { returnTo }, clock() + FLOW_SECONDS * 1000);
  return url;
}

/** The provider has sent the browser back. */
async function signedOutAtProvider(
  { federated }: Auth,
  provider: Provider,
  state: string,
  response: Response,
): Promise<void> {
  const key = isState(state) ? flowKey(state, "", provider.settings.name) : null;
  const kept = key && (await federated.once.take<{ readonly returnTo: string | null }>("logout", key));
  if (kept?.returnTo) response.redirect(303, kept.returnTo);
  else sendSignedOut(response);
}
