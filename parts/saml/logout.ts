import { findAccountOfIdentity } from "../../rest-gateway/auth/repository.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { signOut } from "../../rest-gateway/auth/sessions.ts";
import { searchOf } from "../../rest-gateway/conventions/parameters.ts";
import { providerOf } from "../federated/browser.ts";
import { sendSignedOut, signOutInBrowser } from "../federated/logout.ts";
import { servicesOf } from "../federated/services.ts";
import type { SamlProvider } from "./provider.ts";

/** A sign-out in a browser that begins here, or that the provider requests. */
export async function signOutBySaml(call: Call): Promise<void> {
  const search = searchOf(call.request);
  if (!new URLSearchParams(search).has("SAMLRequest")) return signOutFromHere(call);
  await signOutForProvider(call, providerOf(call, "saml") as SamlProvider, search);
}

const signOutFromHere = signOutInBrowser("saml", "RelayState");

/** The provider signs a user out everywhere, and has signed its request: ends all sign-ins of the user here. */
async function signOutForProvider(call: Call, provider: SamlProvider, query: string): Promise<void> {
  const { auth, response } = call;
  const { providers, flows } = servicesOf(auth);
  const issuer = await providers.issuerOf(provider);
  const sent = await provider.readLogoutRequest(query, auth);
  // If an attribute is the subject, the request does not say whose sign-in it is.
  const isSubject = provider.settings.claims.subject.length === 0;
  const account = isSubject ? await findAccountOfIdentity(auth, issuer, sent.nameId) : null;
  if (account !== null) await signOut(call, { id: account.id, session: null }, "global", "provider");
  const relayState = new URLSearchParams(query).get("RelayState") ?? "";
  const url = await provider.answerLogout(sent, account !== null, relayState.slice(0, MAX_RELAY_STATE), flows.create());
  if (url === null) sendSignedOut({ auth, response });
  else response.redirect(303, url);
}

/** Characters of the RelayState of a provider. Source: SAML 2.0 Bindings, 3.4.3, in bytes. */
const MAX_RELAY_STATE = 80;
