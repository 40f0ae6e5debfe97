import type { Kind } from "../../config/provider-entry.ts";
import { html } from "../../gate/pages/html.ts";
import { identityOf } from "../../gate/pipeline/exchange.ts";
import { SESSION } from "../../identity/cookies.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { keepOnce, takeOnce } from "../../rest-gateway/auth/one-time-values.ts";
import { type Recipient, sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { parseReturnTo } from "../../rest-gateway/auth/return-urls.ts";
import { type Call, currentSignInOf, signedInBy } from "../../rest-gateway/auth/route.ts";
import { findSession, signOut } from "../../rest-gateway/auth/sessions.ts";
import { Parameters, searchOf } from "../../rest-gateway/conventions/parameters.ts";
import { providerOf } from "./browser.ts";
import { takeSignIn } from "./completion.ts";
import { isSignInFailure } from "./failure.ts";
import { FLOW_SECONDS, flowKey, isState } from "./flow.ts";
import type { Provider } from "./provider.ts";
import { servicesOf } from "./services.ts";

// `/auth/{kind}/{provider}/logout`: ends the sign-in here and at the provider, which sends the browser back to the same URL.

/**
 * A link of a page of this service: ends the session, then continues at the provider, which sends the browser back with the parameter
 * `stateName`.
 */
export const signOutInBrowser =
  (kind: Kind, stateName: string) =>
  async (call: Call): Promise<void> => {
    const { sameOrigin } = call.auth;
    const provider = providerOf(call, kind);
    const search = searchOf(call.request);
    const state = new URLSearchParams(search).get(stateName);
    if (state !== null) return signedOutAtProvider(call, provider, state, search);
    // Otherwise a page of another origin could sign the user out.
    sameOrigin.require(call.request.headers);
    await endSession(call, provider);
  };

async function endSession(call: Call, provider: Provider): Promise<void> {
  const { auth, request, response } = call;
  const returnTo = parseReturnTo(readParameters(searchOf(request)), auth.returnUrls);
  const { credentials } = identityOf(request);
  const session = await findSession(auth, credentials);
  const { url, isUnavailable } = await providerUrl(auth, provider, session?.account.id ?? null, returnTo);
  if (session !== null) await signOut(call, { id: session.account.id, session: session.id }, "local", "session");
  else if (credentials.session !== null) SESSION.end(response);
  if (url !== null) return void response.redirect(303, url);
  if (isUnavailable) return sendSignedOut({ auth, response }, UNCONFIRMED);
  if (returnTo !== null) return void response.redirect(303, returnTo);
  sendSignedOut({ auth, response });
}

/** A program or a page with tokens: ends them as POST /auth/logout does, and returns the URL to continue at. */
export const signOutByClient = (kind: Kind) => async (call: Call<"account">) => {
  const { auth, request, signedIn } = call;
  const provider = providerOf(call, kind);
  const returnTo = parseReturnTo(readParameters(searchOf(request)), auth.returnUrls);
  const { url: location, isUnavailable } = await providerUrl(auth, provider, signedIn.id, returnTo);
  const by = signedInBy(signedIn);
  await signOut(call, currentSignInOf(signedIn), by === "session" ? "local" : "global", by);
  return { message: isUnavailable ? "signed out, but not at the provider" : "signed out", location };
};

function readParameters(search: string): Parameters {
  const parameters = new Parameters(search);
  parameters.refuseMalformed();
  parameters.allowOnly(["return_to"]);
  return parameters;
}

const UNCONFIRMED = "The provider has not confirmed that you are signed out there.";

type ProviderUrl = { readonly url: string | null; readonly isUnavailable: boolean };

/** The URL at the provider that ends the user's sign-in there; null if it has none. A provider at fault does not prevent a sign-out here. */
async function providerUrl(
  auth: Auth,
  provider: Provider,
  userId: string | null,
  returnTo: string | null,
): Promise<ProviderUrl> {
  const services = servicesOf(auth);
  const { providers, flows, clock, log } = services;
  const { name } = provider.settings;
  try {
    const issuer = await providers.issuerOf(provider);
    const signIn = userId === null ? null : await takeSignIn(services, userId, issuer);
    const flow = flows.create();
    const url = (await provider.logout?.(signIn, flow)) ?? null;
    // Not bound to a browser: the response of the provider only makes the browser continue at an allowed URL.
    const key = flowKey(flow.state, "", name);
    if (url !== null) await keepOnce(auth, "logout", key, { returnTo }, clock() + FLOW_SECONDS * 1000);
    return { url, isUnavailable: false };
  } catch (error) {
    if (!isSignInFailure(error)) throw error;
    log.warn({ provider: name, detail: error.more.detail }, "a sign-out cannot continue at the provider");
    return { url: null, isUnavailable: true };
  }
}

/** The provider has sent the browser back. */
async function signedOutAtProvider(to: Recipient, provider: Provider, state: string, query: string): Promise<void> {
  const { flows, log } = servicesOf(to.auth);
  const key = isState(state) ? flowKey(state, "", provider.settings.name) : null;
  const kept = key && (await takeOnce<{ readonly returnTo: string | null }>(to.auth, "logout", key));
  if (kept !== null) {
    try {
      await provider.finishLogout?.(query, flows.of(state));
    } catch (error) {
      if (!isSignInFailure(error)) throw error;
      log.warn({ provider: provider.settings.name, detail: error.more.detail }, "a sign-out was not confirmed");
      return sendSignedOut(to, UNCONFIRMED);
    }
  }
  if (kept?.returnTo) to.response.redirect(303, kept.returnTo);
  else sendSignedOut(to);
}

export function sendSignedOut(to: Recipient, text = "You can close this page."): void {
  sendPage(to, { title: "You are signed out", main: html`<p>${text}</p>` });
}
